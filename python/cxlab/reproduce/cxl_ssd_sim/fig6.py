"""Viper with records of 532 B: operations per second by device and cache policy."""

import math

import pandas as pd
from matplotlib.figure import Figure as Drawing

from cxlab.reproduce import Claim, Figure, Settings
from cxlab.reproduce.cxl_ssd_sim import viper
from cxlab.reproduce.cxl_ssd_sim.common import CACHED, DEVICES, DRAM, PMEM
from cxlab.reproduce.cxl_ssd_sim.viper import qps, ratio
from cxlab.reproduce.ledger import PREDICTED, printed, tested, words


def collect(settings: Settings) -> pd.DataFrame:
    """Operations per second of every case. For devices, also with 216 B."""
    large = viper.collect(settings, "fig6", 532)
    small = viper.collect(settings, "fig6", 216)
    names = ["device", *viper.BASE, "operation"]
    return large.merge(small.rename(columns={"qps": "qps_216"}), on=names, validate="1:1")


def claims(table: pd.DataFrame) -> list[Claim]:
    """Devices, sizes, and policies, with either number of misses in flight."""
    found = []
    for misses, beside in viper.in_flight(table):
        found += _claims(table, misses, beside)
    return found + viper.policy_claims(table)


def _claims(table: pd.DataFrame, misses: int, beside: str) -> list[Claim]:
    dram, pmem, cached = (qps(table, name, misses=misses) for name in (DRAM, PMEM, CACHED))
    found = [
        Claim(
            f"records of 216 B over 532 B, mean, least of five devices{beside}",
            (1.0, math.inf),
            min(
                ratio(_small(table, device, misses), qps(table, device, misses=misses))
                for device in DEVICES
            ),
            PREDICTED,
            words("an order"),
            section="III-C",
            quote="the performance (QPS) decreases as data size increases",
        )
    ]
    found += [
        Claim(
            f"PMEM over DRAM, {operation}{beside}",
            0.5,
            float(pmem[operation] / dram[operation]),
            PREDICTED,
            printed(0.01),
            section="III-C",
            quote="PMEM's update and delete operations achieve 50% of DRAM's speed",
            why=tested(
                "a write takes its bank for 500 ns, for which reads wait: with 20 ns instead they "
                "reach 0.53 and 0.51"
            ),
        )
        for operation in ("update", "delete")
    ]
    behind = 1 - cached / pmem
    claims = [
        Claim(
            f"CXL-SSD with LRU cache behind PMEM, {name}{beside}",
            (0.2, 0.3),
            value,
            PREDICTED,
            printed(0.01),
            section="III-C",
            quote="leading to a 20-30% degradation in QPS compared to PMEM",
            why=tested(
                "writes and inserts fetch each page from flash before its first line is written; "
                'on a drive that knows that the page was never written (unwritten = "zero") all '
                "five are ahead of PMEM"
            ),
        )
        for name, value in (
            *((operation, float(behind[operation])) for operation in viper.OPERATIONS),
            (viper.MEAN, 1 - ratio(cached, pmem)),
        )
    ]
    claims[-1] = claims[-1].unjudged(viper.NO_MEAN)
    found += claims
    return found


def _small(table: pd.DataFrame, device: str, misses: int) -> pd.Series:
    return qps(table.assign(qps=table.qps_216), device, misses=misses)


def draw(table: pd.DataFrame) -> Drawing:
    """Draws bars, and the parameters on which they depend."""
    return viper.draw(table, "Viper, records of 532 B (CXL-SSD-Sim Fig. 6)")


FIGURE = Figure("fig6", "Viper by device and cache policy, 532 B", collect, claims, draw)
