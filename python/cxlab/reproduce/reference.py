"""Pages of ``docs/reference`` that follow from the schema, types, help texts and docstrings."""

from __future__ import annotations

import ast
import inspect
import io
import json
import re
import subprocess
import sys
import textwrap
import tokenize
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import cxlab
from cxlab import _analytic_types, _types

Schema = Mapping[str, Any]

#: Width of a line of Markdown.
_WIDTH = 98
#: How values of these definitions are written.
_UNITS = {
    "Picos": 'time, as `"46 ns"`',
    "Bytes": 'size, as `"16 GiB"`',
    "BytesPerSec": 'rate, as `"64 GB/s"`',
    "PartsPerMillion": 'share, as `"5 %"`',
}
#: Keys of the file, in the order in which a scenario is read.
_TABLES = (
    "name",
    "description",
    "seed",
    "fabric",
    "hosts",
    "devices",
    "accelerators",
    "address_map",
    "regions",
    "measure",
    "execution",
    "events",
    "failures",
    "fabric_manager",
    "enumeration",
    "fleet",
)
_COMMANDS = (
    "run",
    "compare",
    "diff",
    "new",
    "check",
    "plan",
    "list",
    "explain",
    "schema",
    "completions",
    "man",
    "fleet",
    "trace import",
    "trace info",
    "trace capture",
    "attach",
    "vm build",
    "vm run",
    "report",
    "sweep",
    "mlc",
    "calibrate",
    "reproduce",
)


def pages() -> dict[str, str]:
    """The generated pages, by their name in ``docs/reference``."""
    return {
        "scenario.md": scenario(cxlab.schema()),
        "scenario.schema.json": json.dumps(cxlab.schema(), indent=2, ensure_ascii=False) + "\n",
        "report.md": report(inspect.getsource(_types) + inspect.getsource(_analytic_types)),
        "command.md": command(),
        "python.md": python(),
    }


