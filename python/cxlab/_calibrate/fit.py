"""Fitting the closed form, and correcting it by the event engine."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from cxlab._calibrate import judge, surrogate
from cxlab._calibrate.observations import CalibrateError, Observation
from cxlab._calibrate.surrogate import FREE, INSTANT, LINE, NAMES, PARAMETERS

#: Numbers of the event engine for a vector, one for each observation.
Events = Callable[[Sequence[float], Sequence[Observation]], list[float]]
Values = tuple[float, ...]

#: Rounds of correction, and the change of a parameter at which they end.
_ROUNDS = 6
_SETTLED = 0.002
#: Rounds in which parameters may come and go.
_CHOOSING = 2
#: Units of misfit (squares of residuals in standard deviations) that a parameter must be worth:
#: Akaike's criterion.
WORTH = 2.0
#: Coverage of the intervals, of all parameters together.
COVERAGE = 0.95
#: Distances of an interval's end in logarithms: first trial, last trial, and accuracy as a part.
_FIRST = 0.02
_FAR = 3.0
_EXACT = 0.05
#: Busy time of a bank from which a fit starts, in ns: the row cycle of DRAM, about.
_BANK_NS = 40.0


@dataclass(frozen=True)
class Fit:
    """Fitted parameters, with what the numbers tell of them."""

    values: Values
    #: Names of parameters that the system does not have.
    absent: tuple[str, ...]
    #: Akaike's criterion: misfit in variances of the stated noise, and 2 for each parameter.
    criterion: float
    judged: judge.Judged
    #: Both ends of the interval of each parameter that has an effect, or may have one.
    intervals: Mapping[str, tuple[float, float]]
    #: Other sets of parameters that fit as well.
    others: tuple[tuple[str, ...], ...]
    #: The form's number without corrections, and the event engine's, for each observation.
    form: tuple[float, ...]
    events: tuple[float, ...]


@dataclass(frozen=True)
class Problem:
    """Numbers that are fitted, what the link carries of each mix (GB/s), and corrections."""

    found: Sequence[Observation]
    links: Mapping[float, float]
    noise: float
    corrections: Sequence[float]
    #: Names of parameters that the system does not have.
    absent: Sequence[str] = ()

    def residuals(self, values: Sequence[float]) -> list[float]:
        """Logarithms of the form's corrected number over the measured one."""
        return [
            math.log(surrogate.value(values, one, self.links) * corrected / one.value)
            for one, corrected in zip(self.found, self.corrections, strict=True)
            if not one.held
        ]

    def misfit(self, values: Sequence[float]) -> float:
        """Sum of squares of the residuals, in variances."""
        return sum(one * one for one in self.residuals(values)) / self.noise**2


def used(values: Sequence[float]) -> tuple[str, ...]:
    """Names of the parameters that have an effect."""
    return tuple(
        one.name
        for one, value in zip(PARAMETERS, values, strict=True)
        if abs(math.log((value + 1e-9) / (one.without + 1e-9))) > 0.1
    )


def fit(
    found: Sequence[Observation],
    links: Mapping[float, float],
    noise: float,
    events: Events,
    absent: Sequence[str] = (),
) -> Fit:
    """Fits the parameters to the observations that are not held out.

    ``links`` is what the link carries of each mix, in GB/s, ``noise`` the least standard deviation
    of a number as a part of it, ``absent`` has the names of parameters that the system lacks.

    Raises:
        CalibrateError: there are fewer numbers than parameters that they tell.

    """
    problem = Problem(found, links, noise, [1.0] * len(found), absent)
    values, others, near = _choose(problem)
    measured: list[float] = []
    for turn in range(_ROUNDS):
        measured = events(values, found)
        corrections = [
            number / surrogate.value(values, one, links)
            for number, one in zip(measured, found, strict=True)
        ]
        problem = Problem(found, links, noise, corrections, absent)
        if turn < _CHOOSING:
            again, others, near = _choose(problem)
        else:
            again = _solve(problem, values)
        moved = max(abs(a / b - 1) for a, b in zip(again, values, strict=True))
        values = again
        if moved < _SETTLED:
            break
    else:
        measured = events(values, found)
    fitted = sum(not one.held for one in found)
    if fitted < len(used(values)):
        raise CalibrateError(
            f"found {fitted} numbers to fit {len(used(values))} parameters; allowed: at least as "
            "many"
        )
    judged = judge.judge(problem.residuals, values, used(values), noise)
    rich = min((_solve(problem, one) for one in (values, *near)), key=problem.misfit)
    return Fit(
        values=values,
        absent=tuple(absent),
        criterion=problem.misfit(values) + WORTH * len(used(values)),
        judged=judged,
        intervals=_intervals(problem, rich, judged),
        others=others,
        form=tuple(surrogate.value(values, one, links) for one in found),
        events=tuple(measured),
    )


