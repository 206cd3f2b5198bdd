"""The ledger in the documents: tables between markers, generated from the claims.

A page has ``<!-- ledger: PAPER FIGURE... -->`` and ``<!-- /ledger -->``, and the text between
them is generated. After the figures, ``shown`` adds the claims that are not judged, and ``misses``
leaves those alone that are missed. ``why`` gives the explanations of misses, ``parameters`` the
fitted parameters with the rows that they were fitted by, and ``shares`` how many claims lie within
5, 10 and 20 %, instead of the table. ``summary`` stands for all papers together.
"""

from __future__ import annotations

import csv
import io
import itertools
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from cxlab import _files
from cxlab.reproduce import PAPERS, claim_rows, reference
from cxlab.reproduce.ledger import COLUMNS, Row, parameters, problems

Ledger = Mapping[str, Sequence[Row]]

_BLOCK = re.compile(r"^<!-- ledger: (.+?) -->\n.*?^<!-- /ledger -->$", re.DOTALL | re.MULTILINE)
#: Options that may follow the figures of a paper.
_OPTIONS = ("shown", "misses", "why", "parameters", "shares")
#: Widths of a table of shares, in percent.
_WIDTHS = (5, 10, 20)


class LedgerError(ValueError):
    """A mistake in the claims or in a marker."""


def collect(root: Path) -> dict[str, list[Row]]:
    """Every paper's claims, from the tables in ``figures``."""
    found = {
        paper: [row for figure in figures() for row in claim_rows(figure, root / "figures" / paper)]
        for paper, figures in PAPERS.items()
    }
    wrong = [f"{paper}: {text}" for paper, rows in found.items() for text in problems(rows)]
    if wrong:
        raise LedgerError("\n".join(wrong))
    return found


def to_csv(rows: Sequence[Mapping[str, str]], columns: Sequence[str] = COLUMNS) -> str:
    """Formats rows as CSV."""
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def files(root: Path) -> dict[Path, str]:
    """All generated files: claims, the ledger, pages with markers, pages of the reference."""
    ledger = collect(root)
    found = {
        root / "figures" / paper / "claims.csv": to_csv(rows) for paper, rows in ledger.items()
    }
    every = [{"paper name": paper, **row} for paper, rows in ledger.items() for row in rows]
    found[root / "figures" / "claims.csv"] = to_csv(every, ("paper name", *COLUMNS))
    for name, text in reference.pages().items():
        found[root / "docs" / "reference" / name] = text
    for page in sorted((root / "docs").rglob("*.md")):
        if page in found:
            continue
        text = page.read_text(encoding="utf-8")
        filled = fill(text, ledger)
        if _BLOCK.search(text):
            found[page] = filled
    return found


def write(root: Path) -> list[Path]:
    """Writes the files that are out of date, and returns their paths."""
    stale = {
        path: text
        for path, text in files(root).items()
        if not path.is_file() or path.read_text(encoding="utf-8") != text
    }
    for path, text in stale.items():
        _files.write_text(path, text)
    return list(stale)


def fill(text: str, ledger: Ledger) -> str:
    """Fills the markers of a page."""

    def block(found: re.Match[str]) -> str:
        said = found[1]
        return f"<!-- ledger: {said} -->\n{_table(said, ledger)}<!-- /ledger -->"

    return _BLOCK.sub(block, text)


def _table(said: str, ledger: Ledger) -> str:
    if said == "summary":
        return _summary(ledger)
    paper, *rest = said.split()
    if paper not in ledger:
        raise LedgerError(f"found paper {paper}; allowed: summary, {', '.join(ledger)}")
    figures = [word for word in rest if word not in _OPTIONS]
    known = dict.fromkeys(row["figure"] for row in ledger[paper])
    unknown = [name for name in figures if name not in known]
    if unknown:
        raise LedgerError(f"found {unknown[0]} of {paper}; allowed: {', '.join(known)}")
    rows = [row for row in ledger[paper] if not figures or row["figure"] in figures]
    if "why" in rest:
        return _why(rows)
    if "parameters" in rest:
        return _parameters(rows)
    if "shares" in rest:
        return _shares(rows)
    if "misses" in rest:
        rows = [row for row in rows if row["verdict"] == "MISS"]
    if "shown" not in rest:
        rows = [row for row in rows if row["verdict"] in ("pass", "MISS")]
    return _claims(rows, several=len(figures) != 1)


