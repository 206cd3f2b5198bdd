"""What a calibration found: parameters with intervals, errors, and the device's table."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cxlab import _files, _native
from cxlab._calibrate.bench import FIXED, NONE
from cxlab._calibrate.fit import COVERAGE, Fit
from cxlab._calibrate.judge import ALIKE
from cxlab._calibrate.observations import Observation
from cxlab._calibrate.surrogate import LINE, NAMES, PARAMETERS
from cxlab._scenario import PathLike

if TYPE_CHECKING:
    import pandas

#: Files of a result.
FILES = [
    "calibrate.json",
    "calibrate.txt",
    "numbers.csv",
    "parameters.csv",
    "correlations.csv",
    "calibrate.svg",
    "calibrate.png",
]
#: Bytes of a picture that have the name of its program.
_HEAD_BYTES = 4096
#: Version of the names in `calibrate.json`.
FORMAT = 1

NOT_PROMISED = (
    "other mixes than those above",
    "other hosts, and more than one host",
    "latencies above 80 % of the peak",
    "tails of latency",
)


@dataclass(frozen=True)
class Calibration:
    """A fitted device."""

    #: Names of the measurements.
    sources: tuple[str, ...]
    preset: str
    host: str
    found: tuple[Observation, ...]
    fit: Fit
    #: Idle latency in ns without the controller's time, by the event engine.
    rest_ns: float
    #: The device's table.
    device: dict[str, Any]
    #: The medium: ``"fixed"``, or grade, channels and ranks of DRAM.
    medium: str = FIXED
    #: Media that were tried, the best first: ``medium``, ``criterion`` (Akaike's, the less the
    #: better), and the root mean square deviations ``fit_percent`` and ``held_out_percent``.
    media: tuple[dict[str, Any], ...] = ()
    #: Warnings about single numbers.
    notes: tuple[str, ...] = ()

    @property
    def parameters(self) -> pandas.DataFrame:
        """A row for each parameter.

        ``value`` with its 95 % interval from ``low`` to ``high``, which is joint: all intervals
        hold at once. ``status`` is one of

        - ``"fitted"``;
        - ``"weak"``: the interval has an open end;
        - ``"one of"``: other parameters explain the numbers as well;
        - ``"no limit seen"``: the device has no such limit, ``value`` is NaN, and ``low`` and
          ``high`` are what the numbers allow.

        """
        import pandas

        rows = []
        least = _least(self.found)
        sure = set(self.fit.judged.names)
        for other in self.fit.others:
            sure &= set(other)
        for one, value in zip(PARAMETERS, self.fit.values, strict=True):
            if one.name in self.fit.absent:
                continue
            fitted = one.name in self.fit.judged.names
            low, high = self.fit.intervals.get(one.name, (0.0, math.inf))
            if not fitted:
                # Without an effect a rate is unlimited, and the time of a bank is nothing.
                low = least.get(one.name, 0.0)
                high = high if one.name == "bank_ns" else math.inf
            if fitted:
                closed = low > 0 and math.isfinite(high)
                status = "one of" if one.name not in sure else "fitted" if closed else "weak"
            else:
                status = "no limit seen"
            rows.append(
                {
                    "parameter": one.name,
                    "unit": one.unit,
                    "value": value if fitted else math.nan,
                    "low": low,
                    "high": high,
                    "status": status,
                    "what": one.text,
                }
            )
        return pandas.DataFrame(rows)

    @property
    def numbers(self) -> pandas.DataFrame:
        """A row for each number.

        ``measured``, ``form`` (the closed form), ``simulated`` (the event engine), its deviation
        from the measured number ``off_percent``, and ``part`` (``"fit"`` or ``"held out"``).
        """
        import pandas

        return pandas.DataFrame(
            {
                "source": one.source,
                "number": one.label,
                "kind": one.kind,
                "unit": one.unit,
                "read_percent": one.read_percent,
                "bandwidth_gb_per_s": one.offered or math.nan,
                "measured": one.value,
                "form": form,
                "simulated": ours,
                "off_percent": 100 * (ours / one.value - 1),
                "part": "held out" if one.held else "fit",
            }
            for one, form, ours in zip(self.found, self.fit.form, self.fit.events, strict=True)
        )

    @property
    def correlations(self) -> pandas.DataFrame:
        """Correlation of each two fitted parameters, of their logarithms."""
        import pandas

        names = list(self.fit.judged.names)
        rows = [list(row) for row in self.fit.judged.correlations]
        return pandas.DataFrame(rows, index=names, columns=names)

    def error(self, part: str) -> float:
        """Root mean square of the deviations of a part, in percent; NaN if it is empty."""
        numbers = self.numbers
        off = numbers.off_percent[numbers.part == part]
        return float((off**2).mean() ** 0.5) if len(off) else math.nan

    def table(self) -> str:
        """Parameters, numbers, correlations, and what is not promised."""
        from cxlab._calibrate.text import table

        return table(self)

    def toml(self) -> str:
        """The device's table for a scenario, with interval and source of each fitted key."""
        from cxlab._calibrate.text import toml

        return toml(self)

    def write(self, folder: PathLike) -> list[Path]:
        """Writes `calibrate.json`, the tables as text and CSV, and a picture into a folder.

        Raises:
            OSError: the folder is not writable, or another process writes there.

        """
        from cxlab._calibrate.picture import CREATOR, picture

        folder = Path(folder)
        drawing = folder / "calibrate.svg"
        if drawing.is_file() and CREATOR.encode() not in _files.read_bytes(drawing, _HEAD_BYTES):
            raise OSError(
                f"{folder}: found `{drawing.name}`, which cxlab did not write; allowed: a folder "
                "without, or another one"
            )
        files: dict[str, str | Callable[[Path], object]] = {
            "calibrate.json": json.dumps(self._plain(), indent=1, allow_nan=False) + "\n",
            "calibrate.txt": self.table(),
            "numbers.csv": self.numbers.to_csv(index=False, lineterminator="\n"),
            "parameters.csv": self.parameters.to_csv(index=False, lineterminator="\n"),
            "correlations.csv": self.correlations.to_csv(
                index_label="parameter", lineterminator="\n"
            ),
        }
        folder.mkdir(parents=True, exist_ok=True)
        with picture(self) as drawn:
            files.update(drawn)
            # The extension does not know Matplotlib's pictures.
            checked = [name for name in FILES if name != drawing.name]
            _files.replace(folder, files, FILES, checked=checked)
        return [folder / name for name in FILES]

    def _plain(self) -> dict[str, Any]:
        """What `calibrate.json` holds; null stands for a number that is not known."""
        judged = self.fit.judged
        return {
            "format": FORMAT,
            "version": _native.VERSION,
            "sources": list(self.sources),
            "preset": self.preset,
            "host": self.host,
            "medium": self.medium,
            "media": [{key: _known(value) for key, value in one.items()} for one in self.media],
            "device": self.device,
            "coverage": COVERAGE,
            "noise": judged.noise,
            "noise_from_residuals": judged.from_residuals,
            "error_percent": {
                "fit": _known(self.error("fit")),
                "held_out": _known(self.error("held out")),
            },
            "idle_without_controller_ns": self.rest_ns,
            "parameters": _records(self.parameters),
            "numbers": _records(self.numbers),
            "correlations": {
                "parameters": list(judged.names),
                "values": [list(row) for row in judged.correlations],
            },
            "combinations": [
                {"standard_deviation": error, "exponents": dict(exponents)}
                for error, exponents in judged.combinations
            ],
            "hard_to_tell_apart": {
                "correlation_above": ALIKE,
                "pairs": [list(pair) for pair in judged.alike],
                "other_sets": [list(names) for names in self.fit.others],
            },
            "not_promised": list(NOT_PROMISED),
            "notes": list(self.notes),
        }

    @property
    def outstanding(self) -> int | None:
        """Requests in flight of the host (``hosts[].issue.outstanding``); None if not fitted."""
        fitted = "outstanding" in self.fit.judged.names
        return round(self.fit.values[NAMES.index("outstanding")]) if fitted else None

    @property
    def without_link(self) -> bool:
        """Whether the memory has no CXL link."""
        return self.preset == NONE


def _least(found: tuple[Observation, ...]) -> dict[str, float]:
    """Least values that the measured peaks allow, of limits that hold nothing back."""
    peaks = [one for one in found if one.kind == "peak"]
    idle = next(one.value for one in found if one.kind == "idle")
    total = max((one.value for one in peaks), default=0.0)
    return {
        "read_gb_per_s": max((one.value * one.reads for one in peaks), default=0.0),
        "write_gb_per_s": max((one.value * (1 - one.reads) for one in peaks), default=0.0),
        "medium_gb_per_s": total,
        "outstanding": total * idle / LINE,
    }


def _records(frame: pandas.DataFrame) -> list[dict[str, Any]]:
    return [
        {str(key): _known(value) for key, value in row.items()} for row in frame.to_dict("records")
    ]


def _known(value: Any) -> Any:
    """A value as JSON has it."""
    return None if isinstance(value, float) and not math.isfinite(value) else value
