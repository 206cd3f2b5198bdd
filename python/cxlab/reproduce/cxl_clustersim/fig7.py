"""Four nodes with STREAM in the pool, by latency added to their round trip."""

import pandas as pd
from matplotlib import pyplot as plt
from matplotlib.figure import Figure as Drawing

from cxlab._scenario import Scenario
from cxlab._types import Value
from cxlab.reproduce import Claim, Figure, Settings
from cxlab.reproduce.common import BLUE, ORANGE
from cxlab.reproduce.cxl_clustersim import common
from cxlab.reproduce.cxl_clustersim.common import (
    GEM5_LINES,
    LINES,
    LINES_KEY,
    LOOPS,
    POINTS,
    REMOTE,
    ROOT_PORT,
)
from cxlab.reproduce.ledger import PREDICTED, derived, fitted, shown, tested

NODES = 4
#: The paper's latencies, in ns.
PAPER = (0, 170, 250)
#: Latency added to a round trip, in ns.
LATENCIES = (0, 85, 170, 250, 350, 500)
#: Lines that a node reads in parallel: as in the other figures, and as gem5's third cache.
WINDOWS = (LINES, GEM5_LINES)
WHY = {
    LINES: tested(
        "the pool is nearly full at 170 ns, which hides a part of the latency: 36 lines lose 11.2 "
        "and 27.1 %, 38 lines 10.2 and 25.5 %, 44 lines 6.3 and 19.6 %, so no window meets both"
    ),
    GEM5_LINES: tested(
        "80 lines of 64 B, each at least 196 ns on its way, are 26 GB/s of reads: the window limits"
    ),
}


def collect(settings: Settings) -> pd.DataFrame:
    """Bandwidth of the pool, mean over the loops, by parallel lines of a node."""
    cases: list[tuple[dict[str, Value], Scenario]] = [
        (
            {"lines": lines, "added_ns": added, "loop": loop},
            common.scenario(
                NODES,
                REMOTE,
                loop,
                {
                    "hosts[0].processor.llc.misses": lines,
                    "hosts[0].processor.root_port_time": f"{ROOT_PORT + added / 2} ns",
                },
            ),
        )
        for lines in WINDOWS
        for added in LATENCIES
        for loop in LOOPS
    ]
    table = common.collect(settings, "fig7", cases)
    means = table.groupby(["lines", "added_ns"], sort=False).remote_gibps.mean().reset_index()
    first = means.groupby("lines").remote_gibps.transform("first")
    return means.assign(change_percent=100 * (means.remote_gibps / first - 1))


def claims(table: pd.DataFrame) -> list[Claim]:
    """Loss relative to no added latency, by parallel lines of a node."""
    at = table.set_index(["lines", "added_ns"])
    found = []
    for lines in WINDOWS:
        kind = fitted(LINES_KEY) if lines == LINES else PREDICTED
        of = f"{lines} lines of a node"
        found += [
            Claim(
                f"loss at {added} ns, %, {of}",
                paper,
                float(-at.change_percent[lines, added]),
                kind,
                POINTS,
                section="4.2.3",
                quote=quote,
                why=WHY[lines],
            )
            for added, paper, quote in (
                (170, 8.95, "The impact on the bandwidth from no latency to 170 ns is 8.95%"),
                (250, 29.0, "and to 250 ns is 29%"),
            )
        ]
        found.append(
            Claim(
                f"loss from 170 to 250 ns, %, {of}",
                22.0,
                100 * (1 - float(at.remote_gibps[lines, 250] / at.remote_gibps[lines, 170])),
                derived(f"fig7: loss at 250 ns, %, {of}"),
                POINTS,
                section="4.2.3",
                quote="Compared to the 170 ns case, the dip in performance for 250 ns is 22%",
                why=WHY[lines],
            )
        )
    own = table[table.lines == LINES].set_index("added_ns")
    found += [
        Claim(
            f"loss at {added} ns, %, {LINES} lines of a node",
            "no number",
            float(-change),
            shown("no number"),
        )
        for added, change in own.change_percent.items()
        if added not in PAPER
    ]
    return found


def draw(table: pd.DataFrame) -> Drawing:
    """Curves, and the paper's two points."""
    figure, axes = plt.subplots(figsize=(5.5, 3.4), layout="constrained")
    for lines, colour in zip(WINDOWS, (BLUE, ORANGE), strict=True):
        part = table[table.lines == lines]
        label = f"{lines} lines read at once by a node"
        axes.plot(part.added_ns, part.change_percent, "o-", color=colour, label=label)
    axes.plot([0, 170, 250], [0, -8.95, -29], "k:s", label="paper")
    axes.set(xlabel="latency added to a round trip (ns)", ylabel="bandwidth of the pool (%)")
    axes.set(title="STREAM in the pool, four nodes (CXL-ClusterSim Fig. 7)")
    axes.legend(fontsize=7)
    return figure


FIGURE = Figure("fig7", "latency of the way to the pool", collect, claims, draw)
