"""HTML of results and plans, for notebooks and for readers of a report without JavaScript."""

from __future__ import annotations

import html
from typing import TYPE_CHECKING, Any

from cxlab._svg import sanitised
from cxlab._types import notes_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cxlab._types import Report

#: Styles of tiles and pictures. Notebooks show them in the colours of the page that they are on.
_LIST = "display:flex;flex-wrap:wrap;gap:4px 28px;margin:6px 0"
_NAME = "opacity:.75;font-size:85%"
_PICTURE = "display:block;max-width:100%;height:auto"
_VALUE = "margin:0;font-variant-numeric:tabular-nums;font-size:115%"


def tiles(pairs: Sequence[tuple[str, str]]) -> str:
    """Names and values beside one another."""
    inner = "".join(
        f'<div><dt style="{_NAME}">{html.escape(name)}</dt>'
        f'<dd style="{_VALUE}">{html.escape(value)}</dd></div>'
        for name, value in pairs
    )
    return f'<dl style="{_LIST}">{inner}</dl>'


def main_numbers(report: Report) -> list[tuple[str, str]]:
    """Names and values of the main numbers of a report, with 95 % intervals where it has them."""
    bandwidth, latency, ci95 = report["bandwidth_gb_per_s"], report["latency_ns"], report["ci95"]
    return [
        ("bandwidth, GB/s", f"{bandwidth['total']:,.2f}{half(ci95['total_gb_per_s'], 2)}"),
        ("mean latency, ns", f"{latency['mean']:,.1f}{half(ci95['latency_ns'], 1)}"),
        ("median latency, ns", f"{latency['p50']:,.1f}"),
        ("99 % are not longer, ns", f"{latency['p99']:,.1f}"),
        ("requests completed", f"{report['requests']['completed']:,}"),
    ]


def half(width: float | None, digits: int) -> str:
    """Half-width of a confidence interval after its value. Empty if there is no interval."""
    return "" if width is None else f" ± {width:,.{digits}f}"


def remarks(report: Report) -> str:
    """Paragraphs: that a run is partial, its bottleneck, and its notes."""
    texts = [str(note) for note in notes_of(report)]
    if "bottleneck" in report:
        texts.insert(0, f"Bottleneck: {report['bottleneck']['text']}")
    if report["partial"]:
        texts.insert(0, "Partial: the run was ended before its window was over")
    return "".join(f"<p>{html.escape(text)}.</p>\n" for text in texts)


def result_html(report: Report, svg: str | None, table: str) -> str:
    """What a notebook shows of a result: main numbers, remarks, picture and table."""
    return (
        f"<div><strong>{html.escape(report['scenario'])}</strong>, seed {report['seed']}"
        f"{tiles(main_numbers(report))}{remarks(report)}{picture(svg)}"
        f"<details><summary>Table</summary><pre>{html.escape(table)}</pre></details></div>"
    )


def plan_html(system: dict[str, Any], svg: str, notes: Sequence[str]) -> str:
    """What a notebook shows of a plan: how large the system is, its notes, and its picture."""
    pairs = [(name, f"{len(system[name]):,}") for name in ("hosts", "devices", "links")]
    pairs.append(("plan", str(system["hash"])[:12]))
    texts = "".join(f"<p>{html.escape(note)}.</p>\n" for note in notes)
    name = html.escape(str(system["scenario"]["name"]))
    return f"<div><strong>{name}</strong>{tiles(pairs)}{texts}{picture(svg)}</div>"


def picture(svg: str | None) -> str:
    """A picture that a page may contain, or nothing."""
    kept = None if svg is None else sanitised(svg)
    return "" if kept is None else kept.replace("<svg ", f'<svg style="{_PICTURE}" ', 1)
