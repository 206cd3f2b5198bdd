"""Tables of the measures as Intel MLC prints them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas

    from cxlab._mlc.result import Mlc

_RULE = "=" * 26
#: Most columns of a matrix in the printed table; the files have all.
_MOST_COLUMNS = 16
#: Heading of the first column of loaded latencies, by its unit.
_INJECT = {
    "ns": "Delay: ns between two lines of a loading host",
    "cycles": "Delay: clock cycles between requests of a thread",
    "lines": "Delay: outstanding lines of each loading core, instead of a delay",
}


def text(mlc: Mlc) -> str:
    """All tables that were measured, and the notes."""
    partial = " (PARTIAL)" if mlc.partial else ""
    version = f"cxlab {mlc.version}" if mlc.mode != "measured" else f"MLC {mlc.version}"
    parts = [f"{mlc.name}{partial}: memory latency and bandwidth, {mlc.mode}, {version.strip()}"]
    if len(mlc.idle):
        parts.append(_idle(mlc.idle))
    if len(mlc.latency_matrix):
        access = "" if mlc.mode == "measured" else " for random access"
        parts.append(
            f"Measuring idle latencies{access} (in ns)...\n" + _matrix(mlc.latency_matrix, 1)
        )
    if len(mlc.peak):
        parts.append(_peak(mlc.peak))
    if len(mlc.bandwidth_matrix):
        parts.append(
            "Measuring Memory Bandwidths between nodes within system\n"
            "Bandwidths are in MB/sec (1 MB/sec = 1,000,000 Bytes/sec)\n"
            "Using Read-only traffic type\n" + _matrix(mlc.bandwidth_matrix, 1)
        )
    if len(mlc.loaded):
        parts.append(_loaded(mlc))
    if len(mlc.curves):
        parts.append(_curves(mlc.curves))
    if len(mlc.sizes):
        parts.append(_sizes(mlc.sizes))
    if len(mlc.noisy):
        parts.append(_noisy(mlc.noisy))
    parts.extend(f"note: {note}" for note in mlc.notes)
    return "\n\n".join(parts) + "\n"


def _idle(frame: pandas.DataFrame) -> str:
    lines = ["Measuring idle latencies: one dependent read at a time"]
    for row in _records(frame):
        name = " ".join(filter(None, (row["host"], row["memory"])))
        lines.append(f"Each iteration took ( {row['latency_ns']:.3f} ns )   {name}")
    return "\n".join(lines)


def _peak(frame: pandas.DataFrame) -> str:
    lines = [
        "Measuring Peak Injection Memory Bandwidths for the system",
        "Bandwidths are in MB/sec (1 MB/sec = 1,000,000 Bytes/sec)",
        "Using traffic with the following read-write ratios",
    ]
    for row in _records(frame):
        line = f"{row['label']:<17}:\t{row['bandwidth_mb_per_s']:.1f}"
        if math.isfinite(row["read_mb_per_s"]):
            line += f"\t(reads {row['read_mb_per_s']:.1f}, writes {row['write_mb_per_s']:.1f})"
        lines.append(line)
    return "\n".join(lines)


def _matrix(frame: pandas.DataFrame, digits: int) -> str:
    columns = [str(name) for name in frame.columns][:_MOST_COLUMNS]
    width = max(9, *(len(name) + 1 for name in columns))
    first = max(12, *(len(str(name)) for name in frame.index))
    lines = [" " * first + "".join(f"{name:>{width}}" for name in columns)]
    for name, values in zip(frame.index, frame.to_numpy(), strict=True):
        cells = ("-" if math.isnan(value) else f"{value:.{digits}f}" for value in values)
        shown = list(cells)[:_MOST_COLUMNS]
        lines.append(f"{name!s:>{first}}" + "".join(f"{cell:>{width}}" for cell in shown))
    if len(frame.columns) > _MOST_COLUMNS:
        lines.append(f"... {len(frame.columns) - _MOST_COLUMNS} more columns in the files")
    return "\n".join(lines)


def _traffic(read_percent: float) -> str:
    if read_percent == 100:
        return "Using Read-only traffic type"
    return f"Using traffic with {read_percent:.0f} % reads"


def _loaded(mlc: Mlc) -> str:
    frame = mlc.loaded
    sources = ", ".join(dict.fromkeys(frame["latency_of"]))
    lines = [
        "Measuring Loaded Latencies for the system",
        _traffic(float(frame["read_percent"].iloc[0])),
        f"Latency of: {_source(sources)}",
        _INJECT[mlc.inject_unit],
        "Inject\tLatency\tBandwidth",
        "Delay\t(ns)\tMB/sec",
        _RULE,
    ]
    for row in _records(frame):
        inject = row["inject"]
        shown = f"{inject:05.2f}" if mlc.inject_unit == "ns" else f"{inject:05.0f}"
        lines.append(f" {shown}\t{row['latency_ns']:7.2f}\t{row['bandwidth_mb_per_s']:9.1f}")
    return "\n".join(lines)


def _source(names: str) -> str:
    return "the load's own reads" if names == "load" else f"one dependent read at a time ({names})"


def _curves(frame: pandas.DataFrame) -> str:
    lines = [
        "Latency and bandwidth by mix",
        "Reads\tLatency (ns)\tBandwidth (MB/sec)",
        "(%)\tleast\tmost\tleast\tmost",
    ]
    for percent, part in frame.groupby("read_percent", sort=True):
        latency, bandwidth = part["latency_ns"], part["bandwidth_mb_per_s"]
        lines.append(
            f"{float(str(percent)):.0f}\t{latency.min():.1f}\t{latency.max():.1f}"
            f"\t{bandwidth.min():.1f}\t{bandwidth.max():.1f}"
        )
    return "\n".join(lines)


def _sizes(frame: pandas.DataFrame) -> str:
    lines = ["Bandwidth (MB/sec) by access size (rows) and threads (columns)"]
    for (order, operation), part in frame.groupby(["order", "operation"], sort=False):
        threads = sorted(set(part["threads"]))
        lines.append(f"{order} {operation}")
        lines.append("bytes".rjust(8) + "".join(f"{count:10.0f}" for count in threads))
        for size, row in part.groupby("access_bytes", sort=True):
            known = dict(zip(row["threads"], row["bandwidth_mb_per_s"], strict=True))
            cells = (known.get(count, math.nan) for count in threads)
            lines.append(f"{float(str(size)):8.0f}" + "".join(f"{cell:10.1f}" for cell in cells))
    return "\n".join(lines)


def _noisy(frame: pandas.DataFrame) -> str:
    lines = [
        "A victim beside neighbours",
        "Neighbours\t\tVictim",
        "(%)\tMB/sec\t\tlatency (ns)\tMB/sec",
        _RULE,
    ]
    for row in _records(frame):
        lines.append(
            f"{row['neighbours_percent']:5.0f}\t{row['neighbours_mb_per_s']:9.1f}"
            f"\t{row['victim_latency_ns']:9.2f}\t{row['victim_bandwidth_mb_per_s']:9.1f}"
        )
    return "\n".join(lines)


def _records(frame: pandas.DataFrame) -> list[dict[str, Any]]:
    return [{str(key): value for key, value in row.items()} for row in frame.to_dict("records")]
