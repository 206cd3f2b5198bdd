"""Reproduction of papers' figures: the paper's claims beside cxlab's results.

A paper is a list of figures. A figure collects a table from runs, states the paper's claims about
the table, and draws it. Missed claims are shown like the others.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cxlab import _files
from cxlab._result import Result
from cxlab._scenario import Scenario
from cxlab._sweep import run_many
from cxlab.reproduce.ledger import COLUMNS, PRINTED, Row
from cxlab.reproduce.ledger import Claim as Claim

if TYPE_CHECKING:
    import pandas
    from matplotlib.figure import Figure as Drawing


#: Endings of trace files: captured by ``cxlab trace``, and ESF's text format.
TRACE_ENDINGS = (".cxlt", ".trace", ".trace.gz")


@dataclass(frozen=True)
class Settings:
    """Output folder of figures, and parameters of their runs."""

    out: Path
    #: Folder of the paper's own traces, or of others. None means ``$CXLAB_TRACES``.
    traces: Path | None = None
    workers: int | None = None
    scheduler: str | None = None
    cache: Path | bool = True

    def run(self, figure: str, scenarios: Sequence[Scenario]) -> list[Result]:
        """Runs scenarios in parallel. Finished ones come from the cache."""
        return run_many(
            scenarios,
            workers=self.workers,
            scheduler=self.scheduler,
            cache=self.cache,
            description=figure,
        )

    def trace_folder(self) -> Path | None:
        """The folder of traces, if one was given."""
        given = os.environ.get("CXLAB_TRACES")
        return self.traces or (Path(given) if given else None)

    def has_traces(self, names: Sequence[str]) -> bool:
        """Whether all of the paper's own traces are available."""
        folder = self.trace_folder()
        return folder is not None and all((folder / name).is_file() for name in names)

    def trace_paths(self, names: Sequence[str]) -> dict[str, Path]:
        """The paper's own traces by name. If one is missing, every trace of the folder."""
        folder = self.trace_folder()
        if folder is None:
            return {}
        if self.has_traces(names):
            paths = [folder / name for name in names]
        else:
            paths = sorted(path for path in folder.glob("*") if path.name.endswith(TRACE_ENDINGS))
        return {path.name.split(".")[0]: path.resolve() for path in paths}


@dataclass(frozen=True)
class Figure:
    """A figure of a paper."""

    #: The name that users type, which is also the name of the figure's files.
    name: str
    title: str
    #: Runs the simulations, and returns a table from which claims and drawing are made.
    collect: Callable[[Settings], pandas.DataFrame]
    claims: Callable[[pandas.DataFrame], list[Claim]]
    draw: Callable[[pandas.DataFrame], Drawing]
    #: Traces that the figure needs, by file name in the folder of traces. Without them, other
    #: traces are used and no claim is judged.
    traces: Sequence[str] = field(default=())


def _esf() -> Sequence[Figure]:
    from cxlab.reproduce.esf import FIGURES

    return FIGURES


def _cohet() -> Sequence[Figure]:
    from cxlab.reproduce.cohet import FIGURES

    return FIGURES


def _cxl_ssd_sim() -> Sequence[Figure]:
    from cxlab.reproduce.cxl_ssd_sim import FIGURES

    return FIGURES


def _cxl_clustersim() -> Sequence[Figure]:
    from cxlab.reproduce.cxl_clustersim import FIGURES

    return FIGURES


def _cxlmemsim() -> Sequence[Figure]:
    from cxlab.reproduce.cxlmemsim import FIGURES

    return FIGURES


def _hardware() -> Sequence[Figure]:
    from cxlab.reproduce.hardware import FIGURES

    return FIGURES


#: Papers, and measurements of hardware, by the name that users type.
PAPERS: dict[str, Callable[[], Sequence[Figure]]] = {
    "cohet": _cohet,
    "cxl-clustersim": _cxl_clustersim,
    "cxl-ssd-sim": _cxl_ssd_sim,
    "cxlmemsim": _cxlmemsim,
    "esf": _esf,
    "hardware": _hardware,
}


