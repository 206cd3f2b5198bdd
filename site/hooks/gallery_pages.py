"""The pages of the gallery: what site/gallery.py measured, one page a scenario."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from markup import escape
from mkdocs.exceptions import PluginError


def gallery_folder() -> Path:
    """The folder that site/gallery.py has written."""
    return Path(os.environ["CXLAB_GALLERY"])


def gallery() -> list[dict[str, Any]]:
    """The scenarios of the gallery with their results."""
    index = gallery_folder() / "index.json"
    if not index.is_file():
        raise PluginError(f"{index} is missing; `make site` writes it by site/gallery.py")
    entries: list[dict[str, Any]] = json.loads(index.read_text(encoding="utf-8"))
    return entries


def gallery_index(entries: list[dict[str, Any]]) -> str:
    """The page with all pictures."""
    lines = [
        "# Gallery",
        "",
        "Every scenario that comes with cxlab, run as it is. "
        "The colour of a link says how busy it was.",
        "",
    ]
    lines += ['<div class="gallery">']
    for place, entry in enumerate(entries):
        loading = "lazy" if place >= 6 else "eager"
        name, title = entry["name"], entry["description"]
        lines.append(
            f'<a href="{name}/">'
            f'<img src="{name}.svg" alt="" loading="{loading}" width="320" height="200">'
            f"<strong>{name}</strong><span>{escape(title)}</span></a>"
        )
    return "\n".join([*lines, "</div>", ""])


def gallery_page(entry: dict[str, Any]) -> str:
    """The page of a scenario: paragraph, picture, table, file."""
    name = entry["name"]
    opened = ""
    if entry["why_not"]:
        opened = f"This scenario does not run in a browser: {entry['why_not']}.\n"
    elif has_lab():
        # As HTML: the lab is no page of the documentation, which links are checked against.
        address = f"../../lab/index.html#{entry['fragment']}"
        style = "md-button md-button--primary"
        opened = f'<a class="{style}" href="{address}">Open in the lab</a>\n'
    return (
        f"# {name}\n\n{entry['description']}\n\n{opened}\n"
        f"![{name}: links by use]({name}.svg)\n\n"
        f"```sh\n{entry['command']}\n```\n\n```\n{entry['table'].rstrip()}\n```\n\n"
        f"## The scenario\n\n```toml\n{entry['text'].rstrip()}\n```\n"
    )


def has_lab() -> bool:
    """Whether the lab was built, which needs the compiler's target for the browser."""
    return bool(os.environ.get("CXLAB_LAB"))
