"""The hosts and memories of a scenario, and the same system with other work for its hosts."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, cast

from cxlab import _native
from cxlab._scenario import Scenario

#: A table of a scenario.
Table: TypeAlias = dict[str, Any]
#: How a host issues: as lines (`hosts[].issue`), from a core, or from the cores of a processor.
Kind: TypeAlias = Literal["issue", "core", "processor"]
#: How a store reaches memory: after its line was read for ownership, or without.
Writes: TypeAlias = Literal["rfo", "nt"]
Pattern: TypeAlias = Literal["sequential", "random"]

#: Interval between two requests of a silent requester. Only its first request is ever issued.
_SILENCE = "1 s"
#: Default of `hosts[].issue.outstanding`.
_OUTSTANDING = 64
#: Least bytes that hosts with an operating system access, whose pages warm-up touches, and how
#: many times as large as all caches these are.
_PAGED = 4 << 20
_PAGED_CACHES = 4
#: Keys that describe what happens to the system over time. There is no steady state to measure.
_REFUSED = ("events",)


class MlcError(ValueError):
    """A measure that the scenario does not allow, with the place, and what is allowed."""


@dataclass(frozen=True)
class Host:
    """One host of the system."""

    name: str
    #: Number of the host's group in `hosts[]`, and of the host in its group.
    group: int
    number: int
    kind: Kind
    #: Whether stores allocate their line in a cache, which reads it first.
    caches: bool
    #: Names of the devices that the host reaches.
    devices: frozenset[str]
    #: Bytes of CXL memory that the host addresses.
    span: int
    #: Requests of a requester, or lines of all cores, in flight at once.
    outstanding: int
    #: Whether an operating system places its pages when they are touched.
    paged: bool


@dataclass(frozen=True)
class Memory:
    """Memory that a host may address alone: a device, a region, or a NUMA node of its own."""

    name: str
    #: First byte in the addresses of the span, and number of bytes.
    offset: int
    size: int
    #: Value of `hosts[].span`; None for a host that has no choice.
    span: str | None = None
    #: Number of the node by which an operating system binds pages; None without one.
    node: int | None = None


@dataclass(frozen=True)
class Use:
    """What a host does while something is measured.

    ``read_percent`` is of the traffic at the memory. ``outstanding`` and ``interval_ps`` are of a
    requester, and ``misses`` of a core; None means the scenario's number, and no pace.
    """

    work: Literal["silent", "chase", "load"]
    read_percent: float = 100.0
    pattern: Pattern = "random"
    request: int = 64
    outstanding: int | None = None
    misses: int | None = None
    interval_ps: int | None = None
    memory: Memory | None = None


SILENT = Use("silent")
CHASE = Use("chase")


class System:
    """A scenario whose hosts do what is measured, and whose other parts are unchanged."""

    def __init__(self, scenario: Scenario, footprint: int | None) -> None:
        """Checks the scenario, with a workload of no consequence for each host.

        Raises:
            ScenarioError: the scenario has mistakes.
            MlcError: it has parts that cannot be measured.

        """
        self.values = cast("Table", scenario.to_dict())
        self.folder = scenario.folder
        self.footprint = footprint
        self._cached: dict[int, int] = {}
        self._refuse()
        self.name = str(self.values.get("name", ""))
        checked = scenario
        for number, _ in enumerate(_tables(self.values, "hosts")):
            checked = checked.set(f"hosts[{number}].workload", {"kind": "uniform"})
        #: The system as `cxlab plan --format json` prints it, with all defaults.
        self.described = self._checked(checked)
        self.hosts = self._hosts(self.described)
        #: Number of lines that all caches of each host hold; 0 for a host without a cache.
        self.cached_lines = cached_lines_of(self)
        self._cached = {host.group: 64 * self.cached_lines[host.name] for host in self.hosts}

    def _checked(self, scenario: Scenario) -> dict[str, Any]:
        """The resolved system. Raises the scenario's mistakes with their places in the file."""
        try:
            return self._describe(scenario)
        except _native.ScenarioError:
            # Keys beside the workload (`beside`, `os.processes`) may need the workload's threads.
            return self._describe(self.build({}, {}))

    def _refuse(self) -> None:
        for key in _REFUSED:
            if self.values.get(key):
                raise MlcError(
                    f"{key}: found {len(self.values[key])} of them, so that the "
                    f"system has no steady state; allowed: none (--set '{key}=[]')"
                )
        failures = self.values.get("failures")
        if isinstance(failures, Mapping) and failures.get("random"):
            raise MlcError(
                "failures.random: found failures at random, so that the system has no steady "
                "state; allowed: a scenario without them"
            )
        for number, region in enumerate(_tables(self.values, "regions")):
            sharing = region.get("sharing", "exclusive")
            if sharing in ("moving", "pooled") or region.get("initially_added") is False:
                found = (
                    f"sharing = {sharing!r}"
                    if sharing in ("moving", "pooled")
                    else "initially_added = false"
                )
                raise MlcError(
                    f"regions[{number}]: found {found}, memory that hosts do not have from the "
                    "beginning; allowed: exclusive or shared regions that are initially added"
                )

    def _describe(self, scenario: Scenario) -> dict[str, Any]:
        from cxlab._run import plan

        return plan(scenario).describe()

    def _hosts(self, described: Mapping[str, Any]) -> list[Host]:
        windows = {one["host"]: one["windows"] for one in described["address_maps"]}
        resolved = described["scenario"]["hosts"]
        made = []
        for group, table in enumerate(_tables(self.values, "hosts")):
            kind: Kind = (
                "processor" if "processor" in table else "core" if "core" in table else "issue"
            )
            issue = table.get("issue")
            caches = kind != "issue" or (isinstance(issue, Mapping) and "cache" in issue)
            for number, name in enumerate(names_of(table)):
                mine = windows[name]
                reached = (target["device"] for window in mine for target in window["targets"])
                span = sum(window["bytes"] for window in mine)
                devices = frozenset(reached)
                outstanding = outstanding_of(table, resolved[group])
                made.append(
                    Host(
                        name, group, number, kind, caches, devices, span, outstanding, "os" in table
                    )
                )
        return made

    def memories(self) -> dict[str, list[Memory]]:
        """What each host may address alone: CXL memory by device or region, and its own nodes.

        Devices are told apart with ``address_map.ways = 1``, which :meth:`build` sets for a use
        with a memory.
        """
        maps = self._describe(self.build({}, {}, apart=True))["address_maps"]
        windows = {one["host"]: one["windows"] for one in maps}
        return {
            host.name: self._cxl_memories(host, windows[host.name]) + self._nodes(host)
            for host in self.hosts
        }

    def _cxl_memories(self, host: Host, windows: Sequence[Mapping[str, Any]]) -> list[Memory]:
        """The windows of a host: one for each region that it has, or else for each device."""
        table = _tables(self.values, "hosts")[host.group]
        if "os" in table:
            # Its pages are placed by node, and CXL memory is a node behind those of the host.
            return []
        regions = [
            str(region["name"])
            for region in _tables(self.values, "regions")
            if not {host.name, table["name"]}.isdisjoint(region.get("hosts", [host.name]))
        ]
        if regions and len(regions) != len(windows):
            raise MlcError(
                f"matrix: found {len(windows)} address windows of host {host.name} with "
                f"{len(regions)} regions; allowed: a window for each region"
            )
        found, offset = [], 0
        for number, window in enumerate(windows):
            name = regions[number] if regions else str(window["targets"][0]["device"])
            span = "cxl" if host.kind == "processor" else None
            found.append(Memory(name, offset, int(window["bytes"]), span))
            offset += int(window["bytes"])
        return found

    def _nodes(self, host: Host) -> list[Memory]:
        """The NUMA nodes of a processor: its own, and CXL memory with an operating system."""
        table = _tables(self.values, "hosts")[host.group]
        paged = "os" in table
        found, offset = [], 0
        for number, node in enumerate(table.get("nodes", [])):
            size = bytes_of(node["capacity"])
            bound = number if paged else None
            found.append(Memory(f"node{number}", 0 if paged else offset, size, "local", bound))
            offset += size
        if paged and host.span:
            found.append(Memory("cxl", 0, host.span, "local", len(found)))
        return found

    # Building.

    def build(
        self,
        uses: Mapping[str, Use],
        measure: Table,
        *,
        apart: bool = False,
    ) -> Scenario:
        """The scenario with these uses of hosts by name; all others are silent.

        ``apart`` makes each device a memory of its own.
        """
        values = copy.deepcopy(self.values)
        replaced: list[Table] = []
        renamed: dict[str, list[str]] = {}
        for group, table in enumerate(_tables(values, "hosts")):
            pieces = self._pieces(group, table, uses)
            replaced.extend(pieces)
            renamed[str(table["name"])] = [str(piece["name"]) for piece in pieces]
        values["hosts"] = replaced
        values["measure"] = dict(measure) if measure else {"requests": 1000}
        for region in _tables(values, "regions"):
            if "hosts" in region:
                region["hosts"] = [
                    new for old in region["hosts"] for new in renamed.get(old, [old])
                ]
        if apart and not _tables(values, "regions"):
            values["address_map"] = {**values.get("address_map", {}), "ways": 1}
            values["address_map"].pop("xor_maps", None)
        return Scenario.from_dict(values, folder=self.folder)

    def _pieces(self, group: int, table: Table, uses: Mapping[str, Use]) -> list[Table]:
        """A group of hosts in pieces with one use each. All hosts keep their names."""
        names = names_of(table)
        wanted = [uses.get(name, SILENT) for name in names]
        if all(use == wanted[0] for use in wanted):
            return [self._used(group, table, wanted[0])]
        same = next(at for at, use in enumerate(wanted) if use != wanted[0])
        pieces = []
        if same > 1:
            pieces.append(self._used(group, {**table, "count": same}, wanted[0]))
        else:
            same = 0
        for name, use in list(zip(names, wanted, strict=True))[same:]:
            pieces.append(self._used(group, {**table, "name": name, "count": 1}, use))
        return pieces

    def _used(self, group: int, table: Table, use: Use) -> Table:
        """A group of hosts that all have this use."""
        made = copy.deepcopy(dict(table))
        made.pop("beside", None)
        made.pop("requests", None)
        if use.memory is not None and use.memory.span is not None:
            made["span"] = use.memory.span
        made["workload"] = self._workload(group, made, use)
        if "processor" in made:
            self._use_processor(made, use)
        elif "core" in made:
            self._use_core(made, use)
        else:
            issue = dict(made.get("issue", {}))
            issue.pop("rate", None)
            issue.pop("issue_interval", None)
            if use.work != "load":
                issue["outstanding"] = 1
                issue.pop("queue", None)
            elif use.outstanding is not None:
                issue["outstanding"] = use.outstanding
            if use.work == "silent":
                issue["issue_interval"] = _SILENCE
            elif use.interval_ps:
                issue["issue_interval"] = f"{use.interval_ps} ps"
            made["issue"] = issue
        return made

    def _use_core(self, made: Table, use: Use) -> None:
        core = dict(made["core"])
        if use.work == "silent":
            made["requests"] = 1
        if use.work == "chase":
            core["prefetch"] = 0
        if use.misses is not None:
            core["misses"] = use.misses
            core["prefetch"] = 0
        made["core"] = core

    def _use_processor(self, made: Table, use: Use) -> None:
        processor = dict(made["processor"])
        if use.work == "silent":
            made["requests"] = 1
        if use.work == "chase":
            processor["cores"] = 1
        if use.misses is not None:
            processor["misses"] = use.misses
        made["processor"] = processor
        if "os" in made:
            system = dict(made["os"])
            system.pop("processes", None)
            if use.memory is not None and use.memory.node is not None:
                system["placement"] = {"kind": "bind", "nodes": [use.memory.node]}
            made["os"] = system

    def paged(self, group: int) -> int:
        """Bytes that a host of a group with an operating system accesses."""
        return self.footprint or max(_PAGED, _PAGED_CACHES * self._cached.get(group, 0))

    def _workload(self, group: int, table: Table, use: Use) -> Table:
        memory = use.memory
        size = self.footprint
        if size is None and "os" in table:
            size = self.paged(group)
        if memory is not None:
            size = memory.size if size is None else min(size, memory.size)
        made: Table = {}
        if memory is not None and memory.offset:
            made["offset"] = f"{memory.offset} B"
        if size is not None:
            made["footprint"] = f"{size} B"
        if use.work != "load":
            return {"kind": "pointer-chase", "read_ratio": 1.0, **made}
        issue = table.get("issue")
        caches = "processor" in table or "core" in table
        caches = caches or (isinstance(issue, Mapping) and "cache" in issue)
        kind = "stream" if use.pattern == "sequential" else "uniform"
        if use.request != 64:
            made["request"] = f"{use.request} B"
        if kind == "stream":
            made["private"] = True
        return {
            "kind": kind,
            "read_ratio": read_ratio(use.read_percent, caches),
            "mix": "regular",
            **made,
        }


