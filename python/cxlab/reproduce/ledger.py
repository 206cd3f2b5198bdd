"""The ledger of claims: what a paper says, what cxlab finds, and the criterion of comparison.

A claim is one of five kinds. *Fitted*: parameters were chosen with this number in sight.
*Derived*: it follows from another row and adds nothing. *Predicted*: neither of these. *Shown*:
it is not judged, for a reason that the row gives. *Not run*: the paper prints it, and no run
covers it. A judged claim has a tolerance, and the tolerance has a source.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

Verdict = Literal["pass", "MISS", "shown", "not run"]

#: Columns of ``claims.csv``.
COLUMNS = (
    "figure",
    "section",
    "claim",
    "quote",
    "paper",
    "cxlab",
    "off",
    "tolerance",
    "source",
    "kind",
    "of",
    "verdict",
    "why",
)
#: Columns that are printed on a terminal.
PRINTED = ("figure", "claim", "paper", "cxlab", "off", "tolerance", "kind", "verdict")


@dataclass(frozen=True)
class Tolerance:
    """Allowed distance of our value from the paper's number, and the reason for it."""

    amount: float
    #: Source: the paper's printed precision or claimed error, or our own interval.
    source: str
    #: Whether ``amount`` is a fraction of the paper's number, or has the unit of the claim.
    relative: bool = False

    def of(self, value: float) -> float:
        """The tolerance of a value, in its unit."""
        return abs(value) * self.amount if self.relative else self.amount

    @property
    def text(self) -> str:
        """The tolerance as it is printed."""
        if self.amount == 0:
            return "none"
        return f"{100 * self.amount:.3g} %" if self.relative else f"{self.amount:.3g}"


def printed(unit: float) -> Tolerance:
    """Half a unit of the last digit that the paper prints."""
    return Tolerance(unit / 2, "the paper's printed precision")


def words(reading: str) -> Tolerance:
    """No tolerance beyond the paper's words, as they are read here."""
    return Tolerance(0.0, f"the paper's words: {reading}")


@dataclass(frozen=True)
class Kind:
    """Kind of a claim, with its basis."""

    name: Literal["fitted", "derived", "predicted", "shown", "not run"]
    #: Fitted parameters, the rows that are restated (``figure: claim``), or the reason.
    of: tuple[str, ...] = ()


PREDICTED = Kind("predicted")


def fitted(*parameters: str) -> Kind:
    """A claim whose number was in sight when these parameters were chosen."""
    return Kind("fitted", parameters)


def derived(*rows: str) -> Kind:
    """A claim that follows from other rows, each named as ``figure: claim``."""
    return Kind("derived", rows)


def shown(reason: str) -> Kind:
    """A claim that is not judged, for a reason."""
    return Kind("shown", (reason,))


def not_run(reason: str) -> Kind:
    """A claim that the paper prints and no run covers, for a reason."""
    return Kind("not run", (reason,))


def tested(text: str) -> str:
    """An explanation that a run has tested."""
    return f"tested: {text}"


def hypothesis(text: str) -> str:
    """An explanation that no run has tested."""
    return f"hypothesis: {text}"


#: Beginnings of explanations of misses.
EXPLAINED = ("tested: ", "hypothesis: ")


