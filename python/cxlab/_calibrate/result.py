"""What a calibration found: parameters with intervals, errors, and the device's table."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cxlab import _files
from cxlab._calibrate.fit import COVERAGE, Fit
from cxlab._calibrate.observations import Observation
from cxlab._calibrate.surrogate import LINES, PARAMETERS
from cxlab._scenario import PathLike

if TYPE_CHECKING:
    import pandas

#: Files of a result.
NAMES = ["numbers.csv", "parameters.csv", "calibrate.txt"]
#: Ratio of an interval's ends above which the numbers do not tell the parameter.
_WIDE = 100.0
#: Correlation from which on two parameters count as hard to tell apart.
_ALIKE = 0.9

_NOT_PROMISED = """\
Not promised: other mixes than those above, other hosts, latencies above 80 % of the peak, and
tails. The idle latency is a sum: one host cannot tell the times of host, link, controller and
medium apart, so the controller has what the preset's other parts leave."""


@dataclass(frozen=True)
class Calibration:
    """A fitted device."""

    #: Names of the measurements.
    sources: tuple[str, ...]
    preset: str
    host: str
    found: tuple[Observation, ...]
    fit: Fit
    #: The keys of the device's table.
    device: dict[str, Any]
    #: Warnings about single numbers.
    notes: tuple[str, ...] = ()

    @property
    def parameters(self) -> pandas.DataFrame:
        """A row for each parameter: value, ends of its interval, and whether the data tell it."""
        import pandas

        rows = []
        for one, value in zip(PARAMETERS, self.fit.values, strict=True):
            told = one.name in self.fit.told
            low, high = self.fit.intervals.get(
                one.name, (self.fit.at_least.get(one.name, math.nan), math.inf)
            )
            rows.append(
                {
                    "parameter": one.name,
                    "unit": one.unit,
                    "value": value if told else math.nan,
                    "low": low,
                    "high": high,
                    "told": told,
                    "what": one.text,
                }
            )
        return pandas.DataFrame(rows)

    @property
    def numbers(self) -> pandas.DataFrame:
        """A row for each number: measured, by the event engine, deviation, and its part."""
        import pandas

        return pandas.DataFrame(
            {
                "number": one.label,
                "kind": one.kind,
                "unit": one.unit,
                "measured": one.value,
                "simulated": ours,
                "off_percent": 100 * (ours / one.value - 1),
                "part": "held out" if one.held else "fit",
            }
            for one, ours in zip(self.found, self.fit.events, strict=True)
        )

    def error(self, part: str) -> float:
        """Root mean square of the deviations of a part, in percent; NaN if it is empty."""
        numbers = self.numbers
        off = numbers.off_percent[numbers.part == part]
        return float((off**2).mean() ** 0.5) if len(off) else math.nan

    def table(self) -> str:
        """Parameters, numbers, correlations, and what is not promised."""
        lines = [
            f"calibrated from {', '.join(self.sources)} on {self.preset}, host {self.host}",
            "",
        ]
        joint = f"{100 * COVERAGE:.0f} % joint interval"
        lines.append(f"  {'parameter':<18}{'value':>10}  unit   {joint}")
        for row in self.parameters.to_dict("records"):
            lines.append(f"  {row['parameter']:<18}{_value(row)}")
        lines += ["", f"  {'number':<34}{'measured':>10}{'cxlab':>10}  unit     off  part"]
        for row in self.numbers.to_dict("records"):
            lines.append(
                f"  {row['number']:<34}{row['measured']:>10.4g}{row['simulated']:>10.4g}  "
                f"{row['unit']:<5}{row['off_percent']:>+6.1f} %  {row['part']}"
            )
        lines += ["", f"  root mean square: fit {self.error('fit'):.1f} %{self._held()}"]
        lines += self._alike()
        lines += ["", *(f"  note: {note}" for note in self.notes), _NOT_PROMISED]
        return "\n".join(lines) + "\n"

    def _held(self) -> str:
        off = self.error("held out")
        return "; nothing is held out" if math.isnan(off) else f", held out {off:.1f} %"

    def _alike(self) -> list[str]:
        pairs = self.fit.correlations.items()
        made = [f"  correlation of {a} and {b}: {value:+.2f}" for (a, b), value in pairs]
        hard = [f"{a} and {b}" for (a, b), value in pairs if abs(value) > _ALIKE]
        if hard:
            made.append(f"  the numbers hardly tell apart: {'; '.join(hard)}")
        return made

    def toml(self) -> str:
        """The device's table, with the interval of each fitted key."""
        import tomli_w

        table: dict[str, Any] = {"name": "device"}
        if self.preset != "none":
            table["preset"] = self.preset
        table.update(self.device)
        text = tomli_w.dumps({"devices": [table]})
        comments = [f"# Calibrated by cxlab from {', '.join(self.sources)}."]
        for row in self.parameters.to_dict("records"):
            comments.append(f"# {row['what']}: {_value(row).strip()}")
        lines = self.fit.values[LINES]
        if "outstanding" in self.fit.told:
            comments.append(f"# Beside it: hosts[].issue.outstanding = {round(lines)}.")
        return "\n".join(comments) + "\n" + text

    def write(self, folder: PathLike) -> list[Path]:
        """Writes the tables into a folder.

        Raises:
            OSError: the folder is not writable, or another process writes there.

        """
        folder = Path(folder)
        files: dict[str, str | Callable[[Path], object]] = {
            "numbers.csv": self.numbers.to_csv(index=False, lineterminator="\n"),
            "parameters.csv": self.parameters.to_csv(index=False, lineterminator="\n"),
            "calibrate.txt": self.table(),
        }
        folder.mkdir(parents=True, exist_ok=True)
        _files.replace(folder, files, NAMES)
        return [folder / name for name in NAMES]


def _value(row: dict[Any, Any]) -> str:
    """A parameter's value with its interval, or its bound."""
    if row["told"]:
        return f"{row['value']:>10.4g}  {row['unit']:<6} {row['low']:.4g} to {row['high']:.4g}"
    least = f"at least {row['low']:.4g}: " if row["low"] else ""
    return f"{'-':>10}  {row['unit']:<6} {least}nothing shows this limit"


def notes(found: Sequence[Observation], links: dict[float, float]) -> tuple[str, ...]:
    """Numbers that the preset's link cannot carry."""
    return tuple(
        f"{one.label}: {one.value:.2f} GB/s is more than the link carries, "
        f"{links[one.read_percent]:.2f} GB/s"
        for one in found
        if one.kind == "peak" and one.value > 1.02 * links[one.read_percent]
    )