def read_ratio(read_percent: float, caches: bool) -> float:
    """Share of loads among the operations of a host that give this traffic at the memory.

    A store to a cached line reads the line first and writes it back later. With a part ``w`` of
    writes in the traffic, a part ``w`` of reads belongs to the stores, and the others are loads. A
    host without a cache gives the traffic that it is told.
    """
    if not caches:
        return read_percent / 100
    stores = 100 - read_percent
    return (read_percent - stores) / read_percent


def names_of(table: Mapping[str, Any]) -> list[str]:
    """Names of the hosts of a group."""
    name, count = str(table["name"]), int(table.get("count", 1))
    return [name] if count == 1 else [f"{name}{number}" for number in range(count)]


def outstanding_of(table: Mapping[str, Any], resolved: Mapping[str, Any]) -> int:
    """Requests in flight of a host of a group, as it was written and with its defaults."""
    if "processor" in table:
        return int(resolved["processor"]["misses"]) * int(resolved["processor"]["cores"])
    if "core" in table:
        return int(resolved["core"]["misses"])
    issue = table.get("issue")
    # The silent host that was resolved has 1.
    given = issue.get("outstanding") if isinstance(issue, Mapping) else None
    return _OUTSTANDING if given is None else int(given)


def _tables(values: Mapping[str, Any], key: str) -> list[Table]:
    found = values.get(key, [])
    return cast("list[Table]", found) if isinstance(found, list) else []


