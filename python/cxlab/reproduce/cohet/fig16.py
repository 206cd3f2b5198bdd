"""Bandwidth of DMA reads by size of message, against loads by CXL.cache."""

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
    SIZES,
    size_label,
)

#: GB/s (section VI-C2).
PAPER = {64: 0.92, 256 << 10: 22.9}
CXL = common.CXL_MEMORY


def collect(settings: Settings) -> pd.DataFrame:
    """Bandwidth by size and clock, and that of loads."""
    cases = common.dma_cases(SIZES, common.dma_bandwidth, common.bandwidth(FPGA, MEMORY))
    table = common.collect(settings, "fig16", cases)
    return table[["clock", "path", "bytes", "bandwidth_gbps"]]


def _cxl(table: pd.DataFrame) -> float:
    return float(table[table.path == CXL].bandwidth_gbps.iloc[0])


def claims(table: pd.DataFrame) -> list[Claim]:
    """Both ends, their ratios, and percentages that the paper's numbers do not give."""
    curve, cxl = common.dma_curve(table, FPGA, "bandwidth_gbps"), _cxl(table)
    least, most = float(curve[64]), float(curve[256 << 10])
    found = [
        Claim(f"DMA read of {size_label(size)}: bandwidth, GB/s", value, float(curve[size]), 0.03)
        for size, value in PAPER.items()
    ]
    return [
        *found,
        Claim("CXL.cache, GB/s (13.25 here, 13.49 in Fig. 15)", 13.25, cxl, None),
        Claim("CXL.cache over DMA at 64 B (13.49 would give 14.7)", 14.4, cxl / least, 0.05),
        Claim("CXL.cache over DMA at 256 KB, %", 57.7, 100 * cxl / most, 0.05),
        Claim(
            "DMA at 64 B, % of 25.6 GB/s (printed 0.36; 0.92 is 3.6)",
            0.36,
            100 * least / 25.6,
            None,
        ),
        Claim(
            "DMA at 256 KB, % of 25.6 GB/s (86.7 is of 26.4, a peak that is not stated)",
            86.7,
            100 * most / 25.6,
            None,
        ),
    ]


def draw(table: pd.DataFrame) -> Drawing:
    """Curves by clock."""
    figure, axes = plt.subplots(figsize=(6.5, 3.6), layout="constrained")
    for clock, colour in CLOCK_COLOURS.items():
        curve = common.dma_curve(table, clock, "bandwidth_gbps")
        axes.plot(curve.index, curve, "o-", color=colour, label=f"DMA, {clock}")
    axes.axhline(_cxl(table), color=GREEN, label=f"{CXL}, 400 MHz")
    axes.plot(list(PAPER), list(PAPER.values()), "kx", label="paper, FPGA", zorder=3)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xticks(SIZES, [size_label(size) for size in SIZES])
    axes.set_yticks([1, 2, 5, 10, 20, 50], ["1", "2", "5", "10", "20", "50"])
    axes.minorticks_off()
    axes.set(xlabel="message", ylabel="bandwidth (GB/s)")
    axes.legend(loc="lower right", fontsize=8)
    axes.set_title("DMA reads of host memory, pipelined (Cohet Fig. 16)")
    return figure


FIGURE = Figure("fig16", "bandwidth of DMA reads by size", collect, claims, draw)
