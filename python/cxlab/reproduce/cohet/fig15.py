"""Bandwidth of loads by where the line is, and of DMA reads of 64 B."""

import pandas as pd
from matplotlib import pyplot as plt
from matplotlib.figure import Figure as Drawing

from cxlab.reproduce import Claim, Figure, Settings
from cxlab.reproduce.cohet import common
from cxlab.reproduce.cohet.common import (
    BLUE,
    CLOCKS,
    FPGA,
    GREEN,
    HMC,
    LLC,
    MEMORY,
    ORANGE,
    TIERS,
)

DMA = "DMA, 64 B"
#: GB/s (section VI-C1), and of DMA (section VI-C2).
PAPER = {HMC: 25.07, LLC: 14.10, MEMORY: 13.49, DMA: 0.92}
#: 64 B in a cycle of 400 MHz.
PEAK = 25.6
#: Loads of a repeat; the paper's stay the same from 512 on.
COUNTS = (32, 128, 512, common.BANDWIDTH_LINES)
_COLOURS = {HMC: BLUE, LLC: GREEN, MEMORY: ORANGE}


def collect(settings: Settings) -> pd.DataFrame:
    """Bandwidth by clock, path, and number of loads."""
    cases = [
        (
            {"clock": clock, "path": tier, "requests": count},
            common.loads(clock, tier, count, outstanding=count),
        )
        for clock in CLOCKS
        for tier in TIERS
        for count in COUNTS
    ]
    cases += [
        ({"clock": clock, "path": DMA, "requests": 0}, common.dma_bandwidth(clock, 64))
        for clock in CLOCKS
    ]
    table = common.collect(settings, "fig15", cases)
    return table[["clock", "path", "requests", "bandwidth_gbps"]]


def peaks(table: pd.DataFrame, clock: str) -> dict[str, float]:
    """Bandwidth by path, of the most loads."""
    part = table[(table.clock == clock) & table.requests.isin([0, common.BANDWIDTH_LINES])]
    return dict(zip(part.path, part.bandwidth_gbps, strict=True))


def claims(table: pd.DataFrame) -> list[Claim]:
    """Bandwidths, their shares of the peak, and where they settle."""
    fpga = peaks(table, FPGA)
    found = [
        Claim(f"{path}: bandwidth, GB/s", value, fpga[path], 0.03) for path, value in PAPER.items()
    ]
    shares = {
        f"{HMC}: share of 25.6 GB/s, % (25.07 is 97.9)": (HMC, 97.7),
        f"{LLC}: share, %": (LLC, 55.0),
        f"{MEMORY}: share, %": (MEMORY, 52.7),
    }
    found += [
        Claim(text, value, 100 * fpga[path] / PEAK, 0.03) for text, (path, value) in shares.items()
    ]
    half = table[(table.clock == FPGA) & (table.requests == 512)]
    settled = half.set_index("path").bandwidth_gbps
    return [
        *found,
        Claim(
            "memory hit over DMA at 64 B (14.4 is of 13.25 GB/s; 13.49 gives 14.7)",
            14.4,
            fpga[MEMORY] / fpga[DMA],
            0.05,
        ),
        *(
            Claim(
                f"{path}: 512 loads over 2,048 (converged above 512)",
                "near 1",
                float(settled[path] / fpga[path]),
                None,
            )
            for path in TIERS
        ),
    ]


def draw(table: pd.DataFrame) -> Drawing:
    """Bars, and what they come to with few loads."""
    figure, (left, right) = plt.subplots(
        1, 2, figsize=(9.5, 3.6), width_ratios=[3, 2], layout="constrained"
    )
    common.clock_bars(left, lambda clock: peaks(table, clock), PAPER, "%.3g")
    left.set(ylabel="bandwidth (GB/s)", title="at 2,048 loads")
    left.legend(fontsize=8)
    for tier, colour in _COLOURS.items():
        part = table[(table.clock == FPGA) & (table.path == tier)]
        right.plot(part.requests, part.bandwidth_gbps, "o-", color=colour, label=tier)
    right.set_xscale("log", base=2)
    right.set_xticks(COUNTS, [str(count) for count in COUNTS])
    right.set(xlabel="loads of a repeat", title="400 MHz", ylim=(0, None))
    right.legend(fontsize=8)
    figure.suptitle("Bandwidth of loads by CXL.cache, and of DMA (Cohet Fig. 15)")
    return figure


FIGURE = Figure("fig15", "bandwidth of loads by where the line is", collect, claims, draw)
