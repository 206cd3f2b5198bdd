"""What the site has beyond docs/: navigation, generated pages, and files that pages link to.

mkdocs calls the functions that begin with ``on_``. Pages keep the links that they have in the
repository; each is rewritten to where its target is on the site, and one without a target fails
the build.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

from gallery_pages import gallery, gallery_folder, gallery_index, gallery_page, has_lab
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files, InclusionLevel
from mkdocs.structure.pages import Page
from notebook_pages import notebook_page, notebooks
from papers import claims, paper_index, paper_page, papers

ROOT = Path(__file__).resolve().parent.parent.parent
#: Pages of the root that the site has, by their place on it.
PROJECT = {
    "ARCHITECTURE.md": "project/architecture.md",
    "CONTRIBUTING.md": "project/contributing.md",
    "SECURITY.md": "project/security.md",
    "CHANGELOG.md": "project/changelog.md",
}
LANGUAGES = {
    ".ipynb": "json",
    ".h": "c",
    ".c": "c",
    ".cpp": "cpp",
    ".py": "python",
    ".rs": "rust",
    ".toml": "toml",
}
PICTURES = {".png", ".svg"}
FENCE = re.compile(r"^```.*?^```$", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"(\]\()([^)\s]+)(\))")


def prose(text: str) -> Iterator[tuple[int, int]]:
    """The parts of a page that are not code, as ranges."""
    begin = 0
    for fence in FENCE.finditer(text):
        yield begin, fence.start()
        begin = fence.end()
    yield begin, len(text)


def rewrite_links(text: str, new: Any) -> str:
    """A page whose link targets are replaced by ``new(target)``, but for those in code."""
    parts, last = [], 0
    for begin, end in prose(text):
        parts.append(text[last:begin])
        parts.append(LINK.sub(lambda m: m[1] + new(m[2]) + m[3], text[begin:end]))
        last = end
    return "".join(parts)


def is_outside(target: str) -> bool:
    """Whether a link leads to another host or to its own page."""
    return "://" in target or target.startswith(("#", "mailto:"))


def repository_path(source: str) -> str:
    """Where a page of the site is in the repository; itself for one that is generated."""
    for name, place in PROJECT.items():
        if source == place:
            return name
    return f"docs/{source}"


def site_path(path: str) -> str | None:
    """Where a file of the repository is on the site; none for files that do not exist."""
    if path in PROJECT:
        return PROJECT[path]
    if path.startswith("docs/"):
        return path.removeprefix("docs/")
    if path in (f"examples/notebooks/{notebook.name}" for notebook in notebooks()):
        return f"notebooks/{Path(path).stem}.md"
    file = ROOT / path
    if not file.is_file():
        return None
    return path if file.suffix in PICTURES else f"source/{path}.md"


def linked_files() -> set[str]:
    """Files outside of docs/ that pages link to, as paths in the repository."""
    pages = [*sorted((ROOT / "docs").rglob("*.md")), *(ROOT / name for name in PROJECT)]
    found = set()
    for page in pages:
        folder = page.parent.relative_to(ROOT).as_posix()
        text = page.read_text(encoding="utf-8")
        for begin, end in prose(text):
            for match in LINK.finditer(text[begin:end]):
                if not is_outside(match[2]):
                    path = posixpath.normpath(posixpath.join(folder, match[2].split("#")[0]))
                    if not path.startswith("docs/") and path not in PROJECT:
                        found.add(path)
    return found


def source_page(path: str) -> str:
    """A page that shows a source file."""
    file = ROOT / path
    language = LANGUAGES.get(file.suffix, "text")
    return (
        f"# {file.name}\n\n`{path}`\n\n````{language}\n{file.read_text(encoding='utf-8')}\n````\n"
    )


def navigation() -> list[Any]:
    """The tabs, with the pages of docs/README.md in its order."""
    index = (ROOT / "docs" / "README.md").read_text(encoding="utf-8")
    tabs: list[Any] = [{"Home": "README.md"}]
    sections = re.split(r"^## ", index, flags=re.MULTILINE)[1:]
    for section in sections:
        title = section.splitlines()[0].split(":")[0]
        pages = dict.fromkeys(
            re.findall(r"\]\(((?:guide|reference|explain|notebook)/[^)#]+)\)", section)
        )
        if title.startswith("For maintainers"):
            pages = dict.fromkeys([*PROJECT.values(), *pages])
            title = "Project"
        tabs.append({title: list(pages)})
    names = [f"gallery/{entry['name']}.md" for entry in gallery()]
    if shown := notebooks():
        tabs[4:4] = [{"Notebooks": [f"notebooks/{path.stem}.md" for path in shown]}]
    tabs[4:4] = [
        {"Papers": ["papers/index.md", *(f"papers/{paper['name']}.md" for paper in papers())]},
        {"Gallery": ["gallery/index.md", *names]},
    ]
    return tabs


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Sets what follows from other files."""
    from pymdownx.slugs import slugify

    config.mdx_configs.setdefault("toc", {})["slugify"] = slugify(case="lower")
    config.nav = navigation()
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds the pages and pictures that are not in docs/."""

    def add(place: str, **what: Any) -> None:
        files.append(File.generated(config, place, **what))

    for name, place in PROJECT.items():
        add(place, content=(ROOT / name).read_text(encoding="utf-8"))
    paths = linked_files()
    for paper in papers():
        for row in claims(paper["name"]):
            paths.add(f"figures/{paper['name']}/{row['figure']}.png")
    for path in sorted(paths):
        new = site_path(path)
        if new is None or new.startswith("notebooks/"):
            continue
        if new == path:
            add(new, abs_src_path=str(ROOT / path))
        else:
            add(new, content=source_page(path), inclusion=InclusionLevel.NOT_IN_NAV)
    entries = gallery()
    add("gallery/index.md", content=gallery_index(entries))
    for entry in entries:
        name = entry["name"]
        add(f"gallery/{name}.md", content=gallery_page(entry))
        add(f"gallery/{name}.svg", abs_src_path=str(gallery_folder() / f"{name}.svg"))
    for notebook in notebooks():
        text, pictures = notebook_page(notebook)
        add(f"notebooks/{notebook.stem}.md", content=text)
        for picture, content in pictures.items():
            add(f"notebooks/{picture}", content=content)
    add("papers/index.md", content=paper_index())
    for paper in papers():
        add(f"papers/{paper['name']}.md", content=paper_page(paper))
    return files


def on_page_markdown(markdown: str, *, page: Page, **_: Any) -> str:
    """Rewrites links to files of the repository, and fills in the page of the Python package."""
    source = page.file.src_uri
    if source == "README.md":
        page.meta.update(template="home.html", hide=["navigation", "toc"], title="cxlab")
        page.meta["has_lab"] = has_lab()
    if source == "reference/python.md":
        return python_page(markdown)
    if source.startswith(("gallery/", "notebooks/", "papers/", "source/")):
        if source.startswith("source/"):
            page.meta["search"] = {"exclude": True}
        return markdown
    here = posixpath.dirname(repository_path(source))

    def new(target: str) -> str:
        if is_outside(target):
            return target
        path, _, anchor = target.partition("#")
        found = site_path(posixpath.normpath(posixpath.join(here, path)))
        if found is None:
            return target  # mkdocs says where it is broken
        relative = posixpath.relpath(found, posixpath.dirname(source) or ".")
        return quote(relative) + (f"#{anchor}" if anchor else "")

    return rewrite_links(markdown, new)


def python_page(markdown: str) -> str:
    """The page of the Python package, from the docstrings."""
    intro = markdown.split("\n## ")[0].replace(" This\npage is generated.", "")
    names = re.findall(r"^## `(cxlab\.[\w.]+)`", markdown, flags=re.MULTILINE)
    return intro + "".join(f"\n\n## `{name}`\n\n::: {name}\n" for name in names)


IMAGE = re.compile(r'<img alt="([^"]*)" src="([^"]+)"')
#: The theme's search is a dialog without a name, which screen readers ask for.
SEARCH = '<div class="md-search" data-md-component="search" role="dialog"'


def picture_size(file: Path) -> str:
    """The size of a PNG file as attributes; nothing for drawings, which have theirs inside."""
    head = file.read_bytes()[:24]
    if head[:8] != b"\x89PNG\r\n\x1a\n":
        return ""
    width, height = int.from_bytes(head[16:20], "big"), int.from_bytes(head[20:24], "big")
    return f' width="{width}" height="{height}"'


def on_page_content(html: str, *, page: Page, files: Files, **_: Any) -> str:
    """Gives pictures their size, so that text does not move when they come, and loads them late."""

    def new(match: re.Match[str]) -> str:
        place = posixpath.normpath(posixpath.join(page.file.dest_uri, "..", match[2]))
        file = files.get_file_from_path(place)
        size = picture_size(Path(file.abs_src_path)) if file and file.abs_src_path else ""
        return f'<img alt="{match[1]}" src="{match[2]}" loading="lazy"{size}'

    return IMAGE.sub(new, html)


def on_post_page(output: str, **_: Any) -> str:
    """Names the search dialog."""
    return output.replace(SEARCH, f'{SEARCH} aria-label="Search"')
