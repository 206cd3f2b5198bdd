"""The pages of papers: the claims of figures/PAPER/claims.csv beside their figures."""

from __future__ import annotations

import csv
import re
import tomllib
from pathlib import Path
from typing import Any

from markup import cell

ROOT = Path(__file__).resolve().parent.parent.parent


def papers() -> list[dict[str, Any]]:
    """The published systems, in the order of site/papers.toml."""
    with (ROOT / "site" / "papers.toml").open("rb") as file:
        found: list[dict[str, Any]] = tomllib.load(file)["papers"]
    return found


def claims(name: str) -> list[dict[str, str]]:
    """A paper's rows of the ledger; none where nothing of it is reproduced."""
    path = ROOT / "figures" / name / "claims.csv"
    if not path.is_file():
        return []
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def verdicts(rows: list[dict[str, str]]) -> str:
    """How many claims agree, in one sentence a kind."""
    judged = [row for row in rows if row["verdict"] != "shown"]
    parts = []
    for kind in ("predicted", "derived", "fitted"):
        of_kind = [row for row in judged if row["kind"] == kind]
        agree = sum(row["verdict"] == "pass" for row in of_kind)
        if of_kind:
            parts.append(f"{agree} of {len(of_kind)} {kind}")
    shown = len(rows) - len(judged)
    tail = f" {shown} more are shown without a verdict." if shown else ""
    return f"Claims within their tolerance: {', '.join(parts)}.{tail}"


def paper_page(paper: dict[str, Any]) -> str:
    """A page of a paper: what cxlab takes from it, its figures, and every claim."""
    name, rows = paper["name"], claims(paper["name"])
    lines = [f"# {paper['title']}", "", paper["citation"], "", paper["what"], ""]
    if rows:
        lines += [verdicts(rows), "", "```sh", f"cxlab reproduce {name}", "```", ""]
    for figure in dict.fromkeys(row["figure"] for row in rows):
        lines += [f"## {re.sub('^fig', 'Fig. ', figure).capitalize()}", ""]
        picture = f"figures/{name}/{figure}.png"
        if (ROOT / picture).is_file():
            lines += [f"![{figure}: cxlab beside the paper](../{picture})", ""]
        lines += ["| claim | paper | cxlab | off | kind | verdict |", "|---|---|---|---|---|---|"]
        for row in rows:
            if row["figure"] != figure:
                continue
            verdict = row["verdict"] + (f": {row['why']}" if row["why"] else "")
            columns = (row[key] for key in ("claim", "paper", "cxlab", "off", "kind"))
            lines.append("| " + " | ".join([*map(cell, columns), cell(verdict)]) + " |")
        lines.append("")
    lines += ["## Further", "", *(f"- {text}" for text in paper["further"]), ""]
    return "\n".join(lines)


def paper_index() -> str:
    """The page that lists the papers."""
    lines = [
        "# Published systems",
        "",
        "cxlab does what each of these systems does, and is compared with what their papers print.",
        "",
        "| system | compared |",
        "|---|---|",
    ]
    for paper in papers():
        rows = claims(paper["name"])
        compared = verdicts(rows) if rows else paper["not_compared"]
        lines.append(f"| [{paper['title']}]({paper['name']}.md) | {compared} |")
    return "\n".join([*lines, ""])
