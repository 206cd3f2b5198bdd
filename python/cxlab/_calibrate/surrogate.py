"""The form that is fitted: idle time, limits of bandwidth, and the wait of a queue.

It has six parameters and no events. Its numbers are multiplied by corrections, one for each
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
    Parameter("bank_ns", "ns", "time for which a line keeps its bank of the medium busy"),
    Parameter("outstanding", "lines", "requests in flight of the host"),
)
IDLE, READ, WRITE, MEDIUM, BANK, LINES = range(len(PARAMETERS))
Vector = Sequence[float]


def limits(values: Vector, reads: float, link: float) -> dict[str, float]:
    """The total bandwidth in GB/s that each part allows, for a part of reads."""
    found = {"link": link, "medium_gb_per_s": values[MEDIUM]}
    if reads > 0:
        found["read_gb_per_s"] = values[READ] / reads
    if reads < 1:
        found["write_gb_per_s"] = values[WRITE] / (1 - reads)
    found["outstanding"] = values[LINES] * _LINE / values[IDLE]
    return found


def peak(values: Vector, reads: float, link: float) -> float:
    """Peak bandwidth of a mix, in GB/s."""
    return min(limits(values, reads, link).values())


def value(values: Vector, one: Observation, links: Mapping[float, float]) -> float:
    """The form's number for an observation."""
    if one.kind == "idle":
        return values[IDLE]
    most = peak(values, one.reads, links[one.read_percent])
    if one.kind == "peak":
        return most
    if one.kind == "saturated":
        return max(values[IDLE], values[LINES] * _LINE / most)
    wait = _wait(_LINE / most, one.offered / most)
    return values[IDLE] + wait + _wait(values[BANK], one.offered / values[MEDIUM])


def _wait(service_ns: float, used: float) -> float:
    """The mean wait of random arrivals at a server with constant service (M/D/1), in ns."""
    used = min(used, _MOST_USED)
    return service_ns * used / (2 * (1 - used))
