"""Viper with records of 532 B: operations per second by device and cache policy."""

import math

import pandas as pd
from matplotlib.figure import Figure as Drawing

from cxlab.reproduce import Claim, Figure, Settings
from cxlab.reproduce.cxl_ssd_sim import viper
from cxlab.reproduce.cxl_ssd_sim.common import CACHED, DEVICES, DRAM, PMEM
from cxlab.reproduce.cxl_ssd_sim.viper import qps, ratio


def collect(settings: Settings) -> pd.DataFrame:
    """Operations per second of every case; those of 216 B beside the devices'."""
    large = viper.collect(settings, "fig6", 532)
    small = viper.collect(settings, "fig6", 216)
    names = ["device", *viper.BASE, "operation"]
    return large.merge(small.rename(columns={"qps": "qps_216"}), on=names, validate="1:1")


def claims(table: pd.DataFrame) -> list[Claim]:
    """Devices, sizes, and policies."""
    dram, pmem, cached = (qps(table, name) for name in (DRAM, PMEM, CACHED))
    found = [
        Claim(
            f"records of 216 B over 532 B, {device}, mean",
            (1.0, math.inf),
            ratio(_small(table, device), qps(table, device)),
            0.0,
        )
        for device in DEVICES
    ]
    found += [
        Claim(
            f"PMEM over DRAM, {operation}",
            0.5,
            float(pmem[operation] / dram[operation]),
            0.2,
        )
        for operation in ("update", "delete")
    ]
    found.append(
        Claim("CXL-SSD with LRU cache behind PMEM, mean", (0.2, 0.3), 1 - ratio(cached, pmem), 0.0)
    )
    return found + viper.policy_claims(table)


def _small(table: pd.DataFrame, device: str) -> pd.Series:
    return qps(table.assign(qps=table.qps_216), device)


def draw(table: pd.DataFrame) -> Drawing:
    """Bars, and what they depend on."""
    return viper.draw(table, "Viper, records of 532 B (CXL-SSD-Sim Fig. 6)")


FIGURE = Figure("fig6", "Viper by device and cache policy, 532 B", collect, claims, draw)
