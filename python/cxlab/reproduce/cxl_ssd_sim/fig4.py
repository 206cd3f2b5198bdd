"""Latency of random reads of the five devices: a chain of loads through 8 MB."""

import pandas as pd
from matplotlib import pyplot as plt
from matplotlib.figure import Figure as Drawing

from cxlab._types import Value
from cxlab.reproduce import Claim, Figure, Settings
from cxlab.reproduce.cxl_ssd_sim import common
from cxlab.reproduce.cxl_ssd_sim.common import (
    CACHED,
    CXL_DRAM,
    DEVICES,
    PMEM,
    SIMILAR,
    UNCACHED,
)
from cxlab.reproduce.ledger import PREDICTED, hypothesis, shown, tested

WORKLOAD: dict[str, Value] = {"kind": "random-read", "footprint": "8 MiB", "reads": 20_000}


def collect(settings: Settings) -> pd.DataFrame:
    """Mean time of a load by device, including hits in the core's caches."""
    table = common.collect(
        settings,
        "fig4",
        [({"device": device}, common.scenario(device, WORKLOAD)) for device in DEVICES],
    )
    return table[table.phase == "read"][["device", "load_latency_ns"]]


def claims(table: pd.DataFrame) -> list[Claim]:
    """Ratios of latencies."""
    latency = table.set_index("device").load_latency_ns
    quote = "CXL-SSD exhibit performance on par with CXL-DRAM and PMEM"
    return [
        *(
            Claim(
                f"cached CXL-SSD over {device}",
                1.0,
                float(latency[CACHED] / latency[device]),
                PREDICTED,
                SIMILAR,
                section="III-B",
                quote=quote,
                why=why,
            )
            for device, why in (
                (
                    CXL_DRAM,
                    hypothesis("random reads close rows of the DRAM, and the cache has 50 ns flat"),
                ),
                (
                    PMEM,
                    tested(
                        "150 ns and a controller are more than 50 ns of network and 50 ns of "
                        "cache: the paper's own numbers differ"
                    ),
                ),
            )
        ),
        Claim(
            "CXL-SSD without over with cache",
            "much longer",
            float(latency[UNCACHED] / latency[CACHED]),
            shown("no number, and flash is hundreds of times slower by its parameters"),
            section="III-B",
            quote="the average latency of SSD operations is excessively high, resulting in "
            "significantly longer delays",
        ),
    ]


def draw(table: pd.DataFrame) -> Drawing:
    """Bars."""
    figure, axes = plt.subplots(figsize=(5.5, 3.4), layout="constrained")
    bars = axes.bar(table.device, table.load_latency_ns, color=list(DEVICES.values()))
    axes.bar_label(bars, fmt="{:,.0f}")
    axes.set_yscale("log")
    axes.set(ylabel="mean time of a load (ns)", title="Random reads, 8 MB (CXL-SSD-Sim Fig. 4)")
    axes.set_ylim(10, 4 * table.load_latency_ns.max())
    return figure


FIGURE = Figure("fig4", "latency of random reads of the five devices", collect, claims, draw)
