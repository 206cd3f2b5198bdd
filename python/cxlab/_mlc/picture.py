"""Pictures of the curve family and of a victim beside neighbours."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from cxlab._mlc.result import Mlc

_INCHES = (6.4, 4.0)
_DPI = 150


@contextmanager
def pictures(mlc: Mlc) -> Iterator[dict[str, Callable[[Path], object]]]:
    """Functions that write each picture of what was measured, by the file's name."""
    drawn: dict[str, Callable[[Mlc, Axes], Axes]] = {}
    if len(mlc.curves):
        drawn["curves"] = curves
    if len(mlc.noisy):
        drawn["noisy"] = noisy
    if not drawn:
        yield {}
        return
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    from cxlab._mlc.result import CREATOR

    files: dict[str, Callable[[Path], object]] = {}
    # Equal numbers give equal files: names within an SVG come from a fixed salt.
    with rc_context({"svg.hashsalt": "cxlab-mlc"}):
        for name, draw in drawn.items():
            figure = Figure(figsize=_INCHES, layout="constrained")
            draw(mlc, figure.subplots())
            files[f"{name}.svg"] = partial(_save, figure, "svg", {"Date": None, "Creator": CREATOR})
            files[f"{name}.png"] = partial(_save, figure, "png", {"Software": None})
        yield files


def _save(figure: Figure, kind: str, metadata: dict[str, str | None], path: Path) -> None:
    figure.savefig(path, format=kind, dpi=_DPI, metadata=metadata)


def curves(mlc: Mlc, axes: Axes) -> Axes:
    """The curve family: latency over bandwidth, with a line for each mix."""
    from matplotlib import colormaps

    from cxlab.plot import _plain

    percents = sorted(set(mlc.curves["read_percent"]))
    colours = colormaps["viridis"]
    for percent in percents:
        part = mlc.curves[mlc.curves["read_percent"] == percent]
        of_writes = any(part["latency_of"] == "load's writes")
        axes.plot(
            part["bandwidth_mb_per_s"] / 1e3,
            part["latency_ns"],
            "o-",
            markersize=3.5,
            linewidth=1.4,
            color=colours(0.9 * (100 - percent) / 100),
            label=f"{percent:.0f} %{' (writes)' if of_writes else ''}",
        )
    top = mlc.curves["latency_ns"].max()
    axes.set(
        xlabel="bandwidth at the memory, GB/s",
        ylabel="latency of a read, ns",
        title=f"{mlc.name}: loaded latency by mix{' (partial)' if mlc.partial else ''}",
        xlim=(0, None),
        ylim=(0, top * 1.08),
    )
    _plain(axes, "both")
    axes.legend(title="reads", frameon=False, fontsize=8, title_fontsize=8)
    return axes


def noisy(mlc: Mlc, axes: Axes) -> Axes:
    """Latency and bandwidth of the victim over the bandwidth of its neighbours."""
    from cxlab.plot import COLOURS, _plain

    x = mlc.noisy["neighbours_mb_per_s"] / 1e3
    [latency] = axes.plot(
        x, mlc.noisy["victim_latency_ns"], "o-", markersize=4, color=COLOURS[0], label="latency"
    )
    axes.set(
        xlabel="bandwidth of the neighbours, GB/s",
        ylabel="latency of the victim, ns",
        title=f"{mlc.name}: a victim beside neighbours{' (partial)' if mlc.partial else ''}",
        ylim=(0, mlc.noisy["victim_latency_ns"].max() * 1.15),
    )
    _plain(axes)
    right = axes.twinx()
    [rate] = right.plot(
        x,
        mlc.noisy["victim_bandwidth_mb_per_s"] / 1e3,
        "s--",
        markersize=4,
        color=COLOURS[1],
        label="bandwidth",
    )
    right.set_ylabel("bandwidth of the victim, GB/s")
    right.set_ylim(0, mlc.noisy["victim_bandwidth_mb_per_s"].max() / 1e3 * 1.15)
    right.spines["top"].set_visible(False)
    axes.legend(handles=[latency, rate], frameon=False, loc="lower left", fontsize=8)
    return axes