def _wrapped(text: str, first: str = "", rest: str = "") -> str:
    """A paragraph in lines of Markdown."""
    lines = textwrap.wrap(
        " ".join(text.split()),
        _WIDTH,
        initial_indent=first,
        subsequent_indent=rest,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return "\n".join(lines) + "\n"


def item(text: str, depth: int = 0) -> str:
    """An item of a list, which may be inside of other items."""
    indent = "  " * depth
    return _wrapped(text, f"{indent}- ", f"{indent}  ")


class _Keys:
    """Walks the schema from its root, and describes each table once."""

    def __init__(self, schema: Schema) -> None:
        self.definitions: Schema = schema["$defs"]
        # Definitions that allow the same count as one.
        first: dict[str, str] = {}
        self.same = {
            name: first.setdefault(json.dumps({**one, "description": ""}), name)
            for name, one in self.definitions.items()
        }
        self.pending: list[tuple[str, str]] = []
        self.described: dict[str, str] = {}

    def target(self, schema: Schema) -> tuple[str | None, bool]:
        """The definition that a schema refers to, and whether it is of a list's items."""
        if "$ref" in schema:
            return self.same[str(schema["$ref"]).rsplit("/", 1)[-1]], False
        for one in schema.get("anyOf", ()):
            if one.get("type") != "null":
                return self.target(one)
        if "items" in schema:
            return self.target(schema["items"])[0], True
        return None, False

    def value(self, schema: Schema) -> str:
        """Which values a key has, in a few words."""
        name, several = self.target(schema)
        if name in _UNITS:
            return ("list of: " if several else "") + _UNITS[name]
        if name is not None:
            if self.is_table(name):
                return "list of tables" if several else "table"
            return ("list of: " if several else "") + self.value(self.definitions[name])
        if words := self.words(schema):
            return ", ".join(f"`{word}`" for word in words)
        if "anyOf" in schema:
            return " or ".join(self.value(one) for one in schema["anyOf"])
        if "additionalProperties" in schema and "properties" not in schema:
            return "table of named tables"
        kinds = schema.get("type", ())
        kind = next(
            (one for one in ([kinds] if isinstance(kinds, str) else kinds) if one != "null"), ""
        )
        if kind in ("integer", "number"):
            low, high = schema.get("minimum"), schema.get("maximum")
            if low is not None and high is not None:
                return f"{low} to {high}"
            return "whole number" if kind == "integer" else "number"
        if kind == "array":
            return f"list of: {self.value(schema.get('items', {}))}"
        return {"boolean": "`true` or `false`", "string": "text"}.get(kind, "value")

    def words(self, schema: Schema) -> list[str]:
        """The words that a definition allows, if it allows words alone."""
        if "enum" in schema:
            return [json.dumps(word) for word in schema["enum"] if word is not None]
        words = [one.get("const") for one in schema.get("oneOf", ())]
        return [json.dumps(word) for word in words] if words and all(words) else []

    def is_table(self, name: str) -> bool:
        """Whether a definition has keys of its own."""
        schema = self.definitions[name]
        return "properties" in schema or any("properties" in one for one in schema.get("oneOf", ()))

    def keys(self, path: str, schema: Schema, skip: Sequence[str] = ()) -> Iterator[str]:
        """Items for the keys of a table. Tables that they refer to are described later."""
        required = schema.get("required", ())
        # Of several keys with the same table, the one with the shortest name describes it.
        for key in sorted(schema.get("properties", {}), key=len):
            name, several = self.target(schema["properties"][key])
            if name is not None and key not in skip:
                place = (f"{path}.{key}" if path else key) + ("[]" if several else "")
                self.described.setdefault(name, place)
        for key, one in schema.get("properties", {}).items():
            if key in skip:
                continue
            notes = [self.value(one)]
            if key in required:
                notes.append("required")
            name, several = self.target(one)
            where = f"{path}.{key}" if path else key
            text = one.get("description", "")
            if name is not None and self.is_table(name):
                place = f"{where}[]" if several else where
                self.pending.append((name, place))
                if (known := self.described[name]) != place:
                    text += f" Its keys are those of `{known}`."
            yield item(f"**`{key}`** ({'; '.join(notes)}): {text}")
            if name is not None:
                yield from self.meanings(self.definitions[name])

    def meanings(self, schema: Schema) -> Iterator[str]:
        """Items for words that have a description."""
        for one in schema.get("oneOf", ()):
            if "const" in one and "description" in one:
                yield item(f'`"{one["const"]}"`: {one["description"]}', 1)

    def table(self, path: str, name: str) -> Iterator[str]:
        """A section for a table, with a subsection for each kind of it."""
        schema = self.definitions[name]
        yield f"\n### `{path}`\n\n"
        if "description" in schema:
            yield _wrapped(schema["description"]) + "\n"
        yield from self.keys(path, schema)
        for one in schema.get("oneOf", ()):
            tag = next(
                (key for key, value in one.get("properties", {}).items() if "const" in value), None
            )
            if tag is None:
                yield item(f"{self.value(one)}: {one.get('description', '')}")
                continue
            yield f'\n#### `{path}`: `{tag} = "{one["properties"][tag]["const"]}"`\n\n'
            if "description" in one:
                yield _wrapped(one["description"]) + "\n"
            yield from self.keys(path, one, skip=[tag])


def scenario(schema: Schema) -> str:
    """The page of all keys of a scenario, from its JSON Schema."""
    walk = _Keys(schema)
    order = [name for name in _TABLES if name in schema["properties"]]
    order += [name for name in schema["properties"] if name not in order]
    parts = [
        "# Keys of a scenario\n\n",
        _wrapped(
            "Every table and key of a scenario file, from the schema that `cxlab schema` prints "
            "and `cxlab check` applies. A list of tables is written `[[name]]`; here its path ends "
            "with `[]`. A table that several places have is described at the first of them. This "
            "page is generated."
        ),
        "\n## The file\n\n",
        *walk.keys("", {**schema, "properties": {key: schema["properties"][key] for key in order}}),
    ]
    for top in sorted(walk.pending, key=lambda top: order.index(top[1].removesuffix("[]"))):
        walk.pending = [top]
        seen: set[str] = set()
        parts.append(f"\n## {top[1].removesuffix('[]')}\n")
        while walk.pending:
            name, path = walk.pending.pop(0)
            if name in seen or walk.described[name] != path:
                continue
            seen.add(name)
            later, walk.pending = walk.pending, []
            parts.extend(walk.table(path, name))
            walk.pending += later
    parts.insert(2, "\n" + "".join(_contents("".join(parts))))
    return re.sub(r"\n{3,}", "\n\n", "".join(parts))


def _contents(text: str) -> Iterator[str]:
    """The sections of a page, each with its tables, as links."""
    for section in text.split("\n## ")[1:]:
        titles = [section.partition("\n")[0], *re.findall(r"^### `(.+)`$", section, re.MULTILINE)]
        links = {
            re.sub(r"[^a-z0-9_ -]", "", title.lower()).replace(" ", "-"): title
            for title in reversed(titles)
        }
        first, *others = (f"[{title}](#{anchor})" for anchor, title in reversed(links.items()))
        yield item(f"{first}: {', '.join(others)}" if others else first)


def _comments(source: str) -> dict[int, str]:
    """Comments that begin with ``#:``, by the line that follows them."""
    found: dict[int, str] = {}
    block: list[str] = []
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT and token.string.startswith("#:"):
            block.append(token.string[2:].strip())
            found[token.end[0] + 1] = " ".join(block)
        elif token.type not in (tokenize.NL, tokenize.COMMENT):
            block = []
    return found


def report(source: str) -> str:
    """The page of all fields of a report, from the text of the modules with its types."""
    comments = _comments(source)
    classes = {one.name: one for one in ast.parse(source).body if isinstance(one, ast.ClassDef)}
    parts = [
        "# Fields of a report\n\n",
        _wrapped(
            "`cxlab run` writes `report.json`, and `cxlab.Report` is its type in Python. Names end "
            "with their unit: `_ns` nanoseconds, `_gb_per_s` GB/s (10^9 bytes per second). A field "
            "marked *may be absent* is there only where it has a meaning. "
            "[Stages and waits](waits.md) are defined apart, and so are the columns of the request "
            "log and the [statistics](statistics.md) that `processor`, `accelerator` and `medium` "
            "have by name. This page is generated."
        ),
    ]
    pending, seen = ["Report", "SeedsReport", "AnalyticReport"], set()
    while pending:
        name = pending.pop(0)
        if name in seen:
            continue
        seen.add(name)
        one = classes[name]
        parts.append(f"\n## `{name}`\n\n" + _wrapped(ast.get_docstring(one) or "") + "\n")
        bases = [base.id for base in one.bases if isinstance(base, ast.Name)]
        bases = [base for base in bases if base in classes]
        if bases:
            names = " and ".join(f"`{base}`" for base in bases)
            parts.append(_wrapped(f"It has the fields of {names}, and:") + "\n")
            pending += bases
        for field in one.body:
            if not isinstance(field, ast.AnnAssign):
                continue
            kind = ast.unparse(field.annotation)
            notes = [re.sub(r"^NotRequired\[(.*)\]$", r"\1", kind)]
            notes[0] = f"`{notes[0]}`"
            if kind.startswith("NotRequired"):
                notes.append("may be absent")
            text = comments.get(field.lineno, "")
            said = f": {text}" if text else ""
            name = ast.unparse(field.target)
            parts.append(item(f"**`{name}`** ({', '.join(notes)}){said}"))
            pending += [word for word in re.findall(r"\w+", kind) if word in classes]
    return "".join(parts)


def command() -> str:
    """The page of the command, from its help texts."""
    parts = [
        "# The command\n\n",
        _wrapped(
            "What `cxlab COMMAND --help` prints. Exit codes: 0 success; 1 output cannot be "
            "written; 2 a mistake of the user; 70 an error of cxlab; 71 an error of a plug-in; 130 "
            "interrupted, and what was measured is kept, marked partial. `attach` ends as its "
            "program does. `report`, `sweep`, `mlc`, `calibrate` and `reproduce` are part of the "
            "Python package. This page is generated."
        ),
    ]
    for name in _COMMANDS:
        done = subprocess.run(
            [sys.executable, "-m", "cxlab", *name.split(), "--help"],
            capture_output=True,
            text=True,
            check=True,
            env={"COLUMNS": "90", "TERM": "dumb"},
        )
        text = "\n".join(line.rstrip() for line in done.stdout.strip().splitlines())
        parts.append(f"\n## `cxlab {name}`\n\n```\n{text}\n```\n")
    return "".join(parts)


def _documented(thing: object) -> str:
    """A docstring as Markdown."""
    text = inspect.cleandoc(inspect.getdoc(thing) or "")
    text = re.sub(r":(?:class|func|meth|mod|data):`~?([^`]*)`", r"`\1`", text)
    text = re.sub(r"^(Args|Raises|Returns|Yields):\n", r"\1:\n\n", text, flags=re.MULTILINE)
    text = re.sub(r"^    (\w+): ", r"- `\1`: ", text, flags=re.MULTILINE)
    return re.sub(r"^ {8}(?=\S)", "  ", text, flags=re.MULTILINE).replace("``", "`")


def _signature(name: str, thing: object) -> str:
    """A call as it is written, with one argument a line if it is long."""
    try:
        signature = inspect.signature(thing)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return name
    arguments = [one for one in signature.parameters.values() if one.name != "self"]
    signature = signature.replace(parameters=arguments)
    text = re.sub(r"(: |-> )'([^']*)'", r"\1\2", f"{name}{signature}")
    text = re.sub(r"<factory>|<function [^>]*>", "...", text).removesuffix(" -> None")
    if len(text) <= _WIDTH:
        return text
    lines = [re.sub(r"(: )'([^']*)'", r"\1\2", str(one)) for one in arguments]
    star = next(
        (at for at, one in enumerate(arguments) if one.kind is inspect.Parameter.KEYWORD_ONLY), None
    )
    if star is not None and not any(
        one.kind is inspect.Parameter.VAR_POSITIONAL for one in arguments
    ):
        lines.insert(star, "*")
    inside = "".join(f"    {line},\n" for line in lines)
    return f"{name}(\n{inside}){text[text.rindex(')') + 1 :]}"


def _members(thing: object) -> Iterator[tuple[str, object]]:
    """Public methods and properties of a class, or functions and classes of a module."""
    if not (inspect.isclass(thing) or inspect.ismodule(thing)):
        return
    for name, member in vars(thing).items():
        if isinstance(member, (classmethod, staticmethod)):
            member = member.__func__
        is_own = inspect.isclass(thing) or getattr(member, "__module__", "") == thing.__name__
        is_code = inspect.isroutine(member) or isinstance(member, property)
        if not name.startswith("_") and is_own and (is_code or inspect.isclass(member)):
            yield name, member


def _code(text: str) -> str:
    return f"```python\n{text}\n```\n\n"


def python() -> str:
    """The page of the Python package, from its docstrings."""
    parts = [
        "# The Python package\n\n",
        _wrapped(
            "Every public name of `cxlab`, with its signature and docstring. The "
            "[guide](../guide/python.md) shows how they go together; the fields of a report have "
            "[a page of their own](report.md). This page is generated."
        ),
    ]
    for name in cxlab.__all__:
        thing = getattr(cxlab, name)
        is_code = inspect.isroutine(thing) or inspect.isclass(thing) or inspect.ismodule(thing)
        if not is_code or thing is cxlab.Report:
            continue
        parts.append(f"\n## `cxlab.{name}`\n\n")
        if callable(thing):
            parts.append(_code(_signature(name, thing)))
        parts.append(_documented(thing) + "\n")
        for key, member in _members(thing):
            parts.append(f"\n### `{name}.{key}`\n\n")
            if callable(member):
                parts.append(_code(_signature(key, member)))
            parts.append(_documented(member) + "\n")
    return "".join(parts)
