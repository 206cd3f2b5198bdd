"""Numbers of a measurement that a fit can use, and which of them judge it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    import pandas

    from cxlab._mlc import Mlc

Kind: TypeAlias = Literal["idle", "peak", "loaded", "saturated"]

#: Part of the peak up to which a loaded latency is used. Above, a small error of the bandwidth is a
#: large one of the latency.
BELOW = 0.8
#: Part of the peak from which on the highest loaded latency is that of saturation.
FULL = 0.9
#: Most parts by which two measurements of one number may differ.
_DIFFER = 1.25
#: Latencies in ns, and bandwidths in GB/s, that a memory can have. Others are in another unit.
_RANGES = {"ns": (20.0, 1e6), "GB/s": (0.1, 1e4)}
_UNITS = {"ns": "latencies in ns", "GB/s": "bandwidths in MB/s (10^6 bytes per second)"}
#: Least part of the idle latency that a loaded latency may be.
_LOADED = 0.7


class CalibrateError(ValueError):
    """Numbers or settings that allow no fit."""


@dataclass(frozen=True)
class Observation:
    """One measured number."""

    kind: Kind
    #: Where it stands in the measurement.
    label: str
    #: Reads in percent of the traffic.
    read_percent: float
    #: The measured latency in ns, or the bandwidth in GB/s.
    value: float
    #: Offered bandwidth of a loaded latency, in GB/s; 0 for others.
    offered: float = 0.0
    #: Whether the fit leaves it out, to judge the fit.
    held: bool = False
    #: Name of the measurement.
    source: str = ""

    @property
    def unit(self) -> str:
        """Unit of the value."""
        return "GB/s" if self.kind == "peak" else "ns"

    @property
    def reads(self) -> float:
        """Reads as a part of the traffic."""
        return self.read_percent / 100


def of(found: Mlc, memory: str | None) -> tuple[list[Observation], list[str]]:
    """The usable numbers of a measurement in its order, and notes about numbers it leaves out.

    ``memory`` is a node of the matrices. Without it, the numbers are those of the first node, and
    of all nodes together where MLC measures all.

    Raises:
        CalibrateError: a number is in another unit, or the memory has to be named.

    """
    matrices = len(found.latency_matrix) > 0 or len(found.bandwidth_matrix) > 0
    notes: list[str] = []
    if memory is not None and matrices:
        made = _of_node(found, memory)
        if len(found.peak) or len(found.loaded):
            notes.append(
                f"{found.name}: peak bandwidths and loaded latencies are those of all nodes, so "
                f"they are left out for node {memory}; a log of `mlc --loaded_latency -o FILE` has "
                f"one node, if the lines of FILE end in `dram {memory}`"
            )
    else:
        if found.mode == "measured":
            _one_kind(found)
        made = _of_all(found)
    for one in made:
        low, high = _RANGES[one.unit]
        if not low <= one.value <= high:
            scale, unit = (1e3, "MB/s") if one.unit == "GB/s" else (1.0, "ns")
            raise CalibrateError(
                f"{found.name}: {one.label}: found {one.value * scale:g} {unit}; allowed: "
                f"{low * scale:g} to {high * scale:g}, {_UNITS[one.unit]}, as MLC prints them"
            )
    return [replace(one, source=found.name) for one in made], notes


def _one_kind(found: Mlc) -> None:
    """Refuses a log with a node that has no processors, as CXL memory has none."""
    matrix = found.latency_matrix if len(found.latency_matrix) else found.bandwidth_matrix
    alone = [name for name in matrix.columns if name not in matrix.index]
    if alone:
        raise CalibrateError(
            f"{found.name}: found memory without processors (node {', '.join(alone)}), and no word "
            f"which memory is meant; allowed: --memory with one of {', '.join(matrix.columns)}"
        )


def _of_node(found: Mlc, memory: str) -> list[Observation]:
    """Idle latency and read bandwidth of a node from the first node with processors."""

    def cell(matrix: pandas.DataFrame) -> tuple[str, float] | None:
        if not len(matrix):
            return None
        if memory not in matrix.columns:
            raise CalibrateError(
                f"{found.name}: memory: found {memory}; allowed: {', '.join(matrix.columns)}"
            )
        row = str(matrix.index[0])
        return row, float(matrix.loc[row, memory])  # type: ignore[arg-type]

    made: list[Observation] = []
    if (one := cell(found.latency_matrix)) is not None:
        made.append(Observation("idle", f"idle latency {one[0]} to {memory}", 100.0, one[1]))
    if (one := cell(found.bandwidth_matrix)) is not None:
        made.append(Observation("peak", f"reads {one[0]} to {memory}", 100.0, one[1] / 1e3))
    return made


def _of_all(found: Mlc) -> list[Observation]:
    """Numbers of a measurement whose tables are of one memory, or of all that are alike."""
    made: list[Observation] = []
    idle = found.idle_ns
    if idle is not None and math.isfinite(idle):
        made.append(Observation("idle", "idle latency", 100.0, idle))
    peaks = [
        Observation(
            "peak",
            str(row["label"]),
            float(row["read_percent"]),
            float(row["bandwidth_mb_per_s"]) / 1e3,
        )
        for row in found.peak.to_dict("records")
        if math.isfinite(row["read_percent"]) and math.isfinite(row["bandwidth_mb_per_s"])
    ]
    return made + peaks + _loaded(found, peaks)


def _loaded(found: Mlc, peaks: Sequence[Observation]) -> list[Observation]:
    """Loaded latencies below the knee, and for reads alone that of saturation."""
    made: list[Observation] = []
    frame = found.curves if len(found.curves) else found.loaded
    for percent, part in frame.groupby("read_percent"):
        reads = float(str(percent))
        rates = [float(one) / 1e3 for one in part["bandwidth_mb_per_s"]]
        top = max([*rates, *(one.value for one in peaks if abs(one.read_percent - reads) < 0.5)])
        rows = sorted(zip(rates, map(float, part["latency_ns"]), strict=True))
        label = f"{reads:g} % reads at"
        made += [
            Observation("loaded", f"{label} {rate:.4g} GB/s", reads, latency, rate)
            for rate, latency in rows
            if rate <= BELOW * top
        ]
        # The highest latency and not the highest rate: rates at saturation differ by noise alone.
        rate, latency = max(rows, key=lambda row: row[1])
        if rate >= FULL * top and reads == 100:
            made.append(Observation("saturated", f"{label} saturation", reads, latency, rate))
    return made


def joined(parts: Sequence[Sequence[Observation]]) -> list[Observation]:
    """Numbers of several measurements.

    Raises:
        CalibrateError: two measurements contradict each other, or there are too few numbers.

    """
    found = [one for part in parts for one in part]
    first: dict[tuple[str, str], Observation] = {}
    for one in found:
        other = first.setdefault((one.kind, one.label), one)
        if not 1 / _DIFFER <= one.value / other.value <= _DIFFER:
            raise CalibrateError(
                f"{one.source}: {one.label}: found {one.value:.4g} {one.unit}, but {other.source} "
                f"has {other.value:.4g}; allowed: numbers of one system, at most "
                f"{100 * (_DIFFER - 1):.0f} % apart"
            )
    idle = [one for one in found if one.kind == "idle"]
    if not idle or not any(one.kind == "peak" for one in found):
        missing = "peak bandwidths" if idle else "an idle latency"
        raise CalibrateError(
            f"found {len(found)} numbers without {missing}; allowed: an idle latency and at least "
            "one peak bandwidth (mlc, mlc --idle_latency, mlc --peak_injection_bandwidth)"
        )
    for one in found:
        if one.kind == "loaded" and one.value < _LOADED * idle[0].value:
            raise CalibrateError(
                f"{one.source}: {one.label}: found {one.value:.4g} ns, but the idle latency is "
                f"{idle[0].value:.4g} ns; allowed: at least {100 * _LOADED:.0f} % of it"
            )
    return found


def split(found: Sequence[Observation], hold_out: Sequence[str]) -> list[Observation]:
    """Marks the numbers that judge the fit.

    The fit keeps idle latencies, the peaks of most reads, of fewest reads and of the mix nearest to
    2:1, saturation, and every other loaded latency. ``hold_out`` names more by the beginning of
    their labels.

    Raises:
        CalibrateError: a name fits no number, or nothing is left to fit.

    """
    for name in hold_out:
        if not any(one.label.startswith(name) for one in found):
            known = ", ".join(one.label for one in found)
            raise CalibrateError(f"hold-out: found {name}; allowed: {known}")
    named = [any(one.label.startswith(name) for name in hold_out) for one in found]
    peaks = [one for one, out in zip(found, named, strict=True) if one.kind == "peak" and not out]
    if not peaks or any(one.kind == "idle" and out for one, out in zip(found, named, strict=True)):
        raise CalibrateError(
            f"hold-out: found {', '.join(hold_out)}, without which nothing is left to fit; "
            "allowed: numbers beside the idle latency and one peak bandwidth"
        )
    keep = {
        max(peaks, key=lambda one: one.read_percent).label,
        min(peaks, key=lambda one: one.read_percent).label,
        min(peaks, key=lambda one: abs(one.read_percent - 200 / 3)).label,
    }
    made, loaded = [], 0
    for one, out in zip(found, named, strict=True):
        held = out or (one.kind == "peak" and one.label not in keep)
        if one.kind == "loaded":
            held = held or loaded % 2 == 1
            loaded += 1
        made.append(replace(one, held=held))
    return made
