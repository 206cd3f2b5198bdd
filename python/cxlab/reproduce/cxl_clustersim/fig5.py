"""One node with STREAM in remote memory: bandwidth on its link and at the memory."""

import math

import pandas as pd
from matplotlib import pyplot as plt
from matplotlib.figure import Figure as Drawing

from cxlab.reproduce import Claim, Figure, Settings
from cxlab.reproduce.common import BLUE, ORANGE
from cxlab.reproduce.cxl_clustersim import common
from cxlab.reproduce.cxl_clustersim.common import LOOPS, REMOTE
from cxlab.reproduce.ledger import shown


def collect(settings: Settings) -> pd.DataFrame:
    """Bandwidth on both sides by loop, and the difference."""
    cases = [({"loop": loop}, common.scenario(1, REMOTE, loop)) for loop in LOOPS]
    table = common.collect(settings, "fig5", cases)
    off = 100 * (table.remote_gibps / table.node_links_gibps - 1).abs()
    return table[["loop", "node_links_gibps", "remote_gibps"]].assign(off_percent=off)


def claims(table: pd.DataFrame) -> list[Claim]:
    """All bytes that cross the link reach the memory."""
    return [
        Claim(
            "link against memory, largest difference, %",
            (-math.inf, 0.99),
            float(table.off_percent.max()),
            shown("lines are neither lost nor made, which tests hold: it cannot fail"),
            section="4.2.1",
            quote="The baseline and the reported bandwidth using CXL-ClusterSim are within 0.99%",
        )
    ]


def draw(table: pd.DataFrame) -> Drawing:
    """Pairs of bars."""
    figure, axes = plt.subplots(figsize=(5, 3.2), layout="constrained")
    places = range(len(table))
    axes.bar([at - 0.2 for at in places], table.node_links_gibps, 0.4, color=BLUE, label="link")
    axes.bar([at + 0.2 for at in places], table.remote_gibps, 0.4, color=ORANGE, label="memory")
    axes.set_xticks(places, table.loop)
    axes.set(ylabel="GiB/s", title="One node, STREAM in the pool (CXL-ClusterSim Fig. 5)")
    axes.set_ylim(0, 1.3 * table.remote_gibps.max())
    axes.legend(fontsize=7, ncols=2)
    return figure


FIGURE = Figure("fig5", "link and memory of one node", collect, claims, draw)