@dataclass(frozen=True)
class Claim:
    """A number or range of the paper, beside ours."""

    text: str
    #: A number, both ends of a range, or words.
    paper: float | tuple[float, float] | str
    #: None for a claim that is not run.
    ours: float | None
    kind: Kind
    #: None for a claim that is not judged.
    tolerance: Tolerance | None = None
    #: Section of the paper, or its figure or table.
    section: str = ""
    #: The paper's words.
    quote: str = ""
    #: Explanation of a missed claim, by `tested` or `hypothesis`.
    why: str = ""

    def __post_init__(self) -> None:
        """Refuses a claim that could not be judged."""
        judged = self.kind.name not in ("shown", "not run")
        assert judged == (self.tolerance is not None), f"{self.text}: judged by what?"
        assert not judged or not isinstance(self.paper, str), f"{self.text}: words are not judged"
        assert (self.ours is None) == (self.kind.name == "not run"), f"{self.text}: run or not?"
        assert bool(self.kind.of) != (self.kind.name == "predicted"), f"{self.text}: {self.kind}"
        assert all(self.kind.of), f"{self.text}: {self.kind}"
        if judged:
            assert self.section and self.quote, f"{self.text}: where does the paper say so?"
            assert self.tolerance is None or self.tolerance.source, f"{self.text}: tolerance?"
        assert not self.why or self.why.startswith(EXPLAINED), f"{self.text}: tested?"

    @property
    def ends(self) -> tuple[float, float]:
        """Both ends of the paper's number."""
        assert not isinstance(self.paper, str), self.text
        return self.paper if isinstance(self.paper, tuple) else (self.paper, self.paper)

    @property
    def bounds(self) -> tuple[float, float]:
        """The range of our values that pass."""
        low, high = self.ends
        assert self.tolerance is not None, self.text
        return low - self.tolerance.of(low), high + self.tolerance.of(high)

    @property
    def off(self) -> float | None:
        """Relative deviation of ours from the paper's nearer end, or 0 between both ends."""
        if isinstance(self.paper, str) or self.ours is None:
            return None
        low, high = self.ends
        if low <= self.ours <= high:
            return 0.0
        end = low if self.ours < low else high
        return self.ours / end - 1 if end else None

    @property
    def paper_text(self) -> str:
        """The paper's side as it is printed."""
        if isinstance(self.paper, str):
            return self.paper
        low, high = self.ends
        if low == high:
            return f"{low:.4g}"
        if high == math.inf:
            return f"{low:.4g} or more"
        return f"{high:.4g} or less" if low == -math.inf else f"{low:.4g} to {high:.4g}"

    @property
    def verdict(self) -> Verdict:
        """``pass``, ``MISS``, ``shown``, or ``not run``."""
        if self.ours is None:
            return "not run"
        if self.tolerance is None:
            return "shown"
        low, high = self.bounds
        # Allows for rounding in the last digit of a float.
        slack = 1e-12 * max(1.0, abs(self.ours))
        return "pass" if low - slack <= self.ours <= high + slack else "MISS"

    def unjudged(self, reason: str) -> Claim:
        """The claim as one that is shown, for a reason."""
        return replace(self, kind=shown(reason), tolerance=None, why="")

    def row(self, figure: str) -> dict[str, str]:
        """The claim's line of ``claims.csv``."""
        tolerance = self.tolerance
        return {
            "figure": figure,
            "section": self.section,
            "claim": self.text,
            "quote": self.quote,
            "paper": self.paper_text,
            "cxlab": "" if self.ours is None else f"{self.ours:.4g}",
            "off": "" if self.off is None else f"{100 * self.off:+.1f} %".replace("-0.0", "+0.0"),
            "tolerance": "" if tolerance is None else tolerance.text,
            "source": "" if tolerance is None else tolerance.source,
            "kind": self.kind.name,
            "of": "; ".join(self.kind.of),
            "verdict": self.verdict,
            "why": self.why if self.verdict == "MISS" else "",
        }


Row = dict[str, str]


def problems(rows: Sequence[Row]) -> list[str]:
    """Problems of a paper's rows: duplicate names, or restated rows that do not exist."""
    names = [f"{row['figure']}: {row['claim']}" for row in rows]
    found = [f"{name}: twice" for name in sorted(set(names)) if names.count(name) > 1]
    for name, row in zip(names, rows, strict=True):
        if row["kind"] == "derived":
            gone = [of for of in row["of"].split("; ") if of not in names]
            found += [f"{name}: restates {of}, which is no row" for of in gone]
        if row["verdict"] == "MISS" and not row["why"].startswith(EXPLAINED):
            found.append(f"{name}: missed without an explanation")
    return found


def parameters(rows: Iterable[Row]) -> list[str]:
    """Parameters that fitted rows name, each once, in order."""
    named = (name for row in rows if row["kind"] == "fitted" for name in row["of"].split("; "))
    return list(dict.fromkeys(named))
