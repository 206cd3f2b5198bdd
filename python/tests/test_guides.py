"""Every command and every Python block of the guides works as it stands.

A page runs from top to bottom in a folder of its own that has the repository's ``scenarios``,
``examples`` and the like. A comment of HTML before a block says what a reader would do beside it:

- ``<!-- save: NAME -->``: the block is a file;
- ``<!-- append: NAME -->``: the block is added to a file;
- ``<!-- given: COMMAND -->``, ``<!-- python: STATEMENTS -->``: what the reader has already;
- ``<!-- needs: PROGRAM PROGRAM -->``: one of these has to be installed, or the block is left out;
- ``<!-- slow -->``: the block takes more than some seconds and runs in ``make test-all``;
- ``<!-- not run: REASON -->``: the block cannot run in a test.

A block whose first line is ``# NAME.toml`` or the like is a file too. Blocks of ``output`` have to
be in what was printed until then.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

BLOCK = re.compile(r"((?:^<!-- .*? -->\n+)*)^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
NOTE = re.compile(r"<!-- (save|append|given|python|needs|slow|not run)(?:: (.*?))? -->", re.DOTALL)
NAMED = re.compile(r"\A# ([\w-]+\.\w+)$", re.MULTILINE)
PAGES = sorted((Path(__file__).resolve().parents[2] / "docs" / "guide").glob("*.md"))
FOLDERS = ("adapters", "examples", "include", "scenarios", "traces", "README.md")


class Block(NamedTuple):
    """A block of code with what the comments before it say."""

    language: str
    text: str
    notes: tuple[tuple[str, str], ...]

    def says(self, name):
        return [value for key, value in self.notes if key == name]


def blocks_of(text):
    for notes, language, body in BLOCK.findall(text):
        yield Block(language, body, tuple(NOTE.findall(notes)))


class Reader:
    """Who follows a page."""

    def __init__(self, page, folder, slow):
        self.page, self.folder, self.slow = page, folder, slow
        self.printed, self.names, self.ran = "", {}, 0

    def command(self, text):
        # The commands of the environment that runs the tests come first.
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", text],
            cwd=self.folder,
            env={**os.environ, "PATH": path, "CXLAB_CACHE": str(self.folder / "cache")},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        self.printed += done.stdout
        assert done.returncode == 0, f"{self.page.name}: {text}\n{done.stdout}"

    def follow(self, block, capsys):
        if block.says("not run") or (block.says("slow") and not self.slow):
            return
        if any(not any(map(shutil.which, names.split())) for names in block.says("needs")):
            return
        for given in block.says("given"):
            self.command(given)
        for statements in block.says("python"):
            exec(statements, self.names)
        for name in [*block.says("save"), *NAMED.findall(block.text)]:
            (self.folder / name).write_text(block.text)
        for name in block.says("append"):
            with (self.folder / name).open("a") as file:
                file.write("\n" + block.text)
        if block.language == "sh":
            self.ran += 1
            self.command(block.text)
        elif block.language == "python" and not block.says("save"):
            self.ran += 1
            exec(compile(block.text, self.page.name, "exec"), self.names)
            self.printed += capsys.readouterr().out
        elif block.language == "output":
            assert block.text in self.printed, block.text


def read(page, root, folder, capsys, monkeypatch, slow):
    for name in FOLDERS:
        (folder / name).symlink_to(root / name)
    monkeypatch.chdir(folder)
    monkeypatch.setenv("CXLAB_CACHE", str(folder / "cache"))
    reader = Reader(page, folder, slow)
    for block in blocks_of(page.read_text()):
        reader.follow(block, capsys)
    return reader


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_guide_works(page, root, tmp_path, capsys, monkeypatch):
    read(page, root, tmp_path, capsys, monkeypatch, slow=False)


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_slow_blocks_of_a_guide_work(page, root, tmp_path, capsys, monkeypatch):
    if not any(block.says("slow") for block in blocks_of(page.read_text())):
        pytest.skip("the page has no slow block")
    assert read(page, root, tmp_path, capsys, monkeypatch, slow=True).ran


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_what_does_not_run_has_a_reason(page):
    text = page.read_text()
    for block in blocks_of(text):
        assert all(block.says("not run")), f"{page.name}: a reason is missing"
    # A note that stands before no block, or is misspelt, would be without effect.
    used = sum(len(block.notes) for block in blocks_of(text))
    assert used == len(re.findall(r"^<!-- ", text, flags=re.MULTILINE))
