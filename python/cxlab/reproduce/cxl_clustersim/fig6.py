"""Eight nodes, STREAM in local memory, interleaved, and in the pool."""

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
    PLACEMENTS,
    REMOTE,
)

NODES = 8


def collect(settings: Settings) -> pd.DataFrame:
    """Bandwidth at the memories by lines that a node reads at once, placement and loop."""
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
    """Peaks over the loops."""
    peaks = table.groupby(["lines", "placement"])[["local_gibps_per_node", "remote_gibps"]].max()
    found = []
    for lines in (LINES, GEM5_LINES):
        peak = peaks.loc[lines]
        local, remote = peak.local_gibps_per_node, peak.remote_gibps
        of = "" if lines == LINES else f", {lines} lines of a node"
        found += [
            Claim(f"{text}{of}", paper, float(here), 0.1)
            for text, paper, here in (
                ("local memory of a node, pages local, GiB/s", 11.4, local[LOCAL]),
                ("local memory of a node, interleaved, GiB/s", 6.45, local[INTERLEAVE]),
                ("the pool, interleaved, GiB/s in all", 46.04, remote[INTERLEAVE]),
            )
        ]
    peak = peaks.loc[LINES]
    local, remote = peak.local_gibps_per_node, peak.remote_gibps
    found += [
        Claim("the pool, pages local, GiB/s", (0.0, 0.1), float(remote[LOCAL]), 0.0),
        Claim("local memory, pages in the pool, GiB/s", (0.0, 0.1), float(local[REMOTE]), 0.0),
        Claim("the pool, all pages there, GiB/s in all", "no number", float(remote[REMOTE]), None),
    ]
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
