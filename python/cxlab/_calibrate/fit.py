"""Fitting the form, and correcting it by the event engine."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cxlab._calibrate import surrogate
from cxlab._calibrate.observations import CalibrateError, Observation
from cxlab._calibrate.surrogate import PARAMETERS

if TYPE_CHECKING:
    import numpy
    from numpy.typing import NDArray

#: Numbers of the event engine for a vector, one for each observation.
Events = Callable[[Sequence[float], Sequence[Observation]], list[float]]

#: A limit that holds nothing back, in GB/s, and as many requests; the time of a bank without waits.
FREE = 1e4
NO_BANK = 1e-2
#: Time of a bank that a fit begins with, in ns: the row cycle of DRAM (JESD79-5, tRC).
_BANK = 48.0
#: Rounds of correction, and the change of a parameter at which they end.
_ROUNDS = 4
_SETTLED = 0.002
#: Sensitivity below which the numbers do not tell a parameter: part of a value for its double.
_TOLD = 0.02
#: Highest values of the parameters, in the order of a vector.
_HIGHEST = (1e6, 2 * FREE, 2 * FREE, 2 * FREE, 500.0, 2 * FREE)
#: Logarithm of the widest half of an interval that is computed.
_WIDEST = 100.0
#: Coverage of the intervals, of all parameters together.
COVERAGE = 0.99


@dataclass(frozen=True)
class Fit:
    """Fitted parameters, with what the numbers tell of them."""

    values: tuple[float, ...]
    #: Names of the parameters that the numbers tell.
    told: tuple[str, ...]
    #: Both ends of the interval of each parameter that is told.
    intervals: Mapping[str, tuple[float, float]]
    #: Least values of limits that hold nothing back.
    at_least: Mapping[str, float]
    #: Correlations of the parameters that are told, by name and name.
    correlations: Mapping[tuple[str, str], float]
    #: Standard deviation of a number, as a part of it.
    noise: float
    #: The event engine's number for each observation.
    events: tuple[float, ...]


def fit(
    found: Sequence[Observation], links: Mapping[float, float], noise: float, events: Events
) -> Fit:
    """Fits the parameters to the observations that are not held out.

    ``links`` is what the link carries of each mix, in GB/s, ``noise`` the least standard deviation
    of a number as a part of it.
    """
    corrections = [1.0] * len(found)
    values = _start(found, links, corrections, noise)
    measured: list[float] = []
    for _ in range(_ROUNDS):
        values = _solve(values, found, links, corrections)
        measured = events(values, found)
        corrections = [
            number / surrogate.value(values, one, links)
            for number, one in zip(measured, found, strict=True)
        ]
        again = _solve(values, found, links, corrections)
        moved = max(abs(a / b - 1) for a, b in zip(again, values, strict=True))
        values = again
        if moved < _SETTLED:
            break
    return _judge(values, found, links, corrections, noise, measured)


def _residuals(
    found: Sequence[Observation], links: Mapping[float, float], corrections: Sequence[float]
) -> Callable[[NDArray[numpy.float64]], list[float]]:
    """Logarithms of ours over measured, of the observations that are fitted."""

    def made(logs: NDArray[numpy.float64]) -> list[float]:
        values = [math.exp(one) for one in logs]
        return [
            math.log(surrogate.value(values, one, links) * corrected / one.value)
            for one, corrected in zip(found, corrections, strict=True)
            if not one.held
        ]

    return made


def _start(
    found: Sequence[Observation],
    links: Mapping[float, float],
    corrections: Sequence[float],
    noise: float,
) -> tuple[float, ...]:
    """The best of the vectors in which each limit holds something back, or nothing.

    A limit has to be worth its parameter, by Akaike's criterion.
    """
    fitted = [one for one in found if not one.held]
    peaks = [one for one in fitted if one.kind == "peak"]
    idle = next(one.value for one in found if one.kind == "idle")
    read = max((one.value * one.reads for one in peaks), default=FREE)
    write = max((one.value * (1 - one.reads) for one in peaks), default=FREE) or FREE
    total = max(one.value for one in peaks)
    saturated = [one for one in fitted if one.kind == "saturated"]
    lines = max((one.value * one.offered / 64 for one in saturated), default=FREE)
    made = _residuals(found, links, corrections)

    def cost(values: Sequence[float]) -> float:
        import numpy

        rest = sum(one * one for one in made(numpy.log(values))) / noise**2
        return float(rest + 2 * sum(2 * NO_BANK < one < FREE / 2 for one in values))

    banks = (_BANK, NO_BANK)
    choices = itertools.product((read, FREE), (write, FREE), (total, FREE), banks, (lines, FREE))
    vectors = [(idle, *rest) for rest in choices]
    return min((_solve(one, found, links, corrections) for one in vectors), key=cost)


def _solve(
    values: Sequence[float],
    found: Sequence[Observation],
    links: Mapping[float, float],
    corrections: Sequence[float],
) -> tuple[float, ...]:
    """Least squares of the logarithms from a vector on."""
    import numpy
    from scipy.optimize import least_squares

    low, high = numpy.log([1e-3] * len(values)), numpy.log(_HIGHEST)
    solved = least_squares(
        _residuals(found, links, corrections), numpy.log(values), bounds=(low, high), x_scale=1.0
    )
    return tuple(float(one) for one in numpy.exp(solved.x))


def _judge(
    values: tuple[float, ...],
    found: Sequence[Observation],
    links: Mapping[float, float],
    corrections: Sequence[float],
    noise: float,
    measured: Sequence[float],
) -> Fit:
    """What the fitted numbers tell of each parameter."""
    import numpy
    from scipy import stats

    made = _residuals(found, links, corrections)
    slopes = _slopes(made, values)
    told = [at for at in range(len(values)) if numpy.abs(slopes[:, at]).max() > _TOLD]
    fitted = [one for one in found if not one.held]
    spare = len(fitted) - len(told)
    if spare < 0:
        raise CalibrateError(
            f"found {len(fitted)} numbers to fit {len(told)} parameters; allowed: at least as many"
        )
    logs = numpy.log(values)
    rest = float(numpy.sum(numpy.square(made(logs))))
    spread = max(noise, math.sqrt(rest / spare) if spare else noise)
    some = slopes[:, told]
    # A parameter that another one can stand in for has a small singular value.
    covariance: Any = numpy.linalg.pinv(some.T @ some) * spread**2
    tail = (1 - COVERAGE) / (2 * max(1, len(told)))
    # The noise is known at least as well as the bound says, so the normal distribution is enough
    # where it decides; a spread from few residuals has Student's.
    width = stats.norm.ppf(1 - tail) if spread == noise else stats.t.ppf(1 - tail, max(3, spare))
    errors = numpy.sqrt(numpy.diag(covariance))
    names = [PARAMETERS[at].name for at in told]
    ends = {
        name: (
            values[at] * math.exp(-min(width * error, _WIDEST)),
            values[at] * math.exp(min(width * error, _WIDEST)),
        )
        for name, at, error in zip(names, told, errors, strict=True)
    }
    correlations = {
        (a, b): float(covariance[i, j] / (errors[i] * errors[j]))
        for (i, a), (j, b) in itertools.combinations(enumerate(names), 2)
        if errors[i] > 0 and errors[j] > 0
    }
    return Fit(
        values=values,
        told=tuple(names),
        intervals=ends,
        at_least=_at_least(found, names, math.exp(-width * spread)),
        correlations=correlations,
        noise=spread,
        events=tuple(measured),
    )


def _slopes(made: Callable[[Any], list[float]], values: Sequence[float]) -> Any:
    """Change of each residual for a change of each parameter's logarithm, by differences.

    The step is that of a plausible error, so that a limit just beyond the numbers is seen too.
    """
    import numpy

    step = 0.01
    logs = numpy.log(values)
    columns = []
    for at in range(len(values)):
        up, down = logs.copy(), logs.copy()
        up[at] += step
        down[at] -= step
        columns.append((numpy.array(made(up)) - numpy.array(made(down))) / (2 * step))
    return numpy.array(columns).T


def _at_least(found: Sequence[Observation], told: Sequence[str], slack: float) -> dict[str, float]:
    """Least values of the limits that hold nothing back, less the noise of the numbers."""
    peaks = [one for one in found if one.kind == "peak"]
    least = {
        "read_gb_per_s": max((one.value * one.reads for one in peaks), default=0.0),
        "write_gb_per_s": max((one.value * (1 - one.reads) for one in peaks), default=0.0),
        "medium_gb_per_s": max((one.value for one in peaks), default=0.0),
        "bank_ns": 0.0,
        "outstanding": 1.0,
    }
    return {name: slack * value for name, value in least.items() if name not in told}
