"""Viper with records of 216 B: operations per second by device and cache policy."""

import pandas as pd
from matplotlib.figure import Figure as Drawing

from cxlab.reproduce import Claim, Figure, Settings
from cxlab.reproduce.cxl_ssd_sim import viper
from cxlab.reproduce.cxl_ssd_sim.common import CACHED, CXL_DRAM, UNCACHED
from cxlab.reproduce.cxl_ssd_sim.viper import qps, ratio


def collect(settings: Settings) -> pd.DataFrame:
    """Operations per second of every case."""
    return viper.collect(settings, "fig5", 216)


def claims(table: pd.DataFrame) -> list[Claim]:
    """Devices, with and without cache, and policies."""
    found = viper.loss_claims(table, viper.WORK[0])
    for flash in ("mlc", *viper.OTHER_FLASH):
        cached, uncached = (qps(table, name, flash=flash) for name in (CACHED, UNCACHED))
        found.append(
            Claim(
                f"CXL-SSD with LRU cache over without, mean, {flash}",
                (7.0, 10.0),
                ratio(cached, uncached),
                0.0 if flash == "mlc" else None,
            )
        )
    # Their pages are in the cache; those of the others come from the flash first.
    hot = ["query", "update", "delete"]
    found.append(
        Claim(
            "CXL-SSD with LRU cache over CXL-DRAM when hot, mean of query, update, delete",
            1.0,
            ratio(qps(table, CACHED)[hot], qps(table, CXL_DRAM)[hot]),
            0.15,
        )
    )
    for cycles in viper.WORK[1:]:
        found += viper.loss_claims(table, cycles)
    return found + viper.policy_claims(table)


def draw(table: pd.DataFrame) -> Drawing:
    """Bars, and what they depend on."""
    return viper.draw(table, "Viper, records of 216 B (CXL-SSD-Sim Fig. 5)")


FIGURE = Figure("fig5", "Viper by device and cache policy, 216 B", collect, claims, draw)
