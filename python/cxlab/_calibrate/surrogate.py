"""The closed form that is fitted: idle time, limits of bandwidth, and waits of two queues.

It has six parameters and no events. Its numbers are multiplied by corrections, one for each
observation, which make it exact where the event engine has been run (:mod:`cxlab._calibrate.fit`).

Left out: scheduling, refresh and rows of DRAM, turnarounds of a bus between reads and writes, and
the wait between 80 and 97 % of the peak.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cxlab._calibrate.observations import Observation

LINE = 64
#: Utilization above which the wait grows no further: closed loops end it.
_MOST_USED = 0.98
#: Utilization of the banks that no finite number of lines exceeds here, and steps of bisection.
_MOST_BUSY = 0.999
_HALVINGS = 30
#: A limit that holds nothing back, in GB/s or in lines.
FREE = 1e5
#: A bank's busy time that lets no request wait, in ns.
INSTANT = 1e-3


@dataclass(frozen=True)
class Parameter:
    """A parameter of the fit."""

    name: str
    unit: str
    #: Value with which the parameter has no effect.
    without: float
    text: str


#: Parameters in the order of a vector.
PARAMETERS = (
    Parameter("idle_ns", "ns", 0.0, "idle latency of a read: host, link, controller and medium"),
    Parameter("read_gb_per_s", "GB/s", FREE, "rate of the controller's read path"),
    Parameter("write_gb_per_s", "GB/s", FREE, "rate of the controller's write path"),
    Parameter("medium_gb_per_s", "GB/s", FREE, "rate of the medium, reads and writes together"),
    Parameter("bank_ns", "ns", INSTANT, "time for which a line keeps its bank of the medium busy"),
    Parameter("outstanding", "lines", FREE, "requests in flight of the host"),
)
NAMES = tuple(one.name for one in PARAMETERS)
Vector = Sequence[float]


def banks(medium_gb_per_s: float, bank_ns: float) -> int:
    """Number of banks that serve a rate with a busy time. At least 1, at most 65536."""
    return max(1, min(65536, round(medium_gb_per_s * bank_ns / LINE)))


def limits(values: Vector, reads: float, link: float) -> dict[str, float]:
    """Total bandwidth in GB/s that each part allows, for a part of reads from 0 to 1."""
    _, read, write, medium, _, _ = values
    found = {"link": link, "medium_gb_per_s": medium}
    if reads > 0:
        found["read_gb_per_s"] = read / reads
    if reads < 1:
        found["write_gb_per_s"] = write / (1 - reads)
    found["outstanding"] = _of_lines(values)
    return found


def _of_lines(values: Vector) -> float:
    """Bandwidth in GB/s at which the host has all its lines in flight (Little's law).

    Lines wait for banks even where these could serve more, because they find some busy and others
    idle. So the bandwidth solves ``rate * (idle + wait(rate)) = lines``.
    """
    idle, _, _, medium, bank_ns, lines = values
    low, high = 0.0, min(lines * LINE / idle, _MOST_BUSY * medium)
    if bank_ns <= INSTANT:
        return lines * LINE / idle
    for _ in range(_HALVINGS):
        rate = (low + high) / 2
        used = rate / medium
        if rate * (idle + bank_ns * used / (2 * (1 - used))) < lines * LINE:
            low = rate
        else:
            high = rate
    return high


def peak(values: Vector, reads: float, link: float) -> float:
    """Peak bandwidth of a mix, in GB/s."""
    return min(limits(values, reads, link).values())


def value(values: Vector, one: Observation, links: Mapping[float, float]) -> float:
    """The form's number for an observation, in its unit."""
    idle, _, _, medium, bank_ns, lines = values
    if one.kind == "idle":
        return idle
    most = peak(values, one.reads, links[one.read_percent])
    if one.kind == "peak":
        return most
    if one.kind == "saturated":
        return max(idle, lines * LINE / most)
    return idle + LINE / most * _wait(one.offered / most) + bank_ns * _wait(one.offered / medium)


def _wait(used: float) -> float:
    """Mean wait in service times: random arrivals at a server with constant service (M/D/1)."""
    used = min(used, _MOST_USED)
    return used / (2 * (1 - used))
