"""Every claim can fail, and the documents agree with the ledger."""

import csv
import math
import subprocess
import sys
from dataclasses import replace

import pandas as pd
import pytest

from cxlab.reproduce import PAPERS, docs
from cxlab.reproduce.ledger import (
    COLUMNS,
    EXPLAINED,
    PREDICTED,
    Claim,
    Tolerance,
    derived,
    fitted,
    hypothesis,
    not_run,
    parameters,
    printed,
    problems,
    shown,
    words,
)

TENTH = Tolerance(0.1, "a test", relative=True)


def claim(paper, ours, tolerance=TENTH, kind=PREDICTED, **others):
    return Claim("a", paper, ours, kind, tolerance, section="1", quote="words", **others)


def test_verdicts():
    assert claim(2.0, 2.1).verdict == "pass"
    assert claim(2.0, 2.3).verdict == "MISS"
    assert claim(2.0, 1.8).verdict == "pass"
    assert claim(2.0, 1.79).verdict == "MISS"
    assert claim(2.0, 2.3, None, shown("no number")).verdict == "shown"
    assert claim("more", 2.3, None, shown("no number")).off is None
    assert claim(2.0, None, None, not_run("no trace")).verdict == "not run"
    assert claim(2.0, 1.8).off == pytest.approx(-0.1)


def test_verdicts_of_ranges():
    said = words("a range")
    assert claim((7.0, 10.0), 8.0, said).verdict == "pass"
    assert claim((7.0, 10.0), 10.1, said).verdict == "MISS"
    assert claim((7.0, 10.0), 10.9).verdict == "pass"
    assert claim((7.0, 10.0), 6.4, printed(1)).verdict == "MISS"
    assert claim((7.0, 10.0), 6.5, printed(1)).verdict == "pass"
    assert claim((1.0, math.inf), 0.5, said).verdict == "MISS"
    assert claim((1.0, math.inf), 50.0, said).verdict == "pass"
    assert claim((-math.inf, 8.0), 8.4, printed(1)).verdict == "pass"
    assert claim((-math.inf, 8.0), 8.6, printed(1)).verdict == "MISS"
    assert claim((1.0, math.inf), 50.0, said).paper_text == "1 or more"
    assert claim((-math.inf, 8.0), 50.0, said).paper_text == "8 or less"
    assert claim((0.2, 0.5), 0.3, said).paper_text == "0.2 to 0.5"


@pytest.mark.parametrize(
    "made",
    [
        lambda: Claim("a", 1.0, 1.0, PREDICTED, None, "1", "words"),
        lambda: Claim("a", 1.0, 1.0, shown("bars only"), TENTH, "1", "words"),
        lambda: Claim("a", 1.0, 1.0, PREDICTED, TENTH, "1", ""),
        lambda: Claim("a", 1.0, 1.0, PREDICTED, TENTH, "", "words"),
        lambda: Claim("a", 1.0, 1.0, PREDICTED, Tolerance(0.1, ""), "1", "words"),
        lambda: Claim("a", "more", 1.0, PREDICTED, TENTH, "1", "words"),
        lambda: Claim("a", 1.0, 1.0, fitted(), TENTH, "1", "words"),
        lambda: Claim("a", 1.0, 1.0, derived(), TENTH, "1", "words"),
        lambda: Claim("a", 1.0, 1.0, shown("")),
        lambda: Claim("a", 1.0, None, PREDICTED, TENTH, "1", "words"),
        lambda: Claim("a", 1.0, 1.0, not_run("no trace")),
        lambda: claim(1.0, 2.0, why="because"),
    ],
)
def test_a_claim_that_cannot_be_judged_is_refused(made):
    with pytest.raises(AssertionError):
        made()


def test_rows_that_are_no_ledger_are_found():
    good = claim(1.0, 1.0)
    lost = replace(good, text="b", kind=derived("fig1: c"))
    missed = replace(good, text="d", ours=2.0)
    rows = [each.row("fig1") for each in (good, good, lost, missed)]
    assert problems(rows) == [
        "fig1: a: twice",
        "fig1: b: restates fig1: c, which is no row",
        "fig1: d: missed without an explanation",
    ]
    assert problems([good.row("fig1"), replace(lost, kind=derived("fig1: a")).row("fig1")]) == []
    explained = replace(missed, why=hypothesis("another cache"))
    assert problems([explained.row("fig1")]) == []


def test_parameters_are_counted_once():
    rows = [
        replace(claim(1.0, 1.0), text=text, kind=kind).row("fig1")
        for text, kind in (("a", fitted("x", "y")), ("b", fitted("y")), ("c", PREDICTED))
    ]
    assert parameters(rows) == ["x", "y"]


