"""Plots of results with matplotlib.

Every function draws into ``axes`` if they are given, or else into a
new figure, and returns the axes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from cxlab._result import Result
from cxlab._types import Report

if TYPE_CHECKING:
    import pandas
    from matplotlib.axes import Axes
    from matplotlib.colors import Colormap

    from cxlab._run import Plan

#: Okabe and Ito's colours, which colour-blind readers can distinguish.
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9", "#F0E442", "#999999")
_BLUE, _ORANGE, _GREY = COLOURS[0], COLOURS[1], "#495057"
_FILLS = {"host": "#cfe2ff", "device": "#d1e7dd", "switch": "#f1f3f5", "group": "#fbfcfd"}
#: Colours of the stages in the order in which a request passes them. Other stages follow.
_STAGES = {
    "process": "#999999",
    "cache": "#F0E442",
    "host_queue": "#D55E00",
    "credits": "#661100",
    "link": "#0072B2",
    "port": "#56B4E9",
    "switch": "#009E73",
    "switch_queue": "#117733",
    "device": "#CC79A7",
    "device_queue": "#AA4499",
    "coherence": "#882255",
    "media_queue": "#997700",
    "media": "#E69F00",
}
#: From idle over blue to saturated, as in `topology.svg`.
_BUSY = ((0.0, "#adb5bd"), (0.35, "#0d6efd"), (0.7, "#fd7e14"), (1.0, "#d61e30"))


def _axes(axes: Axes | None, size: tuple[float, float]) -> Axes:
    if axes is not None:
        return axes
    from matplotlib import pyplot

    _, made = pyplot.subplots(figsize=size, layout="constrained")
    return made


def _plain(axes: Axes, grid: str = "y") -> None:
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    axes.set_axisbelow(True)
    axes.grid(axis="both" if grid == "both" else "x" if grid == "x" else "y", color="#e3e6e9")


def _report(result: Result | Report) -> Report:
    return result.report if isinstance(result, Result) else result


def stage_colours(report: Report) -> dict[str, str]:
    """Stages that took time, in the order in which a request passes them, with their colours."""
    stages = report["stages_ns"]
    order = [*_STAGES, *(stage for stage in stages if stage not in _STAGES)]
    return {
        stage: _STAGES.get(stage, COLOURS[number % len(COLOURS)])
        for number, stage in enumerate(order)
        if stages.get(stage, 0.0) > 0
    }


def utilization_colours() -> Colormap:
    """Colours of utilization from 0 to 1."""
    from matplotlib.colors import LinearSegmentedColormap

    return LinearSegmentedColormap.from_list("cxlab-busy", list(_BUSY))


def topology(plan: Plan, result: Result | Report | None = None, axes: Axes | None = None) -> Axes:
    """The system. With a result, links are coloured and widened by utilization.

    Places and groups are those of the command's picture: a system with
    many nodes is drawn as groups, each line being the busiest link
    between two of them.
    """
    system = plan.describe()
    groups: list[dict[str, Any]] = system["groups"]
    boxes: list[dict[str, Any]] = groups or system["nodes"]
    width = (max(box["x"] for box in boxes) - min(box["x"] for box in boxes)) / 80 + 1.5
    height = (max(box["y"] for box in boxes) - min(box["y"] for box in boxes)) / 80 + 1.5
    axes = _axes(axes, (min(max(width, 5.0), 16.0), min(max(height, 3.0), 12.0)))
    ways = None if result is None else _report(result)["links"]
    lines = _lines(system, ways)
    _draw_lines(axes, lines, None if ways is None else utilization_colours())
    for box in boxes:
        axes.text(
            box["x"],
            box["y"],
            "\n".join([box["name"], *box["counts"]]) if groups else box["name"],
            ha="center",
            va="center",
            fontsize=8,
            zorder=2,
            bbox={
                "boxstyle": "square,pad=0.5" if box.get("kind") == "host" else "round,pad=0.5",
                "facecolor": _FILLS[box.get("kind", "group")],
                "edgecolor": "#343a40",
                "linewidth": 0.8,
            },
        )
    axes.set_title(str(system["scenario"]["name"]))
    axes.margins(0.08)
    axes.autoscale_view()
    axes.invert_yaxis()
    axes.set_axis_off()
    return axes


#: A line of a picture: points, and utilization.
_Line = tuple[list[tuple[float, float]], float]


def _lines(system: dict[str, Any], ways: Sequence[Any] | None) -> list[_Line]:
    """A line for each link, or for each pair of groups. The busiest come last."""
    lines: list[_Line] = []
    for wire in system["wires"]:
        load = 0.0
        if ways is not None:
            numbers = (2 * link + way for link in wire["links"] for way in (0, 1))
            load = max(ways[number]["utilization"] for number in numbers)
        points = [(x, y) for x, y in wire["points"]]
        lines.append((_curve(points) if wire["curve"] else points, load))
    return sorted(lines, key=lambda line: line[1])


def _curve(points: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """Points of a quadratic curve from the first to the last point, drawn towards the second."""
    (ax, ay), (bx, by), (cx, cy) = points
    parts = [step / 24 for step in range(25)]
    return [
        (
            (1 - part) ** 2 * ax + 2 * part * (1 - part) * bx + part**2 * cx,
            (1 - part) ** 2 * ay + 2 * part * (1 - part) * by + part**2 * cy,
        )
        for part in parts
    ]


def _draw_lines(axes: Axes, lines: list[_Line], colours: Colormap | None) -> None:
    from matplotlib.cm import ScalarMappable
    from matplotlib.collections import LineCollection
    from matplotlib.colors import Normalize

    ends = [points for points, _ in lines]
    if colours is None:
        axes.add_collection(LineCollection(ends, colors="#6c757d", linewidths=1.4, zorder=1))
        return
    collection = LineCollection(
        ends,
        colors=[colours(load) for _, load in lines],
        linewidths=[1.2 + 3.0 * load for _, load in lines],
        zorder=1,
    )
    axes.add_collection(collection)
    axes.figure.colorbar(
        ScalarMappable(Normalize(0, 100), colours),
        ax=axes,
        label="link busy, % (busier direction)",
        shrink=0.7,
    )


def latency_histogram(result: Result | Report, axes: Axes | None = None) -> Axes:
    """Histogram of request latency, with mean, median and 99th percentile."""
    report = _report(result)
    axes = _axes(axes, (6.4, 3.4))
    uppers = [upper for upper, _ in report["latency_histogram"]]
    counts = [count for _, count in report["latency_histogram"]]
    latency = report["latency_ns"]
    lowers = [latency["min"], *uppers[:-1]] if uppers else []
    spans = [max(upper - lower, 1e-9) for lower, upper in zip(lowers, uppers, strict=True)]
    total = max(sum(counts), 1)
    axes.bar(
        lowers,
        [count * 100 / total for count in counts],
        width=spans,
        align="edge",
        color=_BLUE,
        edgecolor="white",
        linewidth=0.4,
    )
    marks = (
        ("mean", "-", latency["mean"]),
        ("median", "--", latency["p50"]),
        ("99 %", ":", latency["p99"]),
    )
    for name, style, value in marks:
        if value > 0:
            axes.axvline(
                value, color=_GREY, linestyle=style, linewidth=1.2, label=f"{name} {value:,.1f} ns"
            )
    if uppers and lowers[0] > 0 and uppers[-1] / lowers[0] > 4:
        axes.set_xscale("log")
        from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter

        axes.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axes.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
        axes.xaxis.set_minor_formatter(NullFormatter())
    axes.set(xlabel="latency, ns", ylabel="requests, %", title="Latency")
    _plain(axes)
    axes.legend(frameon=False)
    return axes


def stages(
    results: Result | Report | Sequence[Result | Report],
    labels: Sequence[str] | None = None,
    axes: Axes | None = None,
) -> Axes:
    """Mean time of a request in each stage. Several results are bars below one another."""
    several = results if isinstance(results, Sequence) else [results]
    reports = [_report(result) for result in several]
    names = list(labels) if labels is not None else [report["scenario"] for report in reports]
    axes = _axes(axes, (6.8, 1.3 + 0.55 * len(reports)))
    left = [0.0] * len(reports)
    colours = {
        stage: colour for report in reports for stage, colour in stage_colours(report).items()
    }
    for stage, colour in colours.items():
        widths = [report["stages_ns"].get(stage, 0.0) for report in reports]
        axes.barh(
            range(len(reports)),
            widths,
            left=left,
            height=0.62,
            color=colour,
            edgecolor="white",
            linewidth=0.8,
            label=stage,
        )
        left = [start + width for start, width in zip(left, widths, strict=True)]
    for row, total in enumerate(left):
        axes.annotate(
            f"{total:,.1f} ns",
            (total, row),
            xytext=(5, 0),
            textcoords="offset points",
            va="center",
            fontsize=8,
        )
    axes.set_yticks(range(len(reports)), names)
    axes.invert_yaxis()
    axes.set(
        xlabel="mean latency, ns", title="Where the time goes", xlim=(0, max(left) * 1.15 or 1)
    )
    _plain(axes, "x")
    axes.legend(
        frameon=False,
        ncols=8,
        loc="upper center",
        bbox_to_anchor=(0.5, -0.42 / len(reports) - 0.22),
        handlelength=1.0,
        columnspacing=1.2,
    )
    return axes


def time_series(result: Result, axes: Axes | None = None) -> Axes:
    """Bandwidth over the time of the measurement, with reads below writes."""
    series = result.to_pandas("time_series")
    axes = _axes(axes, (6.8, 3.0))
    time = (series["start_ns"] / 1e3).tolist()
    width = result.report["time_series"]["bin_ns"] / 1e3
    edges = [*time, min(time[-1] + width, result.report["window_ns"] / 1e3)] if time else [0.0]
    reads = series["read_gb_per_s"].tolist()
    both = (series["read_gb_per_s"] + series["write_gb_per_s"]).tolist()
    if time:
        axes.stairs(reads, edges, fill=True, color=_BLUE, label="reads")
        if any(series["write_gb_per_s"] > 0):
            axes.stairs(both, edges, baseline=reads, fill=True, color=_ORANGE, label="writes")
        mean = result.report["bandwidth_gb_per_s"]["total"]
        axes.axhline(mean, color=_GREY, linewidth=1.1, label=f"mean {mean:.2f} GB/s")
        axes.set_xlim(edges[0], edges[-1])
    axes.set(
        xlabel="time since the measurement began, µs",
        ylabel="GB/s",
        title="Bandwidth over time",
        ylim=(0, max([*both, 1e-9]) * 1.15),
    )
    _plain(axes)
    axes.legend(frameon=False, ncols=3, loc="upper right")
    return axes


def sweep_lines(
    frame: pandas.DataFrame,
    x: str,
    y: str,
    by: str | None = None,
    axes: Axes | None = None,
) -> Axes:
    """Lines of a sweep's frame: ``y`` over ``x``, with one line for each value of ``by``."""
    axes = _axes(axes, (6.4, 3.8))
    groups = [("", frame)] if by is None else list(frame.groupby(by, sort=False))
    for number, (name, part) in enumerate(groups):
        ordered = part.sort_values(x)
        axes.plot(
            ordered[x],
            ordered[y],
            "o-",
            markersize=4,
            color=COLOURS[number % len(COLOURS)],
            label=str(name),
        )
    axes.set(xlabel=x, ylabel=y)
    _plain(axes, "both")
    if by is not None:
        axes.legend(title=by, frameon=False)
    return axes
