"""The form that is fitted: idle time, limits of bandwidth, and the wait of a queue.

It has five parameters and no events. Its numbers are multiplied by corrections, one for each
observation, which make it exact where the event engine has been run (:mod:`cxlab._calibrate.fit`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cxlab._calibrate.observations import Observation

_LINE = 64
#: Utilization above which the wait grows no further: closed loops end it.
_MOST_USED = 0.98


@dataclass(frozen=True)
class Parameter:
    """A parameter of the fit."""

    name: str
    unit: str
    text: str


#: Parameters in the order of a vector.
PARAMETERS = (
    Parameter(
        "idle_ns", "ns", "idle latency of a read: host, link, controller and medium together"
    ),
    Parameter("read_gb_per_s", "GB/s", "rate of the controller's read path"),
    Parameter("write_gb_per_s", "GB/s", "rate of the controller's write path"),
    Parameter("medium_gb_per_s", "GB/s", "rate of the medium, reads and writes together"),
    Parameter("outstanding", "lines", "requests in flight of the host"),
)
Vector = Sequence[float]


def limits(values: Vector, reads: float, link: float) -> dict[str, float]:
    """The total bandwidth in GB/s that each part allows, for a part of reads."""
    _, read, write, medium, lines = values
    found = {"link": link, "medium_gb_per_s": medium}
    if reads > 0:
        found["read_gb_per_s"] = read / reads
    if reads < 1:
        found["write_gb_per_s"] = write / (1 - reads)
    found["outstanding"] = lines * _LINE / values[0]
    return found


def peak(values: Vector, reads: float, link: float) -> float:
    """Peak bandwidth of a mix, in GB/s."""
    return min(limits(values, reads, link).values())


def value(values: Vector, one: Observation, links: Mapping[float, float]) -> float:
    """The form's number for an observation."""
    if one.kind == "idle":
        return values[0]
    most = peak(values, one.reads, links[one.read_percent])
    if one.kind == "peak":
        return most
    if one.kind == "saturated":
        return max(values[0], values[4] * _LINE / most)
    used = min(one.offered / most, _MOST_USED)
    # The mean wait of random arrivals at a server with constant service (M/D/1).
    return values[0] + _LINE / most * used / (2 * (1 - used))
