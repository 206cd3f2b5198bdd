"""`cxlab report`: a self-contained HTML page of a run."""

from __future__ import annotations

import html
import io
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cxlab import _files, plot
from cxlab._result import Result
from cxlab._svg import sanitised, without_style
from cxlab._types import Report

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_STYLE = """
:root { color-scheme: light; --ink: #212529; --soft: #6c757d; --line: #dee2e6; --card: #ffffff; }
* { box-sizing: border-box; }
body { margin: 0; background: #f4f6f8; color: var(--ink);
  font: 15px/1.5 system-ui, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif; }
main { max-width: 1180px; margin: 0 auto; padding: 28px 24px 48px; }
header h1 { margin: 0; font-size: 28px; letter-spacing: -0.01em; }
header p { margin: 4px 0 20px; color: var(--soft); }
.partial { background: #fff3cd; border: 1px solid #ffda6a; border-radius: 8px; padding: 10px 14px; }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(140px, 1fr)); gap: 12px; }
.tile, section { background: var(--card); border: 1px solid var(--line); border-radius: 10px; }
.tile { padding: 12px 14px; }
.tile b { display: block; font-size: 19px; white-space: nowrap; line-height: 1.4;
  font-variant-numeric: tabular-nums; }
.tile span { color: var(--soft); font-size: 13px; }
section { margin-top: 16px; padding: 16px 20px; overflow-x: auto; }
section h2 { margin: 0 0 8px; font-size: 17px; }
section > p { margin: 0 0 8px; color: var(--soft); }
.two { display: grid; grid-template-columns: 1fr 1fr; gap: 16px; }
@media (max-width: 900px) { .two { grid-template-columns: 1fr; } }
svg { max-width: 100%; height: auto; display: block; margin: 0 auto; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { text-align: right; padding: 4px 10px; border-bottom: 1px solid var(--line);
  white-space: nowrap; }
th:first-child, td:first-child { text-align: left; }
th { color: var(--soft); font-weight: 600; font-size: 13px; }
tr:last-child td { border-bottom: none; }
td.bar { padding: 4px 10px; width: 140px; }
td.bar div { height: 10px; border-radius: 5px; background: #e9ecef; overflow: hidden; }
td.bar i { display: block; height: 100%; }
details summary { cursor: pointer; color: var(--soft); margin-top: 8px; }
details:target > summary { color: var(--ink); font-weight: 600; }
svg a rect { cursor: pointer; }
svg a:hover rect, svg a:focus rect { stroke-width: 2.5; }
footer { margin-top: 20px; color: var(--soft); font-size: 13px; }
code { font-size: 0.92em; }
"""

#: Rows that a table shows at first. The others unfold.
_SHOWN = 12


class Html(str):
    """Text that is inserted into a table as HTML. All other text is escaped."""

    __slots__ = ()


Rows = Sequence[Sequence[str]]


def write_page(folder: Path, out: Path) -> None:
    """Writes the page of the result in a folder."""
    result = Result.load(folder)
    _files.write_text(out, page(result))


def page(result: Result) -> str:
    """The page of a result, as HTML."""
    report = result.report
    parts = [
        _header(report),
        _tiles(report),
        _topology(result),
        '<div class="two">',
        _section(
            "Latency of requests",
            _drawn(lambda axes: plot.latency_histogram(result, axes), (6.2, 3.6)),
            "Percentiles are upper bounds (0.1 %, or 0.128 ns); all else is exact.",
        ),
        _over_time(result),
        "</div>",
        _section("Where a request's time goes", _stages(report), _bottleneck(report)),
        _section(
            "Where requests wait, the longest first",
            _waits(report),
            "Means are over all that pass, whether they wait or not. The 99th percentile is an "
            "upper bound (12.5 %).",
        ),
        _programs(report),
        _section("Latency by host", _hosts(report)),
        _section("Devices", _devices(report)),
        _media(report),
        _section("Links, the busiest first", _links(report)),
        _hops(report),
        _requests(result),
        _footer(report),
    ]
    title = html.escape(report["scenario"])
    return (
        f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{title} - cxlab</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n<main>\n"
        + "\n".join(parts)
        + "\n</main>\n</body>\n</html>\n"
    )


