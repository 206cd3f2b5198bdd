"""Scenarios: descriptions of systems to simulate. Schema and checks are those of the command."""

from __future__ import annotations

import copy
import json
import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeAlias, cast

import tomli_w

from cxlab import _files, _native
from cxlab._types import Table, Value

#: Largest scenario file, in bytes.
_MOST_BYTES = 1 << 24

#: A path to a file.
PathLike: TypeAlias = str | os.PathLike[str]


def plain(value: object, path: str) -> Value:
    """Converts a value to TOML's types: numpy's numbers and arrays to Python's, paths to text.

    Raises:
        ValueError: a scenario cannot hold the value; ``path`` names its place.

    """
    if isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, Mapping):
        return {str(key): plain(item, f"{path}.{key}") for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item, f"{path}[{at}]") for at, item in enumerate(value)]
    if isinstance(value, os.PathLike):
        return os.fsdecode(value)
    if hasattr(value, "tolist"):  # numpy's numbers and arrays
        return plain(value.tolist(), path)
    raise ValueError(
        f"{path}: found {value!r:.60}; allowed: text, numbers, true, false, lists and tables"
    )


def inline(value: Value) -> str:
    """Formats a value as TOML on one line."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        # A JSON string is a TOML string, except that TOML requires DEL to be escaped.
        return json.dumps(value).replace("\x7f", "\\u007f")
    if isinstance(value, Mapping):
        items = (f"{json.dumps(key)} = {inline(item)}" for key, item in value.items())
        return "{ " + ", ".join(items) + " }"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(inline(item) for item in value) + "]"
    return repr(value)


class Scenario:
    """A system, its workloads, and how they are measured.

    A scenario holds only the values that were written, and cxlab fills in the defaults. It is
    made from a file, from text, from values, or by its methods::

        scenario = (
            Scenario("pool")
            .fabric(topology=topology("ring", switches=4))
            .hosts("host", count=4, workload=workload("uniform", read_ratio=0.67))
            .devices("mem", count=4, memory=memory("fixed", latency="46 ns"))
        )

    A scenario never changes: methods return another one with the change, so that calls can be
    chained. Messages about a scenario that was made by its methods have the lines of
    :meth:`to_toml`.
    """

    _text: str
    _set: list[str]
    _name: str
    _folder: Path

    def __init__(self, name: str, **values: Value) -> None:
        """Begins a scenario. ``values`` are its top-level keys, such as ``seed``.

        Raises:
            ValueError: the name is that of a file, or text of several lines.

        """
        if name.endswith(".toml") or "\n" in name:
            raise ValueError(
                f"name: found {name:.60}; allowed: a name (Scenario.from_file reads a file, "
                "Scenario.from_toml a text)"
            )
        self._write({"name": name, **values})
        self._folder = Path()

    @classmethod
    def from_toml(cls, text: str, *, name: str = "scenario", folder: PathLike = ".") -> Scenario:
        """Makes a scenario from TOML.

        ``name`` is the name of the text in messages. Relative paths in it start from ``folder``.
        """
        scenario = cls.__new__(cls)
        scenario._text, scenario._set = text, []
        scenario._name, scenario._folder = name, Path(folder)
        return scenario

    @classmethod
    def from_file(cls, path: PathLike) -> Scenario:
        """Makes a scenario from a TOML file. Relative paths in it start from the file's folder."""
        path = Path(path)
        text = _files.read_text(path, _MOST_BYTES)
        return cls.from_toml(text, name=str(path), folder=path.parent)

    @classmethod
    def from_dict(cls, values: Mapping[str, Value], *, folder: PathLike = ".") -> Scenario:
        """Makes a scenario from its values."""
        scenario = cls.__new__(cls)
        scenario._write(dict(values))
        scenario._folder = Path(folder)
        return scenario

    def _write(self, values: Table) -> None:
        known = {key: plain(value, key) for key, value in values.items()}
        self._text, self._set = tomli_w.dumps(known), []
        name = known.get("name")
        self._name = name if isinstance(name, str) else "scenario"

    # Access to the values.

    def to_dict(self) -> Table:
        """The values as they were written, without defaults."""
        merged = json.loads(_native.merge(self._name, self._text, self._set))
        return cast("Table", merged)

    def to_toml(self) -> str:
        """The scenario as TOML text, including all changes."""
        return tomli_w.dumps(self.to_dict()) if self._set else self._text

    def save(self, path: PathLike) -> None:
        """Writes the scenario to a file, completely or not at all."""
        _files.write_text(Path(path), self.to_toml())

    @property
    def folder(self) -> Path:
        """Folder from which relative paths start."""
        return self._folder

    def check(self) -> None:
        """Raises :class:`cxlab.ScenarioError` with every mistake in it, if there is any."""
        self._plan()

    def _plan(
        self,
        workloads: Mapping[str, Any] | None = None,
        kernels: Mapping[str, object] | None = None,
    ) -> _native.Plan:
        return _native.Plan(
            self._name,
            self._text,
            self._set,
            str(self._folder),
            dict(workloads or {}),
            dict(kernels or {}),
        )

    def _parts(self) -> tuple[str, str, list[str], str]:
        """The parts from which another process can make the same plan."""
        return self._name, self._text, list(self._set), str(self._folder.resolve())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Scenario) and self.to_dict() == other.to_dict()

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        changes = f", with {len(self._set)} set" if self._set else ""
        return f"<cxlab.Scenario {self._name!r}{changes}>"

    # Changed scenarios.

    def set(self, path: str, value: Value) -> Scenario:
        """Returns a scenario with one value changed, as ``--set`` does.

        Missing tables are made. An array only accepts an index that it has. Whether the scenario
        has such a key is checked when it is used, or by :meth:`check`.
        """
        other = copy.copy(self)
        other._set = [*self._set, f"{path}={inline(plain(value, path))}"]
        _native.merge(other._name, other._text, other._set)
        return other

    def update(self, changes: Mapping[str, Value]) -> Scenario:
        """Returns a scenario with several values changed, in order."""
        other = self
        for path, value in changes.items():
            other = other.set(path, value)
        return other

    def _with(self, values: Table) -> Scenario:
        other = copy.copy(self)
        other._write(values)
        return other

    def _merge_table(self, key: str, values: Table) -> Scenario:
        all_values = self.to_dict()
        table = all_values.get(key, {})
        all_values[key] = {**table, **values} if isinstance(table, dict) else values
        return self._with(all_values)

    def _append(self, key: str, entry: Table) -> Scenario:
        all_values = self.to_dict()
        entries = all_values.get(key, [])
        all_values[key] = [*entries, entry] if isinstance(entries, list) else [entry]
        return self._with(all_values)

    def fabric(self, **values: Value) -> Scenario:
        """Returns one with these keys of ``[fabric]``: topology, routing, switch, link, ..."""
        return self._merge_table("fabric", values)

    def measure(self, **values: Value) -> Scenario:
        """Returns one with these keys of ``[measure]``: requests, duration, precision, ..."""
        return self._merge_table("measure", values)

    def address_map(self, **values: Value) -> Scenario:
        """Returns one with these keys of ``[address_map]``."""
        return self._merge_table("address_map", values)

    def enumeration(self, **values: Value) -> Scenario:
        """Returns one whose hosts enumerate first: software_time, register_time, host_bridges."""
        return self._merge_table("enumeration", values)

    def failures(self, **values: Value) -> Scenario:
        """Returns one with these keys of ``[failures]``: timeout, random, ..."""
        return self._merge_table("failures", values)

    def fabric_manager(self, **values: Value) -> Scenario:
        """Returns one with these keys of ``[fabric_manager]``: policy, command_time, ..."""
        return self._merge_table("fabric_manager", values)

    def fleet(self, **values: Value) -> Scenario:
        """Returns one with these keys of ``[fleet]``: hosts, demand, placement, pool, ..."""
        return self._merge_table("fleet", values)

    def execution(self, **values: Value) -> Scenario:
        """Returns one with these keys of ``[execution]``."""
        return self._merge_table("execution", values)

    def hosts(self, name: str, **values: Value) -> Scenario:
        """Returns one with one more group of hosts: count, issue, workload, requests, ..."""
        return self._append("hosts", host(name, **values))

    def devices(self, name: str, **values: Value) -> Scenario:
        """Returns one with one more group of devices: count, capacity, controller, memory, ..."""
        return self._append("devices", device(name, **values))

    def accelerators(self, name: str, **values: Value) -> Scenario:
        """Returns one with one more group of accelerators: count, host, device, memory, ..."""
        return self._append("accelerators", {"name": name, **values})

    def regions(self, name: str, **values: Value) -> Scenario:
        """Returns one with one more region, memory for some hosts: capacity, devices, hosts, ..."""
        return self._append("regions", {"name": name, **values})

    def events(self, kind: str, *, at: str, **values: Value) -> Scenario:
        """Returns one with one more event, at a time from the start of the workloads."""
        return self._append("events", {"kind": kind, "at": at, **values})


