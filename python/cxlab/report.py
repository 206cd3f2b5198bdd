"""`cxlab report`: a self-contained HTML page of a run."""

from __future__ import annotations

import base64
import hashlib
import html
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cxlab import _files
from cxlab._html import main_numbers, remarks, tiles
from cxlab._result import Result
from cxlab._slowest import slowest
from cxlab._svg import sanitised, without_style
from cxlab._types import Report
from cxlab.page import packed, script, style


def write_page(folder: Path, out: Path, others: Sequence[Path] = ()) -> None:
    """Writes the page of the result in a folder, compared with the results in other folders."""
    results = [Result.load(path) for path in (folder, *others)]
    _files.write_text(out, page(*results, names=[str(path) for path in (folder, *others)]))


def page(result: Result, *others: Result, names: Sequence[str] = ()) -> str:
    """The page of a result, as HTML, compared with other results.

    The page has the numbers as JSON and a script that shows them. Its policy allows this script by
    its hash and no other, and forbids it to load anything. Comparisons call the results by
    ``names``, or else by their scenarios.
    """
    code = script("report-page.js")
    digest = base64.b64encode(hashlib.sha256(code.encode()).digest()).decode()
    policy = (
        f"default-src 'none'; script-src 'sha256-{digest}'; style-src 'unsafe-inline'; "
        "base-uri 'none'; form-action 'none'"
    )
    runs = [_run(result), *({"report": packed(other.report)} for other in others)]
    for run, one, name in zip(runs, (result, *others), names or [""] * len(runs), strict=True):
        run["name"] = name or one.report["scenario"]
    title = html.escape(result.report["scenario"])
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        f"<title>{title} - cxlab</title>\n<style>\n{style('page.css', 'report-page.css')}"
        "</style>\n</head>\n<body>\n<main>\n"
        f"<noscript>\n{_plain(result.report)}</noscript>\n</main>\n"
        f'<script type="application/json" id="runs">{_embedded(runs)}</script>\n'
        f'<script type="module">{code}</script>\n</body>\n</html>\n'
    )


def _plain(report: Report) -> str:
    """The main numbers, for readers without JavaScript."""
    return (
        f"<h1>{html.escape(report['scenario'])}</h1>\n{tiles(main_numbers(report))}\n"
        f"{remarks(report)}<p>With JavaScript, this page has pictures and tables. All numbers are "
        "in report.json.</p>\n"
    )


def _run(result: Result) -> dict[str, Any]:
    """What the page shows of a result: `Run` in page/report-page.js."""
    run: dict[str, Any] = {"report": packed(result.report)}
    svg = None if result.svg is None else sanitised(result.svg)
    if svg is not None:
        run["picture"] = without_style(svg)
    if result.has_requests:
        log = result.to_pandas("requests")
        columns = {str(name): log[name].to_numpy() for name in log}
        found, run["measured"] = slowest(columns, result.report)
        run["slowest"] = packed(found)
    return run


def _embedded(value: Any) -> str:
    """JSON that cannot end the element that it is in."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return text.replace("<", "\\u003c")
