"""Eight nodes with STREAM in local memory, interleaved, and in the pool."""

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
    INTERLEAVE,
    LINES,
    LOCAL,
    LOOPS,
    PAPER_BOUND,
    PLACEMENTS,
    REMOTE,
)
from cxlab.reproduce.ledger import PREDICTED, hypothesis, shown

NODES = 8
WHY = hypothesis(
    "gem5's controller chooses from other queues (64 and 128 entries, 28 ns ahead) and SST's blade "
    "has neither tRRD, tFAW nor tRAS"
)


def collect(settings: Settings) -> pd.DataFrame:
    """Bandwidth at the memories by parallel lines of a node, placement and loop."""
    cases: list[tuple[dict[str, Value], Scenario]] = [
        (
            {"lines": lines, "placement": placement, "loop": loop},
            common.scenario(NODES, placement, loop, {"hosts[0].processor.llc.misses": lines}),
        )
        for lines in (LINES, GEM5_LINES)
        for placement in PLACEMENTS
        for loop in LOOPS
    ]
    table = common.collect(settings, "fig6", cases)
    return table.drop(columns="node_links_gibps")


def claims(table: pd.DataFrame) -> list[Claim]:
    """Peaks over the loops, by parallel lines of a node."""
    peaks = table.groupby(["lines", "placement"])[["local_gibps_per_node", "remote_gibps"]].max()
    found = []
    for lines in (LINES, GEM5_LINES):
        peak = peaks.loc[lines]
        local, remote = peak.local_gibps_per_node, peak.remote_gibps
        found += [
            Claim(
                f"{text}, {lines} lines of a node",
                paper,
                float(here),
                PREDICTED,
                PAPER_BOUND,
                section="4.2.2",
                quote=quote,
                why=WHY,
            )
            for text, paper, here, quote in (
                (
                    "local memory of a node, pages local, GiB/s",
                    11.4,
                    local[LOCAL],
                    "the 11.4 GiB/s baseline of strictly local memory (Figure 6(a))",
                ),
                (
                    "local memory of a node, interleaved, GiB/s",
                    6.45,
                    local[INTERLEAVE],
                    "the effective memory bandwidth per system node peaks at only 6.45 GiB/s",
                ),
                (
                    "the pool, interleaved, GiB/s in all",
                    46.04,
                    remote[INTERLEAVE],
                    "the remote node delivers a measured total bandwidth of 46.04 GiB/s",
                ),
            )
        ]
        found.append(
            Claim(
                f"the pool, all pages there, GiB/s in all, {lines} lines of a node",
                "no number",
                float(remote[REMOTE]),
                shown("no number"),
            )
        )
    return found


def draw(table: pd.DataFrame) -> Drawing:
    """A panel for each placement."""
    table = table[table.lines == LINES]
    figure, panels = plt.subplots(1, 3, figsize=(10, 3.4), layout="constrained", sharey=True)
    for axes, placement in zip(panels, PLACEMENTS, strict=True):
        part = table[table.placement == placement]
        places = range(len(part))
        every = NODES * part.local_gibps_per_node
        axes.bar([at - 0.2 for at in places], every, 0.4, color=BLUE, label="local, 8 nodes")
        axes.bar([at + 0.2 for at in places], part.remote_gibps, 0.4, color=ORANGE, label="pool")
        axes.set_xticks(places, part.loop)
        axes.set(title=f"pages {placement}")
    panels[0].axhline(NODES * 11.4, color="black", linewidth=0.8, linestyle=":", label="paper")
    panels[1].axhline(NODES * 6.45, color=BLUE, linewidth=0.8, linestyle=":", label="paper: local")
    panels[1].axhline(46.04, color=ORANGE, linewidth=0.8, linestyle=":", label="paper: pool")
    panels[0].set(ylabel="GiB/s in all")
    panels[0].set_ylim(0, 1.35 * NODES * table.local_gibps_per_node.max())
    for axes in panels:
        axes.legend(fontsize=7, loc="upper right")
    figure.suptitle("STREAM on eight nodes (CXL-ClusterSim Fig. 6)")
    return figure


FIGURE = Figure("fig6", "eight nodes: local, interleaved, pooled", collect, claims, draw)