def _header(report: Report) -> str:
    warning = (
        '<p class="partial">This run was interrupted: the numbers are of what it had measured.</p>'
        if report["partial"]
        else ""
    )
    notes = (note["message"] for note in report.get("notes", []))
    warning += "".join(f'<p class="partial">{html.escape(note)}.</p>' for note in notes)
    return (
        f"<header><h1>{html.escape(report['scenario'])}</h1><p>{len(report['hosts'])} hosts, "
        f"{len(report['devices'])} devices; measured for {report['window_ns'] / 1e3:,.2f} µs after "
        f"{report['warmup_ns'] / 1e3:,.2f} µs of warm-up; seed {report['seed']}</p>"
        f"{warning}</header>"
    )


def _over_time(result: Result) -> str:
    """Bandwidth over time. Empty for a sampled run, whose windows are far apart."""
    if "sampling" in result.report:
        return ""
    drawn = _drawn(lambda axes: plot.time_series(result, axes), (6.2, 3.6))
    return _section("Bandwidth over time", drawn)


def _tiles(report: Report) -> str:
    bandwidth, latency = report["bandwidth_gb_per_s"], report["latency_ns"]
    ci95 = report["ci95"]
    busiest = max((link["utilization"] for link in report["links"]), default=0.0)
    tiles = [
        (
            f"{bandwidth['total']:,.2f}{_half(ci95['total_gb_per_s'], 2)} GB/s",
            f"bandwidth (read {bandwidth['read']:,.2f}, write {bandwidth['write']:,.2f})",
        ),
        (f"{latency['mean']:,.1f}{_half(ci95['latency_ns'], 1)} ns", "mean latency"),
        (f"{latency['p50']:,.1f} ns", "median latency"),
        (f"{latency['p99']:,.1f} ns", "99 % are not longer"),
        (f"{report['requests']['completed']:,}", "requests completed"),
        (
            f"{report['littles_law']['in_flight']:,.1f}{_half(ci95['in_flight'], 1)}",
            "requests in flight, mean",
        ),
        (f"{busiest * 100:.1f} %", "busiest link"),
    ]
    inner = "".join(
        f'<div class="tile"><b>{value}</b><span>{name}</span></div>' for value, name in tiles
    )
    parts = "sampling units" if "sampling" in report else "batches"
    about = f"± is half of a 95 % confidence interval, from {ci95['batches']} {parts}"
    if "reason" in ci95:
        about = f"values without an interval: {html.escape(ci95['reason'])}"
    return f'<div class="tiles">{inner}</div><p>{about}; percentiles have none.</p>'


def _half(width: float | None, digits: int) -> str:
    """Half-width of a confidence interval after its value. Empty if there is no interval."""
    return "" if width is None else f" ± {width:,.{digits}f}"


def _section(title: str, body: str, note: str = "") -> str:
    note = f"<p>{note}</p>" if note else ""
    return f"<section><h2>{title}</h2>{note}{body}</section>" if body else ""


#: A group in a picture of groups: its box, whose description has the names of its members.
_GROUP = re.compile(r"<g [^>]*><rect [^>]*><title>([^<]*)</title></rect><desc>([^<]*)</desc></g>")
#: Busiest links of a group that the page lists.
_IN_GROUP = 12


