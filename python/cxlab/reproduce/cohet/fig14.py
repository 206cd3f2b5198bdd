"""Latency of DMA reads by size of message."""

import pandas as pd
from matplotlib import pyplot as plt
from matplotlib.figure import Figure as Drawing

from cxlab.reproduce import Claim, Figure, Settings
from cxlab.reproduce.cohet import common
from cxlab.reproduce.cohet.common import (
    CLOCK_COLOURS,
    FPGA,
    GREEN,
    MEMORY,
    PAPER_ERROR,
    SIZES,
    size_label,
)
from cxlab.reproduce.ledger import PREDICTED, derived, shown, tested

#: "roughly constant at ~2.5 us for message sizes below 8 KB" (section VI-B3), ns.
PAPER = 2500.0
KNEE = 8 << 10
CXL = common.CXL_MEMORY


def collect(settings: Settings) -> pd.DataFrame:
    """Median latency by size and clock, and that of a load."""
    sizes = sorted({*SIZES, KNEE})
    cases = common.dma_cases(sizes, common.dma_latency, common.latency(FPGA, MEMORY))
    table = common.collect(settings, "fig14", cases)
    return table[["clock", "path", "bytes", "p50_ns"]]


def claims(table: pd.DataFrame) -> list[Claim]:
    """Flat below 8 KiB, and then proportional to the bytes."""
    curve = common.dma_curve(table, FPGA, "p50_ns")
    found = [
        Claim(
            f"DMA read of {size_label(size)}: median latency, ns",
            PAPER,
            float(curve[size]),
            derived("fig13: DMA, 64 B: median latency, ns") if size == 64 else PREDICTED,
            PAPER_ERROR,
            section="VI-B3",
            quote="the latency remains roughly constant at ~2.5 us for message sizes below 8 KB",
            why=tested(
                "4 KiB through a datapath of 64 B a cycle take 160 ns, and the paper's peak of "
                "25.6 GB/s at 400 MHz allows no less: no curve is flat within 3 % up to 8 KB"
            ),
        )
        for size in sorted(int(size) for size in table["bytes"].unique())
        if size < KNEE
    ]
    last = int(curve.index.max())
    words = "the data transfer time gradually dominates the overall latency"
    for size in (KNEE, last):
        found.append(
            Claim(
                f"{size_label(size)} over 64 B",
                "no number",
                float(curve[size] / curve[64]),
                shown("no number"),
                section="VI-B3",
                quote=words,
            )
        )
    return found


def draw(table: pd.DataFrame) -> Drawing:
    """Curves by clock."""
    figure, axes = plt.subplots(figsize=(6.5, 3.6), layout="constrained")
    for clock, colour in CLOCK_COLOURS.items():
        curve = common.dma_curve(table, clock, "p50_ns")
        axes.plot(curve.index, curve / 1000, "o-", color=colour, label=f"DMA, {clock}")
    cxl = float(table[table.path == CXL].p50_ns.iloc[0])
    axes.plot([64], [cxl / 1000], "^", color=GREEN, label=f"{CXL}, 64 B")
    axes.plot([64, KNEE], [PAPER / 1000] * 2, "k--", linewidth=1, label="paper: about 2.5 us")
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    sizes = sorted({int(size) for size in table["bytes"]})
    axes.set_xticks(sizes, [size_label(size) for size in sizes], fontsize=8)
    axes.set_yticks([0.5, 1, 2, 5, 10, 20], ["0.5", "1", "2", "5", "10", "20"])
    axes.minorticks_off()
    axes.set(xlabel="message", ylabel="median latency (us)")
    axes.legend(loc="upper left", fontsize=8)
    axes.set_title("DMA reads of host memory (Cohet Fig. 14)")
    return figure


FIGURE = Figure("fig14", "latency of DMA reads by size", collect, claims, draw)
