"""Bandwidth of loads by the place of the line, and of DMA reads of 64 B."""

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
    PAPER_ERROR,
    TIERS,
)
from cxlab.reproduce.ledger import PREDICTED, derived, fitted, shown, tested

DMA = "DMA, 64 B"
#: GB/s (section VI-C1), and of DMA (section VI-C2).
PAPER = {HMC: 25.07, LLC: 14.10, MEMORY: 13.49, DMA: 0.92}
_PEAKS = "stabilize at 25.07 GB/s, 14.10 GB/s, and 13.49 GB/s, respectively"
QUOTE = {HMC: _PEAKS, LLC: _PEAKS, MEMORY: _PEAKS, DMA: "DMA delivers just 0.92 GB/s"}
#: Parameters fitted by each value. HMC hits follow from one access a cycle and need none.
KIND = {
    HMC: PREDICTED,
    LLC: fitted("processor.home_interval"),
    MEMORY: fitted("device.cache.misses"),
    DMA: fitted("device.dma.descriptor_cycles"),
}
#: 64 B a cycle at 400 MHz.
PEAK = 25.6
#: Value of the table's column of loads for steady state.
STEADY = 0
#: Loads of a repeat, including the latency of the first. The paper's
#: values are constant from 512 on.
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
        ({"clock": clock, "path": DMA, "requests": STEADY}, common.dma_bandwidth(clock, 64))
        for clock in CLOCKS
    ]
    table = common.collect(settings, "fig15", cases)
    steady = [(clock, tier) for clock in CLOCKS for tier in TIERS]
    found = common.steady_bandwidth(
        settings, "fig15", [(clock, tier, common.NEAREST) for clock, tier in steady]
    )
    rows = pd.DataFrame(steady, columns=["clock", "path"])
    table = pd.concat([table, rows.assign(requests=STEADY, bandwidth_gb_per_s=found)])
    return table[["clock", "path", "requests", "bandwidth_gb_per_s"]]


def peaks(table: pd.DataFrame, clock: str) -> dict[str, float]:
    """Bandwidth by path in steady state."""
    part = table[(table.clock == clock) & (table.requests == STEADY)]
    bandwidth = dict(zip(part.path, part.bandwidth_gb_per_s, strict=True))
    return {path: bandwidth[path] for path in PAPER}


def claims(table: pd.DataFrame) -> list[Claim]:
    """Bandwidths, their shares of the peak, and the number of loads at which they settle."""
    fpga = peaks(table, FPGA)
    found = [
        Claim(
            f"{path}: bandwidth, GB/s",
            value,
            fpga[path],
            KIND[path],
            PAPER_ERROR,
            section="VI-C2" if path == DMA else "VI-C1",
            quote=QUOTE[path],
        )
        for path, value in PAPER.items()
    ]
    found += [
        Claim(
            f"{path}: share of 25.6 GB/s, %",
            share,
            100 * fpga[path] / PEAK,
            derived(f"fig15: {path}: bandwidth, GB/s"),
            PAPER_ERROR,
            section="VI-C1",
            quote=quote,
        )
        for path, share, quote in (
            (HMC, 97.7, "achieve 97.7% of the theoretical bandwidth"),
            (LLC, 55.0, "LLC and memory hits reach only 55% and 52.7% of the peak bandwidth"),
            (MEMORY, 52.7, "LLC and memory hits reach only 55% and 52.7% of the peak bandwidth"),
        )
    ]
    transient = table[table.clock == FPGA].set_index(["path", "requests"]).bandwidth_gb_per_s
    return [
        *found,
        *(
            Claim(
                f"{path}: 512 loads over 2,048",
                1.0,
                float(transient[path, 512] / transient[path, common.BANDWIDTH_LINES]),
                PREDICTED,
                PAPER_ERROR,
                section="VI-C1",
                quote="when the request count exceeds 512 (totaling 32 KB), the bandwidths for "
                "HMC hit, LLC hit, and memory hit all converge",
                why=tested(
                    "a repeat here includes the latency of its first load: 512 loads at one each "
                    "4.539 ns take 2.3 us, beside 0.6 us of latency; in steady state it does not"
                ),
            )
            for path in TIERS
        ),
        *(
            Claim(
                f"{path}: 2,048 loads with the latency of the first, GB/s",
                PAPER[path],
                float(transient[path, common.BANDWIDTH_LINES]),
                shown("a check beside the steady state, which is what is calibrated"),
            )
            for path in TIERS
        ),
    ]


def draw(table: pd.DataFrame) -> Drawing:
    """Bars, and bandwidth with few loads."""
    figure, (left, right) = plt.subplots(
        1, 2, figsize=(9.5, 3.6), width_ratios=[3, 2], layout="constrained"
    )
    common.clock_bars(left, lambda clock: peaks(table, clock), PAPER, "%.3g")
    left.set(ylabel="bandwidth (GB/s)", title="in steady state")
    left.legend(fontsize=8)
    for tier, colour in _COLOURS.items():
        part = table[(table.clock == FPGA) & (table.path == tier) & (table.requests != STEADY)]
        right.plot(part.requests, part.bandwidth_gb_per_s, "o-", color=colour, label=tier)
    right.set_xscale("log", base=2)
    right.set_xticks(COUNTS, [str(count) for count in COUNTS])
    right.set(xlabel="loads of a repeat", title="400 MHz, with the first loads", ylim=(0, None))
    right.legend(fontsize=8)
    figure.suptitle("Bandwidth of loads by CXL.cache, and of DMA (Cohet Fig. 15)")
    return figure


FIGURE = Figure("fig15", "bandwidth of loads by where the line is", collect, claims, draw)
