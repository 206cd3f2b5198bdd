"""Table 1: how long programs take alone, and attached to a simulator."""

from __future__ import annotations

import math
import statistics
import tempfile
from pathlib import Path

import pandas as pd
from matplotlib import pyplot
from matplotlib.figure import Figure as Drawing

from cxlab.reproduce import Claim, Figure, Settings
from cxlab.reproduce.common import BLUE, GREEN, ORANGE
from cxlab.reproduce.cxlmemsim import common
from cxlab.reproduce.ledger import PREDICTED, not_run, shown, words

#: Seconds in the paper's table: alone, gem5, CXLMemSim. gem5 failed on wrf.
PAPER: dict[str, tuple[float, float | None, float]] = {
    "mmap_read": (0.194, 523.146, 7.7967),
    "mmap_write": (0.118, 426.361, 6.6755),
    "sbrk": (0.174, 381.597, 6.0312),
    "malloc": (0.691, 2359.973, 97.7930),
    "calloc": (2.406, 15.059, 181.6472),
    "spec2017 mcf": (215.311, 31537.609, 1215.4854),
    "spec2017 wrf": (5.418, None, 17.3756),
}
MACHINE = "another machine: theirs has an i9-12900K and no hypervisor"
LICENCE = "SPEC CPU2017 needs a licence"


def collect(_: Settings) -> pd.DataFrame:
    """Real time alone and attached, with the paper's topology and with nothing added."""
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for name, command in common.programs(Path(folder)).items():
            added = common.measure(name, command, common.data("pools.toml"), [])
            # Memory that is as slow as the pools adds nothing.
            nothing = common.measure(
                name, command, common.data("pools.toml"), ["--local-latency", "100 us"]
            )
            rows.append(
                {
                    "program": name,
                    "bytes": common.size_of(name) if name in common.MICRO else "",
                    **added,
                    "nothing_native_s": nothing["native_s"],
                    "nothing_cxlab_s": nothing["cxlab_s"],
                }
            )
    return pd.DataFrame(rows)


def _slowdowns(table: pd.DataFrame, *, micro: bool, nothing: bool = False) -> list[float]:
    some = table[table.program.isin(list(common.MICRO)) == micro]
    head = "nothing_" if nothing else ""
    return [float(ratio) for ratio in some[f"{head}cxlab_s"] / some[f"{head}native_s"]]


def claims(table: pd.DataFrame) -> list[Claim]:
    """Every number of the table and of the text about it."""
    rows = {str(row["program"]): row for row in table.to_dict("records")}
    found: list[Claim] = []
    for name, (alone, gem5, theirs) in PAPER.items():
        row = rows.get(name)
        if row is None:
            found += [
                Claim(f"{name}, {what}, s", value, None, not_run(why))
                for what, value, why in (
                    ("alone", alone, LICENCE),
                    ("gem5", gem5 if gem5 is not None else "failed", LICENCE),
                    ("CXLMemSim", theirs, LICENCE),
                )
            ]
            continue
        found += [
            Claim(f"{name}, alone, s", alone, float(row["native_s"]), shown(MACHINE)),
            Claim(
                f"{name}, gem5, s",
                gem5 if gem5 is not None else "failed",
                None,
                not_run("their gem5 is not built here"),
            ),
            Claim(f"{name}, attached, s", theirs, float(row["cxlab_s"]), shown(MACHINE)),
            Claim(
                f"{name}, attached over alone",
                (-math.inf, theirs / alone),
                float(row["cxlab_s"]) / float(row["native_s"]),
                PREDICTED,
                words("a lower slowdown is better"),
                section="Table 1",
                quote=f"{name} {alone} {gem5} {theirs}",
            ),
        ]
    micro, real = (_slowdowns(table, micro=micro) for micro in (True, False))
    idle = _slowdowns(table, micro=True, nothing=True) + _slowdowns(
        table, micro=False, nothing=True
    )
    return [
        *found,
        Claim(
            "attached over alone, mean of micro programs",
            (-math.inf, 41.06),
            statistics.fmean(micro),
            PREDICTED,
            words("a lower slowdown is better"),
            section="4",
            quote="CXLMemSim slows execution by an average factor of 41.06",
        ),
        Claim(
            "attached over alone, mean of real programs",
            (-math.inf, 4.41),
            statistics.fmean(real),
            PREDICTED,
            words("a lower slowdown is better"),
            section="Abstract",
            quote="slows down the execution of the attached program by 4.41x on average for "
            "real-world applications",
        ),
        Claim(
            "attached over alone with nothing added, median of all",
            "not given",
            statistics.median(idle),
            shown("the paper does not say what its delays have of its slowdown"),
        ),
        Claim(
            "faster than gem5 by",
            73.0,
            None,
            not_run("their gem5 is not built here"),
        ),
        Claim("latency of local memory, ns", 88.9, float(table.local_ns.iloc[0]), shown(MACHINE)),
    ]


def draw(table: pd.DataFrame) -> Drawing:
    """Slowdowns beside the paper's, on a logarithmic axis."""
    figure, axes = pyplot.subplots(figsize=(8.0, 3.8))
    names = [str(name) for name in table.program]
    at = range(len(names))
    theirs = [PAPER[name][2] / PAPER[name][0] if name in PAPER else math.nan for name in names]
    ours = [float(ratio) for ratio in table.cxlab_s / table.native_s]
    nothing = [float(ratio) for ratio in table.nothing_cxlab_s / table.nothing_native_s]
    width = 0.27
    for number, (label, values, colour) in enumerate(
        (
            ("CXLMemSim (Table 1)", theirs, ORANGE),
            ("cxlab attach", ours, BLUE),
            ("cxlab attach, nothing added", nothing, GREEN),
        )
    ):
        axes.bar([x + (number - 1) * width for x in at], values, width, label=label, color=colour)
    axes.set_yscale("log")
    axes.axhline(1.0, color="#666666", linewidth=0.8)
    axes.set_ylabel("real time over alone")
    labels = [name.removeprefix("python: ").replace(" of ", "\n") for name in names]
    axes.set_xticks(list(at), labels, fontsize=8)
    axes.set_title("Attached programs (CXLMemSim Table 1)")
    axes.legend(frameon=False, fontsize=8, loc="upper right")
    figure.tight_layout()
    return figure


FIGURE = Figure("table1", "Programs alone and attached", collect, claims, draw)