_UNITS = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}


def bytes_of(text: object) -> int:
    """Bytes of a size as scenarios write it, such as ``"64 MiB"``."""
    number, _, unit = str(text).strip().partition(" ")
    if not number.isdecimal() or unit not in _UNITS or int(number) == 0:
        raise MlcError(f"found size {text!r}; allowed: such as 64 B, 16 KiB, 64 MiB or 1 GiB")
    return int(number) * _UNITS[unit]


def misses_of(system: System) -> dict[str, int]:
    """Outstanding lines of a core, for each host with cores."""
    tables = system.described["scenario"]["hosts"]
    return {
        host.name: int(tables[host.group][host.kind]["misses"])
        for host in system.hosts
        if host.kind != "issue"
    }


def cached_lines_of(system: System) -> dict[str, int]:
    """Number of lines in all caches, for each host."""
    tables = system.described["scenario"]["hosts"]
    found = {}
    for host in system.hosts:
        table = tables[host.group]
        if host.kind == "processor":
            parts = table["processor"]
            private = bytes_of(parts["l1"]["size"]) + bytes_of(parts["l2"]["size"])
            held = parts["cores"] * private + bytes_of(parts["llc"]["size"])
        elif host.kind == "core":
            held = sum(bytes_of(cache["size"]) for cache in table["core"]["caches"])
        else:
            held = bytes_of(table["issue"]["cache"]["size"]) if host.caches else 0
        found[host.name] = held // 64
    return found