def reproduce(figures: Sequence[Figure], settings: Settings) -> pandas.DataFrame:
    """Makes figures, prints the table of claims, and writes it to ``claims.csv``.

    Figures without their traces are skipped and named. Claims of figures that are not
    made now stay in ``claims.csv`` unchanged.
    """
    import matplotlib
    import pandas

    settings.out.mkdir(parents=True, exist_ok=True)
    rows: list[Row] = []
    left_out: list[str] = []
    with matplotlib.rc_context(_STYLE):
        for figure in figures:
            missing = _missing(figure, settings)
            if missing:
                left_out.append(f"{figure.name}: needs {missing}")
                continue
            _save(figure, figure.collect(settings), settings.out)
            others = bool(figure.traces) and not settings.has_traces(figure.traces)
            rows += claim_rows(figure, settings.out, other_traces=others)
    table = pandas.DataFrame(rows, columns=list(COLUMNS))
    _write_claims(settings.out / "claims.csv", table)
    if len(table):
        print(table[list(PRINTED)].to_string(index=False))
        counts = table.verdict.value_counts()
        print(
            f"\n{counts.get('pass', 0)} pass, {counts.get('MISS', 0)} missed, "
            f"{counts.get('shown', 0)} shown and not judged, {counts.get('not run', 0)} not run"
        )
    for reason in left_out:
        print(f"left out: {reason}", file=sys.stderr)
    print(f"written: {settings.out}")
    return table


def claim_rows(figure: Figure, folder: Path, *, other_traces: bool = False) -> list[Row]:
    """The claims that follow from a figure's table in a folder."""
    import pandas

    table = pandas.read_csv(folder / f"{figure.name}.csv", keep_default_na=False)
    claims = figure.claims(table)
    if other_traces:
        claims = [claim.unjudged("traces are not the paper's") for claim in claims]
    return [claim.row(figure.name) for claim in claims]


_STYLE: dict[Any, Any] = {
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#dddddd",
    "axes.axisbelow": True,
    "legend.frameon": False,
    "savefig.dpi": 110,
    "svg.hashsalt": "cxlab",
    "svg.fonttype": "none",
}


def _missing(figure: Figure, settings: Settings) -> str | None:
    if not figure.traces:
        return None
    folder = settings.trace_folder()
    if folder is None:
        return "the paper's traces or others; give their folder with --traces DIR or $CXLAB_TRACES"
    if settings.trace_paths(figure.traces):
        return None
    return f"{', '.join(figure.traces)}, or any traces ({', '.join(TRACE_ENDINGS)}), in {folder}"


def _save(figure: Figure, table: pandas.DataFrame, out: Path) -> None:
    from matplotlib import pyplot

    text = table.to_csv(index=False, float_format="%.6g")
    _files.write_text(out / f"{figure.name}.csv", text)
    drawing = figure.draw(table)
    for ending, nothing in (("png", {"Software": None}), ("svg", {"Date": None, "Creator": None})):
        _files.write_whole(
            out / f"{figure.name}.{ending}",
            lambda path, ending=ending, nothing=nothing: drawing.savefig(  # type: ignore[misc]
                path, format=ending, bbox_inches="tight", metadata=nothing
            ),
        )
    pyplot.close(drawing)


def _write_claims(path: Path, new: pandas.DataFrame) -> None:
    """Writes the claims and keeps those of other figures. Figures keep their order."""
    import pandas

    if path.is_file():
        old = pandas.read_csv(path, dtype=str, keep_default_na=False)
        old = old.reindex(columns=new.columns, fill_value="")
        order = {name: at for at, name in enumerate(old["figure"].unique())}
        kept = old[~old["figure"].isin(new["figure"].unique())]
        new = pandas.concat([kept, new.astype(str)])
        new = new.sort_values(
            "figure", kind="stable", key=lambda names: names.map(order).fillna(len(order))
        )
    _files.write_text(path, new.to_csv(index=False))