def host(name: str, **values: Value) -> Table:
    """An entry of ``[[hosts]]``."""
    return {"name": name, **values}


def device(name: str, **values: Value) -> Table:
    """An entry of ``[[devices]]``."""
    return {"name": name, **values}


def topology(kind: str, **parameters: Value) -> Table:
    """A topology: an entry of ``catalog("topologies")`` with its parameters."""
    return _entry("topologies", kind, parameters)


def workload(kind: str, **parameters: Value) -> Table:
    """A workload: an entry of ``catalog("workloads")`` with its parameters."""
    return _entry("workloads", kind, parameters)


def memory(kind: str, **parameters: Value) -> Table:
    """A memory backend: an entry of ``catalog("media")`` with its parameters."""
    return _entry("media", kind, parameters)


def _entry(name: str, kind: str, parameters: Table) -> Table:
    """An entry of a catalog with its parameters, which the plan checks."""
    if kind not in (known := catalog(name)):
        raise ValueError(f"found {kind!r} in {name}; allowed: {', '.join(known)}")
    return {"kind": kind, **parameters}


def trace(path: PathLike, **parameters: Value) -> Table:
    """A workload that replays a trace."""
    return workload("trace", path=os.fspath(path), **parameters)


def schema() -> dict[str, Any]:
    """The JSON Schema of scenarios."""
    return cast("dict[str, Any]", json.loads(_native.schema()))


