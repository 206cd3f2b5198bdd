"""Figure 1: the pools of the example topology, and what each adds to a program."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pandas as pd
from matplotlib import pyplot
from matplotlib.figure import Figure as Drawing

from cxlab.reproduce import Claim, Figure, Settings
from cxlab.reproduce.common import BLUE, GREEN, ORANGE
from cxlab.reproduce.cxlmemsim import common
from cxlab.reproduce.ledger import shown

#: What is said of the numbers in the figure.
UNSAID = "the paper's text has no delay and no bandwidth of its figure"


def collect(_: Settings) -> pd.DataFrame:
    """Latency of each pool without load, and its share of a program's misses."""
    with tempfile.TemporaryDirectory() as folder:
        command = [str(common.compiled(Path(folder))), "mmap_read", str(common.SMALL)]
        found = common.attached(common.data("pools.toml"), [], command)
    shares = {one["name"]: one["share"] for one in found["pools"]}
    return pd.DataFrame(
        {
            "pool": one["name"],
            "latency_ns": one["unloaded_ns"],
            "share": shares[one["name"]],
        }
        for one in found["devices"]
    )


def claims(table: pd.DataFrame) -> list[Claim]:
    """Latencies, which the paper does not give."""
    return [
        Claim(f"latency of {pool} without load, ns", "not given", float(latency), shown(UNSAID))
        for pool, latency in zip(table.pool, table.latency_ns, strict=True)
    ]


def draw(table: pd.DataFrame) -> Drawing:
    """Latency of each pool, and its share of a program's misses."""
    figure, axes = pyplot.subplots(1, 2, figsize=(7.0, 3.0))
    names = [str(pool) for pool in table.pool]
    colours = [BLUE, ORANGE, GREEN]
    axes[0].bar(names, table.latency_ns, color=colours)
    axes[0].set_ylabel("latency, ns")
    axes[1].bar(names, 100 * table.share, color=colours)
    axes[1].set_ylabel("share of mmap_read's misses, %")
    figure.suptitle("Two switches and three pools (CXLMemSim Fig. 1)")
    figure.tight_layout()
    return figure


FIGURE = Figure("fig1", "Pools of the example topology", collect, claims, draw)
