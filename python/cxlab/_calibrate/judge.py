"""What fitted numbers tell of parameters together: correlations, and weak combinations."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cxlab._calibrate.surrogate import NAMES

#: Misfit by which a fit is worse than another at the edge of a 95 % interval (chi-squared of one
#: degree of freedom).
ALIKE_MISFIT = 3.84
#: Correlation from which on two parameters count as hard to tell apart.
ALIKE = 0.9
#: Standard deviation of a combination of parameters, as a part of it, from which on it is weak.
_WEAK = 0.15
#: Step of the derivatives: that of a plausible error, so that a limit just beyond the numbers is
#: seen too.
_STEP = 0.01


@dataclass(frozen=True)
class Judged:
    """Errors and correlations of the parameters that have an effect."""

    names: tuple[str, ...]
    #: Standard error of each parameter, as a part of it.
    errors: Mapping[str, float]
    #: Correlation of each two parameters, row by row.
    correlations: tuple[tuple[float, ...], ...]
    #: Standard deviation of each independent combination of parameters, the least known first, as a
    #: part of it, with the exponents of the parameters.
    combinations: tuple[tuple[float, Mapping[str, float]], ...]
    #: Standard deviation of a number, as a part of it.
    noise: float
    #: Whether the residuals are larger than the stated noise explains.
    from_residuals: bool
    #: Number of fitted observations beyond that of parameters.
    spare: int

    @property
    def weak(self) -> list[Mapping[str, float]]:
        """Combinations that the numbers hardly tell."""
        return [exponents for error, exponents in self.combinations if error > _WEAK]

    @property
    def alike(self) -> list[tuple[str, str]]:
        """Pairs of parameters that the numbers hardly tell apart."""
        pairs = itertools.combinations(range(len(self.names)), 2)
        return [
            (self.names[i], self.names[j]) for i, j in pairs if abs(self.correlations[i][j]) > ALIKE
        ]


def judge(
    residuals: Callable[[Sequence[float]], list[float]],
    values: Sequence[float],
    names: tuple[str, ...],
    noise: float,
) -> Judged:
    """Judges a fit by the derivatives of its residuals, which are logarithms.

    The spread of a number is the stated noise, or that of the residuals if it is larger.
    """
    import numpy

    slopes = _slopes(residuals, values, names)
    rest = numpy.array(residuals(values))
    spare = len(rest) - len(names)
    own = math.sqrt(float(rest @ rest) / spare) if spare > 0 else 0.0
    spread = max(noise, own)
    _, singular, directions = numpy.linalg.svd(slopes, full_matrices=False)
    floor = 1e-6 * float(singular[0])
    covariance: Any = sum(
        numpy.outer(row, row) * (spread / max(float(one), floor)) ** 2
        for one, row in zip(singular, directions, strict=True)
    )
    errors = numpy.sqrt(numpy.diag(covariance))
    combinations = [
        (
            spread / max(float(one), floor),
            {name: float(part) for name, part in zip(names, row, strict=True)},
        )
        for one, row in zip(singular, directions, strict=True)
    ]
    return Judged(
        names=names,
        errors={name: float(one) for name, one in zip(names, errors, strict=True)},
        correlations=tuple(
            tuple(float(covariance[i, j] / (errors[i] * errors[j])) for j in range(len(names)))
            for i in range(len(names))
        ),
        combinations=tuple(sorted(combinations, key=lambda one: -one[0])),
        noise=spread,
        from_residuals=own > noise,
        spare=spare,
    )


def _slopes(
    residuals: Callable[[Sequence[float]], list[float]],
    values: Sequence[float],
    names: Sequence[str],
) -> Any:
    """Change of each residual for a change of each parameter's logarithm, by differences."""
    import numpy

    columns = []
    for name in names:
        at = NAMES.index(name)
        up, down = list(values), list(values)
        up[at] *= math.exp(_STEP)
        down[at] *= math.exp(-_STEP)
        change = numpy.array(residuals(up)) - numpy.array(residuals(down))
        columns.append(change / (2 * _STEP))
    return numpy.array(columns).T