def catalog(name: str) -> dict[str, str]:
    """Summary of each entry of a catalog: "topologies", "media", or any other of ``cxlab list``."""
    catalogs = dict(_native.catalogs())
    if name not in catalogs:
        raise ValueError(f"found catalog {name!r}; allowed: {', '.join(catalogs)}")
    return dict(catalogs[name])


def parse_values(text: str) -> list[Value]:
    """Parses values as users type them: a TOML array, or TOML values or words between commas."""
    try:
        values = tomllib.loads(f"values = {text}")["values"]
    except tomllib.TOMLDecodeError:
        values = None
    if isinstance(values, list):
        return cast("list[Value]", values)
    if values is not None:
        return [cast("Value", values)]
    try:
        return cast("list[Value]", tomllib.loads(f"values = [{text}]")["values"])
    except tomllib.TOMLDecodeError:
        return [_word(word.strip()) for word in text.split(",")]


def _word(word: str) -> Value:
    try:
        return cast("Value", tomllib.loads(f"value = {word}")["value"])
    except tomllib.TOMLDecodeError:
        return word


def scenario_of(scenario: Scenario | PathLike) -> Scenario:
    """Returns the scenario itself, or that of a file."""
    return scenario if isinstance(scenario, Scenario) else Scenario.from_file(scenario)