def _choose(problem: Problem) -> tuple[Values, tuple[tuple[str, ...], ...], list[Values]]:
    """The best fit by Akaike's criterion, and what fits as well.

    These are other sets of as many parameters, and vectors with parameters beside those of the best
    fit.
    """
    solved: dict[tuple[str, ...], tuple[float, Values]] = {}
    for start in _starts(problem):
        whole = _solve(problem, start)
        for values in (whole, _without_idlers(problem, whole)):
            misfit = problem.misfit(values)
            names = used(values)
            if names not in solved or misfit < solved[names][0]:
                solved[names] = (misfit, values)
    # Where sets are equal, the medium stands before the paths, and these before the host.
    order = ["idle_ns", "medium_gb_per_s", "bank_ns", "read_gb_per_s", "write_gb_per_s"]

    def rank(names: tuple[str, ...]) -> tuple[float, list[int]]:
        places = sorted(order.index(one) if one in order else len(order) for one in names)
        return round(solved[names][0] + WORTH * len(names), 2), places

    best = min(solved, key=rank)
    others = tuple(
        sorted(
            names
            for names, (misfit, _) in solved.items()
            if names != best
            and len(names) == len(best)
            and misfit < solved[best][0] + judge.ALIKE_MISFIT
        )
    )
    near = [solved[names][1] for names in sorted(solved) if set(names) > set(best)]
    return solved[best][1], others, near


def _starts(problem: Problem) -> list[Values]:
    """Vectors in which each limit holds something back, or nothing."""
    fitted = [one for one in problem.found if not one.held]
    peaks = [one for one in fitted if one.kind == "peak"]
    idle = next(one.value for one in problem.found if one.kind == "idle")
    saturated = [one.value * one.offered / LINE for one in fitted if one.kind == "saturated"]
    total = max(one.value for one in peaks)
    reads = [one.value * one.reads for one in peaks if one.reads > 0]
    writes = [one.value * (1 - one.reads) for one in peaks if one.reads < 1]
    media = [(FREE, INSTANT)]
    if "medium_gb_per_s" not in problem.absent:
        media = [(total, _BANK_NS), (total, INSTANT), *media]
    choices = itertools.product(
        {max(reads, default=FREE), FREE},
        {max(writes, default=FREE), FREE},
        media,
        {max(saturated, default=total * idle / LINE), FREE},
    )
    return [(idle, read, write, *medium, lines) for read, write, medium, lines in choices]


def _without_idlers(problem: Problem, values: Values) -> Values:
    """The vector without parameters that lower the misfit by too little to be worth it."""
    while True:
        misfit = problem.misfit(values)
        trials = []
        for at, one in enumerate(PARAMETERS):
            if one.name == "idle_ns" or one.name not in used(values):
                continue
            without = list(values)
            without[at] = one.without
            if one.name == "medium_gb_per_s":
                without[at + 1] = INSTANT
            solved = _solve(problem, tuple(without))
            trials.append((problem.misfit(solved), solved))
        if not trials:
            return values
        least, solved = min(trials)
        if least > misfit + WORTH:
            return values
        values = solved


def _intervals(
    problem: Problem, values: Values, judged: judge.Judged
) -> dict[str, tuple[float, float]]:
    """Profile intervals: where the best fit of all other parameters is not yet worse than allowed.

    They are joint: with Bonferroni's bound, all hold their parameter at once with the stated
    coverage. An end that the numbers do not tell is 0 or infinite.
    """
    from scipy import stats

    names = used(values)
    tail = (1 - COVERAGE) / (2 * len(names))
    # A stated noise is known, so the normal distribution is right; a spread from few residuals has
    # Student's.
    width = (
        stats.t.ppf(1 - tail, judged.spare) if judged.from_residuals else stats.norm.ppf(1 - tail)
    )
    most = problem.misfit(values) + (float(width) * judged.noise / problem.noise) ** 2
    return {
        name: (_end(problem, values, name, -1, most), _end(problem, values, name, 1, most))
        for name in names
    }


def _end(problem: Problem, values: Values, name: str, sign: int, most: float) -> float:
    """The end of a parameter's interval on one side: where the misfit becomes too large."""
    at = NAMES.index(name)

    def solved(distance: float, start: Values) -> Values:
        moved = list(start)
        moved[at] = values[at] * math.exp(sign * distance)
        return _solve(problem, tuple(moved), fixed=name)

    low, high, here = 0.0, _FIRST, values
    while problem.misfit(there := solved(high, here)) < most:
        low, high, here = high, 2 * high, there
        if high > _FAR:
            return math.inf if sign > 0 else 0.0
    while high - low > _EXACT * high:
        middle = (low + high) / 2
        there = solved(middle, here)
        if problem.misfit(there) < most:
            low, here = middle, there
        else:
            high = middle
    return float(values[at] * math.exp(sign * high))


def _solve(problem: Problem, values: Values, fixed: str = "") -> Values:
    """Least squares of the logarithms from a vector on, over the parameters that it uses.

    A parameter that is ``fixed`` keeps its value.
    """
    import numpy
    from scipy.optimize import least_squares

    names = set(used(values)) - {fixed}
    free = [at for at, one in enumerate(PARAMETERS) if one.name in names]
    if not free:
        return values

    def whole(logs: Sequence[float]) -> list[float]:
        made = list(values)
        for at, log in zip(free, logs, strict=True):
            made[at] = math.exp(log)
        return made

    start = [math.log(values[at]) for at in free]
    solved = least_squares(
        lambda logs: problem.residuals(whole(list(logs))),
        numpy.array(start),
        bounds=([one - 3 for one in start], [one + 3 for one in start]),
    )
    return tuple(whole([float(one) for one in solved.x]))
