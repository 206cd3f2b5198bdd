"""Style and script of the page that `cxlab report` writes, which the lab shares."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.resources import files
from typing import Any

#: Significant digits of numbers in a page. It shows four, or whole numbers.
_DIGITS = 12
#: Least number of alike tables that are packed.
_PACKED = 4
#: An import of names from another module of this folder.
_IMPORT = re.compile(r'^import \{[^}]*\} from "\./([\w-]+\.js)";\n', re.MULTILINE)
#: The mark of a declaration that other modules see.
_EXPORT = re.compile(r"^export (?=(?:async )?(?:function|class|const|let)\b)", re.MULTILINE)


def style(*names: str) -> str:
    """Style sheets, one after another."""
    return "".join(_text(name) for name in names)


@cache
def script(entry: str) -> str:
    """A module and all that it imports as one, each after those that it imports.

    Imports and the marks of exports are left out, so the names at the top of all modules share
    one scope, and no two modules may declare the same.
    """
    order: list[str] = []
    _visit(entry, order)
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


def packed(value: Any) -> Any:
    """A value for the page: lists of alike tables by column, and numbers of few digits."""
    if isinstance(value, float):
        return float(f"{value:.{_DIGITS}g}")
    if isinstance(value, Mapping):
        return {key: packed(inner) for key, inner in value.items()}
    if not isinstance(value, list):
        return value
    if len(value) < _PACKED or not all(isinstance(row, Mapping) for row in value):
        return [packed(inner) for inner in value]
    flat = [dict(_leaves(row)) for row in value]
    columns = list(dict.fromkeys(path for row in flat for path in row))
    return {"columns": columns, "rows": [[row.get(path) for path in columns] for row in flat]}


def _leaves(table: Mapping[str, Any]) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Paths of keys to all values of a table that are not tables themselves."""
    for key, value in table.items():
        if isinstance(value, Mapping) and value:
            yield from (((key, *path), inner) for path, inner in _leaves(value))
        else:
            yield (key,), packed(value)