@pytest.fixture(scope="module")
def claims(request):
    """Every claim of every paper, from the shipped tables."""
    root = request.path.parents[2]
    return [
        (paper, figure.name, each)
        for paper, figures in PAPERS.items()
        for figure in figures()
        for each in figure.claims(
            pd.read_csv(root / "figures" / paper / f"{figure.name}.csv", keep_default_na=False)
        )
    ]


def judged(claims):
    return [each for _, _, each in claims if each.tolerance is not None]


def test_every_judged_claim_can_fail(claims):
    """One value passes, and values on either side do not."""
    assert len(judged(claims)) > 150
    for each in judged(claims):
        low, high = each.bounds
        assert low > -math.inf or high < math.inf, each.text
        for end, side in ((low, -1), (high, 1)):
            if math.isfinite(end):
                beyond = end + side * max(1e-6, 1e-6 * abs(end))
                assert replace(each, ours=end).verdict == "pass", each.text
                assert replace(each, ours=beyond).verdict == "MISS", each.text


def test_a_tolerance_tells_an_effect_from_none(claims):
    """A claimed ratio other than one is missed by a value of one."""
    for each in judged(claims):
        if " over " in each.text and "%" not in each.text and isinstance(each.paper, float):
            low, high = each.bounds
            assert each.paper == 1.0 or not low <= 1.0 <= high, each.text


def test_no_claim_passes_from_afar(claims):
    """If only one end is a bound, our value is not many times beyond it."""
    for each in judged(claims):
        low, high = each.ends
        if each.verdict == "pass" and math.isinf(high) and low > 0:
            assert each.ours < 10 * low, each.text


def test_the_ledger_has_every_column(root):
    rows = list(csv.DictReader((root / "figures/claims.csv").read_text().splitlines()))
    assert {row["paper name"] for row in rows} == set(PAPERS)
    for row in rows:
        assert set(row) == {"paper name", *COLUMNS}
        assert row["kind"] in ("fitted", "derived", "predicted", "shown", "not run")
        if row["kind"] in ("fitted", "derived", "predicted"):
            assert row["quote"] and row["section"] and row["source"] and row["tolerance"]
            assert row["verdict"] in ("pass", "MISS")
        if row["kind"] != "predicted":
            assert row["of"]
        assert (row["verdict"] == "MISS") == row["why"].startswith(EXPLAINED)


def test_claims_and_documents_are_those_of_the_shipped_tables(root):
    stale = [
        str(path.relative_to(root))
        for path, text in docs.files(root).items()
        if path.read_text(encoding="utf-8") != text
    ]
    assert not stale, f"run `cxlab reproduce --docs`: {', '.join(stale)}"


def test_tables_that_compare_with_papers_are_generated(root):
    for page in (*(root / "docs").rglob("*.md"), root / "README.md"):
        assert docs.strangers(page.read_text(encoding="utf-8")) == [], page.name


LEDGER = {
    "esf": [
        replace(claim(1.0, 2.0), why=hypothesis("another bus")).row("fig1"),
        replace(claim(1.0, 2.0, None, shown("bars only")), text="b").row("fig2"),
        replace(claim(1.0, 1.0, kind=fitted("x")), text="c").row("fig2"),
    ]
}


def test_markers_are_filled():
    page = "# A\n<!-- ledger: {} -->\nold\n<!-- /ledger -->\nend\n"

    def lines(said):
        text = docs.fill(page.format(said), LEDGER)
        assert text.startswith(f"# A\n<!-- ledger: {said} -->\n")
        assert text.endswith("<!-- /ledger -->\nend\n")
        assert docs.fill(text, LEDGER) == text
        return text.splitlines()[2:-2]

    assert lines("esf fig1")[2:] == ["| a | 1 | 2 | +100.0 % | 10 % | predicted | **missed** |"]
    assert lines("esf fig2")[2:] == ["| c | 1 | 1 | +0.0 % | 10 % | fitted | pass |"]
    assert len(lines("esf fig2 shown")) == 4
    assert len(lines("esf")) == 4
    assert lines("esf why") == ["- **fig1**: a. *Hypothesis*: another bus"]
    assert lines("esf parameters") == ["- `x` by **fig2**: c"]
    assert lines("summary")[2:] == ["| esf | 1 | 1 / 0 | 0 / 1 | 0 / 0 | 1 | 0 |"]
    for said in ("xyz", "esf fig3"):
        with pytest.raises(docs.LedgerError, match="allowed"):
            lines(said)


def test_tables_beside_markers_are_found():
    page = "| | paper | cxlab |\n|---|---|---|\n| x | 1 | 2 |\n"
    assert docs.strangers(page) == ["| | paper | cxlab |"]
    assert docs.strangers(f"<!-- ledger: esf -->\n{page}<!-- /ledger -->\n") == []
    assert docs.strangers("| | newspaper |\n|---|---|\n") == []


def test_the_command_wants_a_source_tree(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "cxlab", "reproduce", "--docs", str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "allowed: a source tree" in done.stderr
