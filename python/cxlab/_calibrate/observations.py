"""Numbers of a measurement that a fit can use, and which of them judge it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    from cxlab._mlc import Mlc

Kind: TypeAlias = Literal["idle", "peak", "loaded", "saturated"]

#: Part of the peak up to which a loaded latency is used. Above, a small error of the bandwidth is a
#: large one of the latency.
BELOW = 0.8
#: The load with the longest latency of its table is saturated if that is so many times the least.
SATURATED = 1.5
#: Most parts of the read share by which two mixes count as one.
_SAME = 0.5


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

    @property
    def unit(self) -> str:
        """Unit of the value."""
        return "GB/s" if self.kind == "peak" else "ns"

    @property
    def reads(self) -> float:
        """Reads as a part of the traffic."""
        return self.read_percent / 100


def of(found: Mlc) -> list[Observation]:
    """The usable numbers of a measurement, in its order."""
    made: list[Observation] = []
    idle = found.idle_ns
    if idle is not None and math.isfinite(idle):
        made.append(Observation("idle", "idle latency", 100.0, idle))
    peaks = _peaks(found)
    made += peaks
    made += _loaded(found, {one.read_percent: one.value for one in peaks})
    for one in made:
        if not math.isfinite(one.value) or one.value <= 0:
            raise CalibrateError(
                f"{found.name}: {one.label}: found {one.value:g}; allowed: more than 0 {one.unit}"
            )
    return made


def _peaks(found: Mlc) -> list[Observation]:
    """Peak bandwidths, one for each mix: the first that the measurement has."""
    made: list[Observation] = []
    for row in found.peak.to_dict("records"):
        percent = float(row["read_percent"])
        known = any(abs(one.read_percent - percent) < _SAME for one in made)
        if known or not math.isfinite(percent):
            continue
        value = float(row["bandwidth_mb_per_s"]) / 1e3
        made.append(Observation("peak", str(row["label"]), percent, value))
    return made


def _loaded(found: Mlc, peaks: dict[float, float]) -> list[Observation]:
    """Loaded latencies below the knee, and one of saturation for each mix of reads alone."""
    made: list[Observation] = []
    frames = [frame for frame in (found.loaded, found.curves) if len(frame)]
    for frame in frames[:1]:
        for percent, part in frame.groupby("read_percent"):
            reads = float(str(percent))
            rates = [float(one) / 1e3 for one in part["bandwidth_mb_per_s"]]
            near = [peak for at, peak in peaks.items() if abs(at - reads) < _SAME]
            top = max([*rates, *near])
            rows = sorted(zip(rates, map(float, part["latency_ns"]), strict=True))
            rate, latency = max(rows, key=lambda row: row[1])
            full = latency > SATURATED * min(one for _, one in rows)
            label = f"{reads:g} % reads at"
            if not near:
                made.append(Observation("peak", f"{reads:g} % reads, highest", reads, top))
            made += [
                Observation("loaded", f"{label} {rate:.2f} GB/s", reads, latency, rate)
                for rate, latency in rows
                if rate <= BELOW * top
            ]
            if full and reads > 100 - _SAME:
                made.append(Observation("saturated", f"{label} saturation", reads, latency, rate))
    return made


def split(found: Sequence[Observation], hold_out: Sequence[str]) -> list[Observation]:
    """Marks the numbers that judge the fit.

    The fit keeps idle latency, the peaks of all reads, of the mix with fewest reads and of the one
    nearest to 2:1, saturation, and every other loaded latency. ``hold_out`` names more by the
    beginning of their labels.

    Raises:
        CalibrateError: too few numbers, or a name that fits none.

    """
    peaks = [one for one in found if one.kind == "peak"]
    if not peaks or not any(one.kind == "idle" for one in found):
        missing = "an idle latency" if peaks else "peak bandwidths"
        raise CalibrateError(
            f"found {len(found)} numbers without {missing}; allowed: an idle latency and at least "
            "one peak bandwidth (mlc, mlc --idle_latency, mlc --peak_injection_bandwidth)"
        )
    keep = {
        max(peaks, key=lambda one: one.read_percent).label,
        min(peaks, key=lambda one: one.read_percent).label,
        min(peaks, key=lambda one: abs(one.read_percent - 200 / 3)).label,
    }
    for name in hold_out:
        if not any(one.label.startswith(name) for one in found):
            known = ", ".join(one.label for one in found)
            raise CalibrateError(f"hold-out: found {name}; allowed: {known}")
    made, loaded = [], 0
    for one in found:
        held = one.kind == "peak" and one.label not in keep
        if one.kind == "loaded":
            held = loaded % 2 == 1
            loaded += 1
        held = held or any(one.label.startswith(name) for name in hold_out)
        made.append(replace(one, held=held))
    return made
