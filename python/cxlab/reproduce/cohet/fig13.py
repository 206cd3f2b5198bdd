"""Latency of loads that hit in the device's cache, the host's cache and memory; DMA beside them."""

import pandas as pd
from matplotlib import pyplot as plt
from matplotlib.figure import Figure as Drawing

from cxlab.reproduce import Claim, Figure, Settings
from cxlab.reproduce.cohet import common
from cxlab.reproduce.cohet.common import ASIC, CLOCKS, FPGA, HMC, LLC, MEMORY, TIERS

DMA = "DMA, 64 B"
#: Median latency, ns (section VI-B2), and of DMA "~2.5 us" (section VI-B3).
PAPER = {HMC: 115.0, LLC: 575.6, MEMORY: 688.3, DMA: 2500.0}


def collect(settings: Settings) -> pd.DataFrame:
    """Latency by clock and where the line is."""
    cases = [
        ({"clock": clock, "path": tier}, common.latency(clock, tier))
        for clock in CLOCKS
        for tier in TIERS
    ]
    cases += [({"clock": clock, "path": DMA}, common.dma_latency(clock, 64)) for clock in CLOCKS]
    table = common.collect(settings, "fig13", cases)
    return table[["clock", "path", "p50_ns", "min_ns", "max_ns"]]


def medians(table: pd.DataFrame, clock: str) -> dict[str, float]:
    """Medians by path."""
    part = table[table.clock == clock]
    return dict(zip(part.path, part.p50_ns, strict=True))


def claims(table: pd.DataFrame) -> list[Claim]:
    """The FPGA's values; the ASIC's are bars without numbers."""
    fpga, asic = medians(table, FPGA), medians(table, ASIC)
    found = [
        Claim(f"{path}: median latency, ns", value, fpga[path], 0.03)
        for path, value in PAPER.items()
    ]
    return [
        *found,
        Claim("LLC hit over HMC hit (about 5)", 5.0, fpga[LLC] / fpga[HMC], 0.03),
        Claim("memory hit over LLC hit", 1.19, fpga[MEMORY] / fpga[LLC], 0.03),
        Claim(
            "memory hit less LLC hit, ns (text: ~100; its numbers: 112.7)",
            112.7,
            fpga[MEMORY] - fpga[LLC],
            0.03,
        ),
        Claim(
            "memory hit below DMA at 64 B, % (2.5 us, also the paper's, gives 72.5)",
            68.0,
            100 * (1 - fpga[MEMORY] / fpga[DMA]),
            None,
        ),
        Claim(
            "DMA at 64 B, ns, derived from 68 % (the text says ~2.5 us)",
            2151.0,
            fpga[DMA],
            None,
        ),
        *(
            Claim(f"ASIC, {path}: median latency, ns", "bars only", value, None)
            for path, value in asic.items()
        ),
    ]


def draw(table: pd.DataFrame) -> Drawing:
    """Bars by path and clock."""
    figure, axes = plt.subplots(figsize=(6.5, 3.6), layout="constrained")
    common.clock_bars(axes, lambda clock: medians(table, clock), PAPER, "%.0f")
    axes.set(ylabel="median latency (ns)")
    axes.legend(loc="upper left", fontsize=8)
    axes.set_title("Latency of loads by CXL.cache, and of DMA (Cohet Fig. 13)")
    return figure


FIGURE = Figure("fig13", "latency of loads by where the line is", collect, claims, draw)
