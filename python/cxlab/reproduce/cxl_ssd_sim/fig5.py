"""Viper with records of 216 B: operations per second by device and cache policy."""

import statistics

import pandas as pd
from matplotlib.figure import Figure as Drawing

from cxlab.reproduce import Claim, Figure, Settings
from cxlab.reproduce.cxl_ssd_sim import viper
from cxlab.reproduce.cxl_ssd_sim.common import CACHED, CXL_DRAM, SIMILAR, UNCACHED
from cxlab.reproduce.cxl_ssd_sim.viper import qps, ratio
from cxlab.reproduce.ledger import PREDICTED, hypothesis, printed, tested


def collect(settings: Settings) -> pd.DataFrame:
    """Operations per second of every case."""
    return viper.collect(settings, "fig5", 216)


def claims(table: pd.DataFrame) -> list[Claim]:
    """Devices, with and without cache, and policies."""
    found = []
    for misses, beside in viper.in_flight(table):
        found += viper.loss_claims(table, viper.WORK[0], misses, beside)
        cached, uncached, far = (
            qps(table, name, misses=misses) for name in (CACHED, UNCACHED, CXL_DRAM)
        )
        found += _cache_claims(cached / uncached, f"mlc{beside}")
        # Pages of these operations are in the cache. Those of the others come from the flash first.
        hot = ["query", "update", "delete"]
        found.append(
            Claim(
                f"CXL-SSD with LRU cache over CXL-DRAM when hot, query, update, delete{beside}",
                1.0,
                ratio(cached[hot], far[hot]),
                PREDICTED,
                SIMILAR,
                section="II-C",
                quote="If the L2 cache hits the DRAM cache, CXL-SSD-Sim achieves latency close to "
                "CXL-based DRAM",
                why=hypothesis("the cache has 50 ns flat, and CXL-DRAM open and closed rows"),
            )
        )
    for flash in viper.OTHER_FLASH:
        cached, uncached = (qps(table, name, flash=flash) for name in (CACHED, UNCACHED))
        reason = "another flash than the base scenario's"
        found += [claim.unjudged(reason) for claim in _cache_claims(cached / uncached, flash)]
    for cycles in viper.WORK[1:]:
        found += viper.loss_claims(table, cycles)
    return found + viper.policy_claims(table)


def _cache_claims(gain: "pd.Series[float]", flash: str) -> list[Claim]:
    """Gain by the cache, by operation. The mean over all five is shown."""
    found = [
        Claim(
            f"CXL-SSD with LRU cache over without, {name}, {flash}",
            (7.0, 10.0),
            value,
            PREDICTED,
            printed(1),
            section="III-C",
            quote="CXL-SSD with LRU cache outperforms its non-cached version by 7 to 10 times on "
            "average",
            why=tested(
                "it is the latency of the flash and what the drive's own buffer answers, and the "
                "paper gives neither: with a buffer that reads look into the gain is 1.0 to 1.9, "
                "with Z-NAND 1.5 to 54"
            ),
        )
        for name, value in (
            *((operation, float(gain[operation])) for operation in viper.OPERATIONS),
            (viper.MEAN, statistics.geometric_mean(gain)),
        )
    ]
    found[-1] = found[-1].unjudged(viper.NO_MEAN)
    return found


def draw(table: pd.DataFrame) -> Drawing:
    """Draws bars, and the parameters on which they depend."""
    return viper.draw(table, "Viper, records of 216 B (CXL-SSD-Sim Fig. 5)")


FIGURE = Figure("fig5", "Viper by device and cache policy, 216 B", collect, claims, draw)