def _topology(result: Result) -> str:
    """The picture. Groups of nodes are links to lists of their busiest links below it."""
    title = "Topology and link utilization"
    svg = None if result.svg is None else sanitised(result.svg)
    if svg is None:
        return _section(title, "<p>The folder has no topology.svg.</p>")
    # The page is light, and its heading shows the name.
    svg = without_style(svg[svg.index("<svg") :])
    svg = re.sub(r'<text x="16" y="24"[^>]*>.*?</text>\n?', "", svg, count=1)
    groups = [(found[1], found[2]) for found in _GROUP.finditer(svg)]
    if not groups:
        note = "Links are coloured and widened by their busier direction; point at one for both."
        return _section(title, svg, note)
    numbers = iter(range(len(groups)))
    svg = _GROUP.sub(lambda found: f'<a href="#group-{next(numbers)}">{found[0]}</a>', svg)
    lists = "".join(
        f'<details id="group-{number}"><summary>{name}</summary>{_links_of(result.report, members)}'
        "</details>"
        for number, (name, members) in enumerate(groups)
    )
    note = "Groups of nodes; click on one for its busiest links. Lines have the colour of the "
    return _section(title, svg + lists, note + "busiest link between two groups.")


def _links_of(report: Report, members: str) -> str:
    """The busiest links with an end in a group, as a table."""
    names = set(html.unescape(members).split("\n"))
    ends = ((link, link["direction"].split("->")) for link in report["links"])
    found = [link for link, ends in ends if not names.isdisjoint(ends)]
    found.sort(key=lambda link: -link["utilization"])
    rows = [
        [
            link["direction"],
            f"{link['utilization'] * 100:.1f} %",
            f"{link['payload_bytes'] / max(report['window_ns'], 1e-3):,.2f}",
        ]
        for link in found[:_IN_GROUP]
    ]
    head = [f"direction, {len(rows)} of {len(found):,}", "busy", "payload, GB/s"]
    return _table(head, rows)


def _drawn(draw: Callable[[Axes], object], size: tuple[float, float]) -> str:
    """A matplotlib drawing as SVG with text as text. Opens no window."""
    import matplotlib
    from matplotlib.figure import Figure

    style: dict[Any, Any] = {
        "svg.fonttype": "none",
        "svg.hashsalt": "cxlab",
        "font.family": "sans-serif",
        "font.size": 9.5,
    }
    with matplotlib.rc_context(style):
        figure = Figure(figsize=size, layout="constrained")
        axes = figure.add_subplot()
        draw(axes)
        axes.set_title("")
        buffer = io.StringIO()
        figure.savefig(
            buffer, format="svg", transparent=True, metadata={"Date": None, "Creator": None}
        )
    svg = buffer.getvalue()
    svg = svg[svg.index("<svg") :]
    return re.sub(r"<metadata>.*?</metadata>\s*", "", svg, flags=re.DOTALL)


def _table(head: Sequence[str], rows: Rows) -> str:
    if not rows:
        return ""

    def lines(some: Rows) -> str:
        return "".join(
            "<tr>"
            + "".join(
                cell if isinstance(cell, Html) else f"<td>{html.escape(cell)}</td>" for cell in row
            )
            + "</tr>"
            for row in some
        )

    top = "<tr>" + "".join(f"<th>{html.escape(name)}</th>" for name in head) + "</tr>"
    table = f"<table>{top}{lines(rows[:_SHOWN])}</table>"
    if len(rows) > _SHOWN:
        table += (
            f"<details><summary>{len(rows) - _SHOWN} more</summary>"
            f"<table>{top}{lines(rows[_SHOWN:])}</table></details>"
        )
    return table


def _bar(share: float, colour: str) -> str:
    width = min(max(share, 0.0), 1.0) * 100
    return Html(
        f'<td class="bar"><div><i style="width:{width:.1f}%;background:{colour}"></i></div></td>'
    )


