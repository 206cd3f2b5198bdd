"""Style and script of the page that `cxlab report` writes, which the lab shares."""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files

#: The module that the page runs. It imports the others.
_ENTRY = "report-page.js"
#: An import of names from another module of this folder.
_IMPORT = re.compile(r'^import \{[^}]*\} from "\./([\w-]+\.js)";\n', re.MULTILINE)
#: The mark of a declaration that other modules see.
_EXPORT = re.compile(r"^export (?=(?:async )?(?:function|class|const|let)\b)", re.MULTILINE)


def style() -> str:
    """The style sheets of the components and of the page."""
    return _text("page.css") + _text("report-page.css")


@cache
def script() -> str:
    """All modules as one, each after those that it imports.

    Imports and the marks of exports are left out, so the names at the top of all modules share
    one scope, and no two modules may declare the same.
    """
    order: list[str] = []
    _visit(_ENTRY, order)
    texts = (_EXPORT.sub("", _IMPORT.sub("", _text(name))) for name in order)
    return "\n".join(texts)


def _visit(name: str, order: list[str]) -> None:
    """Appends a module to the order, after all that it imports. Modules do not import in rings."""
    for found in _IMPORT.finditer(_text(name)):
        if found[1] not in order:
            _visit(found[1], order)
    order.append(name)


def _text(name: str) -> str:
    return files(__name__).joinpath(name).read_text(encoding="utf-8")
