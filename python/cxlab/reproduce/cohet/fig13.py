"""Latency of loads that hit in the device's cache, the host's cache and memory, beside DMA."""

import pandas as pd
from matplotlib import pyplot as plt
from matplotlib.figure import Figure as Drawing

from cxlab.reproduce import Claim, Figure, Settings
from cxlab.reproduce.cohet import common
from cxlab.reproduce.cohet.common import (
    ASIC,
    CLOCKS,
    FPGA,
    HMC,
    LLC,
    MEMORY,
    PAPER_ERROR,
    TIERS,
)
from cxlab.reproduce.ledger import derived, fitted, shown

DMA = "DMA, 64 B"
#: Median latency in ns (section VI-B2), and of DMA "~2.5 us" (section VI-B3).
PAPER = {HMC: 115.0, LLC: 575.6, MEMORY: 688.3, DMA: 2500.0}

SECTION = {HMC: "VI-B2", LLC: "VI-B2", MEMORY: "VI-B2", DMA: "VI-B3"}
QUOTE = {
    HMC: "HMC hit exhibits the lowest latency (115 ns)",
    LLC: "followed by LLC hit (575.6 ns)",
    MEMORY: "off-chip memory hit (688.3 ns)",
    DMA: "the latency remains roughly constant at ~2.5 us",
}
#: Parameters fitted by each value.
FITTED = {
    HMC: ("device.cache.hit_cycles",),
    LLC: ("device.cache.request_cycles, response_cycles",),
    MEMORY: ("nodes[].latency",),
    DMA: ("device.dma.setup_cycles", "device.dma.completion_cycles", "processor.io_time"),
}


def collect(settings: Settings) -> pd.DataFrame:
    """Latency by clock and by the place of the line."""
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
    """The FPGA's values. The ASIC's are bars without numbers."""
    fpga, asic = medians(table, FPGA), medians(table, ASIC)
    found = [
        Claim(
            f"{path}: median latency, ns",
            value,
            fpga[path],
            fitted(*FITTED[path]),
            PAPER_ERROR,
            section=SECTION[path],
            quote=QUOTE[path],
        )
        for path, value in PAPER.items()
    ]
    return [
        *found,
        Claim(
            "LLC hit over HMC hit",
            5.0,
            fpga[LLC] / fpga[HMC],
            derived(f"fig13: {LLC}: median latency, ns"),
            PAPER_ERROR,
            section="VI-B2",
            quote="The LLC hit latency is roughly 5× higher than the HMC hit",
        ),
        Claim(
            "memory hit over LLC hit",
            1.19,
            fpga[MEMORY] / fpga[LLC],
            derived(f"fig13: {MEMORY}: median latency, ns"),
            PAPER_ERROR,
            section="VI-B2",
            quote="Memory hit latency is only 1.19× higher than that of the LLC hit",
        ),
        Claim(
            "memory hit less LLC hit, ns",
            "about 100",
            fpga[MEMORY] - fpga[LLC],
            shown("contradicts the paper's own 688.3 and 575.6 ns, which differ by 112.7"),
            section="VI-B2",
            quote="reflecting a ~100 ns DRAM access overhead",
        ),
        Claim(
            "memory hit below DMA at 64 B, %",
            68.0,
            100 * (1 - fpga[MEMORY] / fpga[DMA]),
            shown("contradicts the paper's own 688.3 ns and 2.5 us, which give 72.5"),
            section="VI-B3",
            quote="achieving a 68% lower latency for memory hit than DMA at 64B",
        ),
        *(
            Claim(f"ASIC, {path}: median latency, ns", "bars only", value, shown("bars only"))
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