def _stages(report: Report) -> str:
    total = sum(report["stages_ns"].values())
    widths = report["ci95"]["stages_ns"]
    if total <= 0:
        return "<p>No request completed.</p>"
    means = {stage: report["stages_ns"][stage] for stage in plot.stage_colours(report)}
    colours = plot.stage_colours(report)
    rows = [
        [
            stage,
            f"{mean:,.2f}{_half(widths.get(stage), 2)}",
            f"{mean / total * 100:.1f} %",
            _bar(mean / total, colours[stage]),
        ]
        for stage, mean in means.items()
    ]
    rows.append(["sum", f"{total:,.2f}", "100 %", Html("<td></td>")])
    bar = "".join(
        f'<i title="{html.escape(stage)}: {mean:,.1f} ns" style="display:inline-block;height:26px;'
        f'width:{mean / total * 100:.3f}%;background:{colours[stage]}"></i>'
        for stage, mean in means.items()
    )
    strip = (
        f'<div style="border-radius:6px;overflow:hidden;font-size:0;margin:4px 0 10px">{bar}</div>'
    )
    return strip + _table(["stage", "mean, ns", "share", ""], rows)


def _bottleneck(report: Report) -> str:
    found = report.get("bottleneck")
    return f"Bottleneck: {html.escape(found['text'])}." if found else ""


def _waits(report: Report) -> str:
    """Outputs of hosts, switches and devices, and devices, sorted by the sum of their waits."""
    places = [
        (link["direction"], link["messages"], link["wait_ns"], link["credit_wait_ns"], "credits")
        for link in report["links"]
    ]
    for device in report["devices"]:
        taken = device["reads"] + device["writes"]
        taken += sum(device.get("denied", {}).values())  # type: ignore[arg-type]
        medium = device["medium_wait_ns"]
        places.append((device["name"], taken, device["wait_ns"], medium, "the medium"))
    places.sort(key=lambda place: -place[1] * place[2]["mean"])
    rows = [
        [
            name,
            f"{passed:,}",
            *(f"{wait[key]:,.1f}" for key in ("mean", "p99", "max")),
            f"{part:,.1f} for {what}",
        ]
        for name, passed, wait, part, what in places
        if wait["max"] > 0
    ]
    if not rows:
        return "<p>No request waited at an output or a device.</p>"
    head = ["place", "messages", "mean wait, ns", "p99", "max", "of the mean"]
    return _table(head, rows)


def _hosts(report: Report) -> str:
    rows = [
        [
            host["name"],
            f"{host['completed']:,}",
            f"{host['bandwidth_gb_per_s']['total']:,.3f}{_half(host['ci95']['total_gb_per_s'], 3)}",
            f"{host['latency_ns']['mean']:,.1f}{_half(host['ci95']['latency_ns'], 1)}",
            *(f"{host['latency_ns'][name]:,.1f}" for name in ("p50", "p90", "p99", "max")),
        ]
        for host in report["hosts"]
    ]
    head = ["host", "requests", "GB/s", "mean, ns", "p50", "p90", "p99", "max"]
    return _table(head, rows)


def _programs(report: Report) -> str:
    """Statistics of the programs of hosts with a core, by phase."""
    rows = [
        [
            host["name"],
            phase["name"],
            f"{phase['operations']:,}",
            f"{phase['time_ns'] / 1e3:,.3f}",
            f"{phase['operations_per_second']:,.0f}",
            f"{phase['bandwidth_gb_per_s']:,.3f}",
            f"{phase['load_latency_ns']:,.1f}",
        ]
        for host in report["hosts"]
        if "core" in host
        for phase in host["core"]["phases"]
        if phase["steps"]
    ]
    if not rows:
        return ""
    head = ["host", "phase", "operations", "time, us", "operations/s", "GB/s", "mean load, ns"]
    return _section("Programs", _table(head, rows))


def _media(report: Report) -> str:
    """Statistics of media."""
    kept = [
        *(
            (f"{host['name']}, its own memory", host["core"].get("memory", {}))
            for host in report["hosts"]
            if "core" in host
        ),
        *((device["name"], device.get("medium", {})) for device in report["devices"]),
    ]
    rows = [
        [owner, name.replace("_", " "), f"{value:,.6g}"]
        for owner, values in kept
        for name, value in values.items()
    ]
    if not rows:
        return ""
    return _section("Media", _table(["memory of", "statistic", "value"], rows))