def _markdown(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "".join(f"| {' | '.join(cell.replace('|', '/') for cell in line)} |\n" for line in lines)


def _claims(rows: Sequence[Row], *, several: bool) -> str:
    cells: dict[str, Callable[[Row], str]] = {
        "claim": lambda row: row["claim"],
        "paper": lambda row: row["paper"],
        "cxlab": lambda row: row["cxlab"],
        "off": lambda row: row["off"],
        "tolerance": lambda row: row["tolerance"],
        "kind": lambda row: row["kind"],
        "": lambda row: "**missed**" if row["verdict"] == "MISS" else row["verdict"],
    }
    if several:
        cells = {"figure": lambda row: row["figure"], **cells}
    return _markdown(list(cells), [[cell(row) for cell in cells.values()] for row in rows])


def _named(rows: Sequence[Row]) -> str:
    """The claims of some rows, by figure."""
    figures: dict[str, list[str]] = {}
    for row in rows:
        figures.setdefault(row["figure"], []).append(row["claim"])
    return "; ".join(f"**{figure}**: {'; '.join(claims)}" for figure, claims in figures.items())


def _why(rows: Sequence[Row]) -> str:
    """Explanations of misses, each once, with the claims that they explain."""
    missed: dict[str, list[Row]] = {}
    for row in rows:
        if row["verdict"] == "MISS":
            missed.setdefault(row["why"], []).append(row)

    def item(why: str, rows: Sequence[Row]) -> str:
        kind, text = why.split(": ", 1)
        return reference.item(f"{_named(rows)}. *{kind.capitalize()}*: {text}")

    return "".join(item(why, rows) for why, rows in missed.items())


def _shares(rows: Sequence[Row]) -> str:
    """Numbers of judged claims, and their shares within some widths, by figure and kind."""
    judged = [row for row in rows if row["verdict"] in ("pass", "MISS") and row["off"]]

    def line(figure: str, kind: str, some: Sequence[Row]) -> list[str]:
        off = [float(row["off"].removesuffix(" %")) for row in some]
        shares = (sum(abs(one) <= width for one in off) for width in _WIDTHS)
        worst = max(off, key=abs)
        within = (f"{100 * share / len(off):.0f} %" for share in shares)
        return [figure, kind, str(len(off)), *within, f"{worst:+.0f} %"]

    lines = []
    for figure in dict.fromkeys(row["figure"] for row in judged):
        for kind in ("fitted", "predicted", "derived"):
            some = [row for row in judged if row["figure"] == figure and row["kind"] == kind]
            lines += [line(figure, kind, some)] if some else []
    for kind in ("fitted", "predicted"):
        some = [row for row in judged if row["kind"] == kind]
        lines += [line("all", kind, some)] if some else []
    # The curves of `mess` are of a vendor's model, not of hardware.
    hardware = [row for row in judged if row["kind"] == "predicted" and row["figure"] != "mess"]
    without_blade = [row for row in hardware if row["figure"] != "blade"]
    if any(row["figure"] == "mess" for row in judged):
        lines.append(line("all but mess", "predicted", hardware))
        lines.append(line("all but mess and blade", "predicted", without_blade))
    lines.append(line("all", "", judged))
    header = ("figure", "kind", "rows", *(f"within {width} %" for width in _WIDTHS), "farthest")
    return _markdown(header, lines)


def _parameters(rows: Sequence[Row]) -> str:
    """Fitted parameters, with the claims that they were fitted by."""
    fitted = [row for row in rows if row["kind"] == "fitted"]
    return "".join(
        reference.item(
            f"`{name}` by {_named([row for row in fitted if name in row['of'].split('; ')])}"
        )
        for name in parameters(rows)
    )


def _summary(ledger: Ledger) -> str:
    """Numbers of free parameters and of matched values."""
    header = (
        "paper",
        "free parameters",
        "fitted: pass / missed",
        "predicted: pass / missed",
        "derived: pass / missed",
        "shown",
        "not run",
    )

    def count(rows: Sequence[Row], kind: str) -> str:
        verdicts = [row["verdict"] for row in rows if row["kind"] == kind]
        return f"{verdicts.count('pass')} / {verdicts.count('MISS')}"

    def plain(rows: Sequence[Row], kind: str) -> str:
        return str(sum(row["kind"] == kind for row in rows))

    return _markdown(
        header,
        [
            [
                paper,
                str(len(parameters(rows))),
                *(count(rows, kind) for kind in ("fitted", "predicted", "derived")),
                *(plain(rows, kind) for kind in ("shown", "not run")),
            ]
            for paper, rows in ledger.items()
        ],
    )


def strangers(page: str) -> list[str]:
    """Headers of tables with a column "paper" that no marker generates."""
    lines = _BLOCK.sub("", page).splitlines()
    return [
        header
        for header, rule in itertools.pairwise(lines)
        if re.match(r"\|\s*:?-", rule)
        and any(re.match(r"paper\b", cell.strip()) for cell in header.split("|"))
    ]
