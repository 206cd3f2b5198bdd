"""Viper with records of 216 B: operations per second by device and cache policy."""

import statistics

import pandas as pd
from matplotlib.figure import Figure as Drawing

from cxlab.reproduce import Claim, Figure, Settings
from cxlab.reproduce.cxl_ssd_sim import viper
from cxlab.reproduce.cxl_ssd_sim.common import CACHED, CXL_DRAM, SIMILAR, UNCACHED
from cxlab.reproduce.cxl_ssd_sim.viper import qps, ratio
from cxlab.reproduce.ledger import PREDICTED, hypothesis, printed


def collect(settings: Settings) -> pd.DataFrame:
    """Operations per second of every case."""
    return viper.collect(settings, "fig5", 216)


def claims(table: pd.DataFrame) -> list[Claim]:
    """Devices, with and without cache, and policies."""
    found = viper.loss_claims(table, viper.WORK[0])
    for flash in ("mlc", *viper.OTHER_FLASH):
        cached, uncached = (qps(table, name, flash=flash) for name in (CACHED, UNCACHED))
        made = _cache_claims(cached / uncached, flash)
        if flash != "mlc":
            made = [claim.unjudged("another flash than the base scenario's") for claim in made]
        found += made
    # Their pages are in the cache; those of the others come from the flash first.
    hot = ["query", "update", "delete"]
    found.append(
        Claim(
            "CXL-SSD with LRU cache over CXL-DRAM when hot, mean of query, update, delete",
            1.0,
            ratio(qps(table, CACHED)[hot], qps(table, CXL_DRAM)[hot]),
            PREDICTED,
            SIMILAR,
            section="II-C",
            quote="If the L2 cache hits the DRAM cache, CXL-SSD-Sim achieves latency close to "
            "CXL-based DRAM",
        )
    )
    for cycles in viper.WORK[1:]:
        found += viper.loss_claims(table, cycles)
    return found + viper.policy_claims(table)


def _cache_claims(gain: "pd.Series[float]", flash: str) -> list[Claim]:
    """What the cache is worth, by operation and in the mean over all five."""
    return [
        Claim(
            f"CXL-SSD with LRU cache over without, {name}, {flash}",
            (7.0, 10.0),
            value,
            PREDICTED,
            printed(1),
            section="III-C",
            quote="CXL-SSD with LRU cache outperforms its non-cached version by 7 to 10 times on "
            "average",
            why=hypothesis(
                "the latency of the flash, which the paper does not give, and how many of an "
                "operation's accesses miss the cache"
            ),
        )
        for name, value in (
            *((operation, float(gain[operation])) for operation in viper.OPERATIONS),
            ("mean of five operations", statistics.geometric_mean(gain)),
        )
    ]


def draw(table: pd.DataFrame) -> Drawing:
    """Bars, and what they depend on."""
    return viper.draw(table, "Viper, records of 216 B (CXL-SSD-Sim Fig. 5)")


FIGURE = Figure("fig5", "Viper by device and cache policy, 216 B", collect, claims, draw)
