"""The runs of each measure, and the rows that their reports give."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from cxlab._mlc.settings import NEIGHBOURS as NEIGHBOURS
from cxlab._mlc.settings import Settings
from cxlab._mlc.system import CHASE, Host, Memory, MlcError, System, Table, Use, Writes

#: A report of a run, or of the analytic form, whose fields have the same names.
AnyReport: TypeAlias = Mapping[str, Any]
Row: TypeAlias = dict[str, Any]

_PS_PER_NS = 1000
_LINE = 64


@dataclass(frozen=True, eq=False)
class Point:
    """One run: what its hosts do, and how its report becomes a row of a measure."""

    measure: str
    uses: Mapping[str, Use]
    row: Callable[[AnyReport], Row]
    #: Each device is a memory of its own.
    apart: bool = False
    #: Host whose latency is measured by itself, so that the run must be long enough for it.
    probe: str | None = None
    #: Writes the run's lines to caches, so that they have to be full before it is measured.
    writes: bool = False


@dataclass(frozen=True)
class Mix:
    """A mix of reads and writes: its label, reads in percent of the traffic, and how it writes."""

    label: str
    read_percent: float
    writes: Writes | None


@dataclass
class Roles:
    """Which hosts load and which host is the probe or the victim."""

    loading: list[Host]
    #: Host with one dependent read outstanding beside the load; None if there is no such host.
    probe: Host | None = None


def writes_of(settings: Settings, hosts: Sequence[Host]) -> Writes:
    """How stores reach memory: as told, or as the hosts do by themselves.

    Raises:
        MlcError: non-temporal writes of a host whose stores go through a cache.

    """
    caching = next((host for host in hosts if host.caches), None)
    if settings.writes is None:
        return "nt" if caching is None else "rfo"
    if settings.writes == "nt" and caching is not None:
        raise MlcError(
            f"writes: found 'nt', and stores of host {caching.name} go through its caches, which "
            "read the line first; allowed: 'rfo', or hosts with `issue` and no `cache`"
        )
    return settings.writes


def load_of(settings: Settings, read_percent: float = 100.0) -> Use:
    """What a loading host does without a pace."""
    return Use("load", read_percent, settings.pattern, outstanding=settings.outstanding)


def peak_mixes(settings: Settings, hosts: Sequence[Host]) -> list[Mix]:
    """The mixes of MLC's table in its order, and those with non-temporal writes if hosts have them.

    Ratios are those of the traffic (MLC's help text of ``-Wn``).
    """
    writes = writes_of(settings, hosts)
    mixes = [
        Mix("ALL Reads", 100.0, None),
        Mix("3:1 Reads-Writes", 75.0, writes),
        Mix("2:1 Reads-Writes", 200 / 3, writes),
        Mix("1:1 Reads-Writes", 50.0, writes),
    ]
    if any(host.caches for host in hosts):
        # MLC's -W11: two loads, and a store whose line is read first.
        return [*mixes, Mix("Stream-triad like", 75.0, "rfo")]
    mixes += [Mix("Stream-triad like", 200 / 3, "nt"), Mix("All NT writes", 0.0, "nt")]
    if writes == "rfo":
        ratios = (("3:1", 75.0), ("2:1", 200 / 3), ("1:1", 50.0))
        mixes += [Mix(f"{ratio} Read-NT write", percent, "nt") for ratio, percent in ratios]
    return mixes


def curve_percents(settings: Settings, hosts: Sequence[Host]) -> tuple[list[float], list[str]]:
    """Reads in percent of each curve, and notes of what is left out."""
    rising = sorted(settings.read_percents)
    if writes_of(settings, hosts) == "nt":
        return rising, []
    known = [percent for percent in rising if percent >= 50]
    left = [f"{percent:g}" for percent in rising if percent < 50]
    notes = (
        [
            f"curves: left out {', '.join(left)} % reads, because a store whose line is read "
            "for ownership gives a read for each write"
        ]
        if left
        else []
    )
    return known, notes


def loaded_roles(system: System) -> Roles:
    """The host with least outstanding requests that shares devices is the probe; others load."""
    hosts = system.hosts
    for probe in _by_weight(hosts):
        others = [host for host in hosts if host is not probe]
        if any(host.devices & probe.devices for host in others):
            return Roles(others, probe)
    return Roles(hosts)


def _by_weight(hosts: Sequence[Host]) -> list[Host]:
    """Hosts by rising number of outstanding requests; of equal ones the last comes first."""
    rising = sorted(enumerate(hosts), key=lambda pair: (pair[1].outstanding, -pair[0]))
    return [host for _, host in rising]


def victim_roles(system: System, victim: str | None) -> Roles:
    """The victim and its neighbours.

    Raises:
        MlcError: there is no such host, or no other host shares a device with it.

    """
    hosts = system.hosts
    named = [host for host in hosts if victim in (None, host.name)]
    if not named:
        allowed = ", ".join(host.name for host in hosts[:8])
        raise MlcError(f"victim: found {victim!r}; allowed: {allowed}")
    for chosen in _by_weight(named):
        others = [host for host in hosts if host is not chosen and host.devices & chosen.devices]
        if others:
            return Roles(others, chosen)
    raise MlcError(
        f"noisy: found no host that shares a device with {named[-1].name}; "
        "allowed: a scenario with two such hosts"
    )


# The rows of a report.


def host_of(report: AnyReport, name: str) -> Mapping[str, Any]:
    """A host's entry of a report."""
    return next(host for host in report["hosts"] if host["name"] == name)


def traffic(report: AnyReport, hosts: Sequence[Host]) -> Row:
    """Traffic of these hosts, which are all that load, at the memory in MB/s.

    A host without a cache sends what it issues. What caches read for a store, and write back
    later, is counted at a processor's home agent, or else at the devices.
    """
    if not any(host.caches for host in hosts):
        rates = report["bandwidth_gb_per_s"]
        reads, writes = rates["read"], rates["write"]
    elif all(host.kind == "processor" for host in hosts):
        found = [_home_agent(report, host) for host in hosts]
        reads, writes = sum(one[0] for one in found), sum(one[1] for one in found)
    else:
        devices = [device["bandwidth_gb_per_s"] for device in report["devices"]]
        reads = sum(device["read"] for device in devices)
        writes = sum(device["write"] for device in devices)
    return {
        "bandwidth_mb_per_s": (reads + writes) * 1e3,
        "read_mb_per_s": reads * 1e3,
        "write_mb_per_s": writes * 1e3,
    }


def _home_agent(report: AnyReport, host: Host) -> tuple[float, float]:
    """Lines that a processor's home agent reads and writes, in GB/s."""
    counts = host_of(report, host.name)["processor"]
    scale = _LINE / report["window_ns"]
    return counts["memory_reads"] * scale, counts["memory_writes"] * scale


def read_latency(report: AnyReport) -> tuple[float, str]:
    """Mean latency of the load's reads in ns, or of its writes if it has no reads."""
    if report["bandwidth_gb_per_s"]["read"] > 0:
        return float(report["read_latency_ns"]["mean"]), "load"
    return float(report["latency_ns"]["mean"]), "load's writes"


def within(report: AnyReport, probe: str | None = None) -> str:
    """How far bandwidth and latency can be off (:class:`cxlab.Mlc`)."""
    return spread_text(spread(report, probe)) if "ci95" in report else _classes(report, probe)


def spread(report: AnyReport, probe: str | None = None) -> float | None:
    """Largest half-width of the 95 % intervals of bandwidth and latency over the value."""
    widths = report["ci95"]
    pairs = [(widths["total_gb_per_s"], report["bandwidth_gb_per_s"]["total"])]
    if probe is None:
        pairs.append((widths["latency_ns"], report["latency_ns"]["mean"]))
    else:
        host = host_of(report, probe)
        pairs.append((host["ci95"]["latency_ns"], host["latency_ns"]["mean"]))
    if any(width is None or not value for width, value in pairs):
        return None
    return max(float(width) / float(value) for width, value in pairs)


def spread_text(value: float | None) -> str:
    return "" if value is None else f"{math.ceil(value * 1e4) / 100:g} %"


_CLASSES = ("exact", "2 %", "10 %", "30 %", "do not use")


def _classes(report: AnyReport, probe: str | None) -> str:
    one = report["error_class"] if probe is None else host_of(report, probe)["error_class"]
    found = [str(one["latency"]), str(report["error_class"]["bandwidth"])]
    return max(found, key=lambda name: _CLASSES.index(name) if name in _CLASSES else 99)


# The measures.


def idle_points(system: System) -> list[Point]:
    """One dependent read at a time, for the first host of each group."""
    made = []
    for host in _firsts(system):
        table = system.values["hosts"][host.group]
        memory = table.get("span", "cxl" if host.span else "local")
        if host.paged and memory == "local":
            memory = "os"

        def row(report: AnyReport, host: Host = host, memory: str = memory) -> Row:
            return {
                "host": host.name,
                "memory": memory,
                "latency_ns": float(host_of(report, host.name)["latency_ns"]["mean"]),
                "within": within(report, host.name),
            }

        made.append(Point("idle", {host.name: CHASE}, row))
    return made


def _firsts(system: System) -> list[Host]:
    return [host for host in system.hosts if host.number == 0]


def peak_points(system: System, settings: Settings) -> list[Point]:
    """All hosts load as fast as they can."""
    made = []
    for mix in peak_mixes(settings, system.hosts):
        use = load_of(settings, mix.read_percent)

        def row(report: AnyReport, mix: Mix = mix) -> Row:
            return {
                "label": mix.label,
                "read_percent": mix.read_percent,
                "writes": mix.writes or "",
                "within": within(report),
                **traffic(report, system.hosts),
            }

        uses = {host.name: use for host in system.hosts}
        made.append(Point("peak", uses, row, writes=mix.read_percent < 100))
    return made


def matrix_points(
    system: System, settings: Settings, memories: Mapping[str, list[Memory]]
) -> list[Point]:
    """Each host and each memory that it may address alone: a chase, and reads as fast as it can."""
    made = []
    for host in system.hosts:
        for memory in memories[host.name]:
            for measure in ("latency_matrix", "bandwidth_matrix"):
                latency = measure == "latency_matrix"
                use = replace(CHASE if latency else load_of(settings), memory=memory)

                def row(
                    report: AnyReport,
                    host: Host = host,
                    memory: Memory = memory,
                    latency: bool = latency,
                ) -> Row:
                    one = host_of(report, host.name)
                    value = (
                        float(one["latency_ns"]["mean"])
                        if latency
                        else traffic(report, [host])["bandwidth_mb_per_s"]
                    )
                    return {"host": host.name, "memory": memory.name, "value": value}

                made.append(Point(measure, {host.name: use}, row, apart=True))
    return made


def size_points(system: System, settings: Settings) -> list[Point]:
    """The first host accesses memory with so many threads, each with so many lines outstanding.

    Raises:
        MlcError: it is no requester without a coherent cache.

    """
    host = system.hosts[0]
    if host.kind != "issue":
        raise MlcError(
            f"sizes: found host {host.name} with a `{host.kind}`, whose accesses are single lines; "
            "allowed: a first host with `issue`"
        )
    writes = writes_of(settings, [host])
    made = []
    for order in ("sequential", "random"):
        for operation in ("read", "write"):
            percent = 100.0 if operation == "read" else 50.0 if writes == "rfo" else 0.0
            for size in settings.access_sizes:
                for threads in settings.threads:
                    use = Use(
                        "load",
                        percent,
                        "sequential" if order == "sequential" else "random",
                        request=size,
                        outstanding=threads * settings.thread_lines,
                    )

                    def row(
                        report: AnyReport,
                        key: tuple[int, int, str, str] = (size, threads, order, operation),
                    ) -> Row:
                        return {
                            "access_bytes": key[0],
                            "threads": key[1],
                            "order": key[2],
                            "operation": key[3],
                            "latency_ns": float(report["latency_ns"]["mean"]),
                            "within": within(report),
                            **traffic(report, [host]),
                        }

                    made.append(
                        Point("sizes", {host.name: use}, row, writes=operation == "write")
                    )  # fmt: skip
    return made


def load_point(
    measure: str, roles: Roles, uses: Mapping[str, Use], percent: float, inject: float
) -> Point:
    """The loading hosts load, and the probe chases."""
    probe = roles.probe
    hosts = [*roles.loading, *([probe] if probe else [])]

    def row(report: AnyReport) -> Row:
        if probe is not None:
            latency = float(host_of(report, probe.name)["latency_ns"]["mean"])
            of = probe.name
        else:
            latency, of = read_latency(report)
        return {
            "read_percent": percent,
            "inject": inject,
            "latency_ns": latency,
            "latency_of": of,
            "within": within(report, probe.name if probe else None),
            **traffic(report, hosts),
        }

    all_uses = dict(uses) | ({probe.name: CHASE} if probe else {})
    return Point(
        measure, all_uses, row, probe=probe.name if probe else None, writes=percent < 100
    )  # fmt: skip


def victim_points(
    roles: Roles, settings: Settings, uses: Mapping[str, Use], percent: float
) -> list[Point]:
    """The neighbours load; the victim chases in one run, and reads at its full rate in another."""
    victim = roles.probe
    assert victim is not None
    made = []
    for work in ("chase", "load"):
        use = CHASE if work == "chase" else load_of(settings)

        def row(report: AnyReport, work: str = work) -> Row:
            one = host_of(report, victim.name)
            if work == "load":
                found = float(one["bandwidth_gb_per_s"]["total"]) * 1e3
                return {"neighbours_percent": percent, "victim_bandwidth_mb_per_s": found}
            others = [host_of(report, host.name) for host in roles.loading]
            sent = sum(host["bandwidth_gb_per_s"]["total"] for host in others)
            return {
                "neighbours_percent": percent,
                "neighbours_mb_per_s": float(sent) * 1e3 if percent else 0.0,
                "victim_latency_ns": float(one["latency_ns"]["mean"]),
                "within": within(report, victim.name),
            }

        probe = victim.name if work == "chase" else None
        made.append(Point("noisy", {**uses, victim.name: use}, row, probe=probe))
    return made


def paced(
    hosts: Sequence[Host],
    unpaced: AnyReport | None,
    misses: Mapping[str, int],
    use: Use,
    load: float,
) -> tuple[dict[str, Use], float]:
    """Uses at a load in percent of that without a pace, and the value of the column ``inject``.

    Requesters of a group have the pace that gives this part of their mean rate without one. Cores
    and processors cannot be paced: they have this part of their outstanding lines instead.
    """
    rates: dict[int, list[float]] = {}
    if unpaced is not None:
        for host in hosts:
            rate = host_of(unpaced, host.name)["bandwidth_gb_per_s"]["total"]
            rates.setdefault(host.group, []).append(float(rate))
    made: dict[str, Use] = {}
    intervals: list[float] = []
    lines: list[int] = []
    for host in hosts:
        if host.kind != "issue":
            few = max(1, round(misses[host.name] * load / 100))
            made[host.name] = use if few == misses[host.name] else replace(use, misses=few)
            lines.append(few)
        elif load == 100:
            made[host.name] = use
            intervals.append(0.0)
        else:
            rate = sum(rates[host.group]) / len(rates[host.group])
            ps = max(1, round(_LINE * _PS_PER_NS / (rate * load / 100)))
            made[host.name] = replace(use, interval_ps=ps)
            intervals.append(ps / _PS_PER_NS)
    shown = intervals or lines
    return made, sum(shown) / len(shown)


def window(point: Point, settings: Settings, factor: int, fill: int) -> Table:
    """`[measure]` of a point: so precise, or so long, after its caches are full."""
    made: Table = {"requests": settings.requests * factor}
    if point.probe is None:
        made["precision"] = f"{settings.precision * 100:g} %"
    if fill:
        made["warmup_requests"] = fill
    return made