def _devices(report: Report) -> str:
    rows = [
        [
            device["name"],
            f"{device['reads']:,}",
            f"{device['writes']:,}",
            f"{device['bandwidth_gb_per_s']['total']:,.3f}"
            + _half(device["ci95"]["total_gb_per_s"], 3),
        ]
        for device in report["devices"]
    ]
    return _table(["device", "reads", "writes", "GB/s"], rows)


def _percent(width: float | None) -> str:
    """Half-width of a confidence interval of a share, in percent."""
    return _half(None if width is None else width * 100, 1)


def _links(report: Report) -> str:
    from matplotlib.colors import to_hex

    colours = plot.utilization_colours()
    ordered = sorted(report["links"], key=lambda link: -link["utilization"])
    rows = [
        [
            link["direction"],
            f"{link['utilization'] * 100:.1f}{_percent(link['ci95']['utilization'])} %",
            _bar(link["utilization"], to_hex(colours(link["utilization"]))),
            f"{link['payload_bytes'] / max(report['window_ns'], 1e-3):,.2f}"
            f"{_half(link['ci95']['payload_gb_per_s'], 2)}",
            f"{link['rate_gb_per_s']:,.2f}",
            f"{link['efficiency'] * 100:.1f}{_percent(link['ci95']['efficiency'])} %",
            f"{link['retries']:,}",
        ]
        for link in ordered
    ]
    head = ["direction", "busy", "", "payload, GB/s", "rate, GB/s", "payload in bytes", "retries"]
    return _table(head, rows)


def _hops(report: Report) -> str:
    rows = [
        [
            str(hops["hops"]),
            f"{hops['count']:,}",
            f"{hops['mean_ns']:,.1f}{_half(hops['ci95']['mean_ns'], 1)}",
            f"{hops['queue_ns']:,.1f}{_half(hops['ci95']['queue_ns'], 1)}",
        ]
        for hops in report["by_hops"]
    ]
    if len(rows) < 2:
        return ""
    table = _table(["links crossed", "requests", "mean, ns", "in queues, ns"], rows)
    return _section("Latency by links crossed", table)


def _requests(result: Result) -> str:
    """The slowest requests of the measurement, if the log was kept."""
    if not result.has_requests:
        return ""
    report = result.report
    log = result.to_pandas("requests")
    log = log[log["completed_ps"] > report["warmup_ns"] * 1e3]
    log = log.assign(latency_ps=log["completed_ps"] - log["issued_ps"])
    slowest = log.nlargest(10, "latency_ps")
    stages = [name for name in report["stages_ns"] if log[f"{name}_ps"].any()]
    rows = [
        [
            report["hosts"][int(row["host"])]["name"],
            report["devices"][int(row["device"])]["name"] if row["device"] >= 0 else "cache",
            "write" if row["write"] else "read",
            f"{int(row['hpa']):#x}",
            f"{row['issued_ps'] / 1e6:,.3f}",
            f"{row['latency_ps'] / 1e3:,.1f}",
            *(f"{row[f'{stage}_ps'] / 1e3:,.1f}" for stage in stages),
        ]
        for _, row in slowest.iterrows()
    ]
    head = [
        "host",
        "device",
        "kind",
        "address",
        "issued, µs",
        "latency, ns",
        *(f"{stage}, ns" for stage in stages),
    ]
    return _section("The slowest requests", _table(head, rows), f"Of {len(log):,} measured.")


def _footer(report: Report) -> str:
    return (
        f"<footer>cxlab {html.escape(report['version'])}; plan "
        f"<code>{html.escape(report['plan_hash'])}</code>; "
        f"digest <code>{html.escape(report['digest'])}</code>; {report['events']:,} events in "
        f"{report['wall_seconds']:.2f} s</footer>"
    )
