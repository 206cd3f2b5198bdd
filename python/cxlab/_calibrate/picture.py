"""The picture of a calibration: measured and simulated latency and bandwidth."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from cxlab._calibrate.result import Calibration

_INCHES = (9.6, 4.0)
_DPI = 150
#: Name of the program in the head of a picture.
CREATOR = "cxlab calibrate"


@contextmanager
def picture(made: Calibration) -> Iterator[dict[str, Callable[[Path], object]]]:
    """Functions that write the picture, by the file's name."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    # Equal numbers give equal files: names within an SVG come from a fixed salt.
    with rc_context({"svg.hashsalt": "cxlab-calibrate"}):
        figure = Figure(figsize=_INCHES, layout="constrained")
        left, right = figure.subplots(1, 2)
        latencies(made, left)
        peaks(made, right)
        yield {
            "calibrate.svg": partial(_save, figure, "svg", {"Date": None, "Creator": CREATOR}),
            "calibrate.png": partial(_save, figure, "png", {"Software": None}),
        }


def _save(figure: Figure, kind: str, metadata: dict[str, str | None], path: Path) -> None:
    figure.savefig(path, format=kind, dpi=_DPI, metadata=metadata)


def latencies(made: Calibration, axes: Axes) -> Axes:
    """Latency over bandwidth: measured points, fitted or held out, and the event engine's."""
    from cxlab.plot import COLOURS, _plain

    numbers = made.numbers
    rows = numbers[numbers.unit == "ns"].copy()
    rows.loc[rows.kind == "idle", "bandwidth_gb_per_s"] = 0.0
    rows = rows.sort_values("bandwidth_gb_per_s")
    for at, (percent, part) in enumerate(rows.groupby("read_percent")):
        colour = COLOURS[at % len(COLOURS)]
        # Nothing is simulated between the knee and saturation, so no line leads there.
        below = part[part.kind != "saturated"]
        axes.plot(
            below.bandwidth_gb_per_s,
            below.simulated,
            "-",
            color=colour,
            linewidth=1.4,
            label=f"simulated, {float(str(percent)):.0f} % reads",
        )
        full = part[part.kind == "saturated"]
        axes.plot(full.bandwidth_gb_per_s, full.simulated, "_", color=colour, markersize=16)
        _points(axes, part, "bandwidth_gb_per_s", colour)
    axes.set(
        xlabel="bandwidth, GB/s",
        ylabel="latency, ns",
        title="latency by load",
        xlim=(0, None),
        ylim=(0, 1.08 * max(rows.measured.max(), rows.simulated.max())),
    )
    _plain(axes, "both")
    axes.legend(frameon=False, fontsize=8)
    return axes


def peaks(made: Calibration, axes: Axes) -> Axes:
    """Peak bandwidth over the read share."""
    from cxlab.plot import COLOURS, _plain

    numbers = made.numbers
    rows = numbers[numbers.kind == "peak"].sort_values("read_percent")
    axes.plot(
        rows.read_percent, rows.simulated, "_", color=COLOURS[0], markersize=16, label="simulated"
    )
    _points(axes, rows, "read_percent", COLOURS[0])
    axes.set(
        xlabel="reads, % of the traffic",
        ylabel="peak bandwidth, GB/s",
        title="peak bandwidth by mix",
        xlim=(-5, 105),
        ylim=(0, 1.12 * max(rows.measured.max(), rows.simulated.max())),
    )
    _plain(axes, "both")
    axes.legend(frameon=False, fontsize=8, loc="lower left")
    return axes


def _points(axes: Axes, rows: object, x: str, colour: str) -> None:
    """Measured points: full where they are fitted, hollow where they are held out."""
    import pandas

    assert isinstance(rows, pandas.DataFrame)
    for part, face in (("fit", colour), ("held out", "white")):
        some = rows[rows.part == part]
        if len(some):
            axes.plot(
                some[x],
                some.measured,
                "o",
                markersize=5,
                markerfacecolor=face,
                markeredgecolor=colour,
                label=f"measured, {'fitted' if part == 'fit' else part}",
            )
