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
    PAPER_ERROR,
    SIZES,
    size_label,
)
from cxlab.reproduce.ledger import PREDICTED, Kind, derived, shown, tested

#: GB/s (section VI-C2).
PAPER = {64: 0.92, 256 << 10: 22.9}
CXL = common.CXL_MEMORY


def collect(settings: Settings) -> pd.DataFrame:
    """Bandwidth by size and clock, and that of loads."""
    cases = common.dma_cases(SIZES, common.dma_bandwidth, common.bandwidth(FPGA, MEMORY))
    table = common.collect(settings, "fig16", cases)
    steady = common.steady_bandwidth(settings, "fig16", [(FPGA, MEMORY, common.NEAREST)])
    table.loc[table.path == CXL, "bandwidth_gb_per_s"] = steady
    return table[["clock", "path", "bytes", "bandwidth_gb_per_s"]]


def _cxl(table: pd.DataFrame) -> float:
    return float(table[table.path == CXL].bandwidth_gb_per_s.iloc[0])


def claims(table: pd.DataFrame) -> list[Claim]:
    """Both ends, their ratios, and percentages that the paper's numbers do not confirm."""
    curve, cxl = common.dma_curve(table, FPGA, "bandwidth_gb_per_s"), _cxl(table)
    least, most = float(curve[64]), float(curve[256 << 10])
    same = f"fig15: {MEMORY}: bandwidth, GB/s"

    def claim(text: str, paper: float, ours: float, kind: Kind, quote: str, why: str = "") -> Claim:
        tolerance = None if kind.name == "shown" else PAPER_ERROR
        return Claim(text, paper, ours, kind, tolerance, "VI-C2", quote, why)

    return [
        claim(
            "DMA read of 64 B: bandwidth, GB/s",
            PAPER[64],
            least,
            derived("fig15: DMA, 64 B: bandwidth, GB/s"),
            "DMA delivers just 0.92 GB/s",
        ),
        claim(
            "DMA read of 256 KB: bandwidth, GB/s",
            PAPER[256 << 10],
            most,
            PREDICTED,
            "reaching 22.9 GB/s at 256 KB",
        ),
        claim(
            "CXL.cache, GB/s",
            13.25,
            cxl,
            derived(same),
            "whereas CXL.cache achieves 13.25 GB/s",
            tested("the paper has 13.49 GB/s for the same in Fig. 15, which ours is fitted to"),
        ),
        claim(
            "CXL.cache over DMA at 64 B",
            14.4,
            cxl / least,
            derived(same),
            "14.4× that of DMA",
            tested("13.49 GB/s, to which ours is fitted, and 0.92 give 14.7"),
        ),
        claim(
            "CXL.cache over DMA at 256 KB, %",
            57.7,
            100 * cxl / most,
            derived(same),
            "CXL.cache achieves only 57.7% of the DMA bandwidth",
        ),
        claim(
            "DMA at 64 B, % of 25.6 GB/s",
            0.36,
            100 * least / 25.6,
            shown("contradicts the paper's own 0.92 GB/s, which are 3.6 %"),
            "(0.36% of the theoretical peak)",
        ),
        claim(
            "DMA at 256 KB, % of 25.6 GB/s",
            86.7,
            100 * most / 25.6,
            shown("22.9 GB/s are 86.7 % of 26.4 GB/s, a peak that is not stated"),
            "(86.7% of the theoretical peak)",
        ),
    ]


def draw(table: pd.DataFrame) -> Drawing:
    """Curves by clock."""
    figure, axes = plt.subplots(figsize=(6.5, 3.6), layout="constrained")
    for clock, colour in CLOCK_COLOURS.items():
        curve = common.dma_curve(table, clock, "bandwidth_gb_per_s")
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
