"""Latency against bandwidth for decreasing issue intervals. Not a figure of the paper."""

import pandas as pd
from matplotlib import pyplot as plt
from matplotlib.figure import Figure as Drawing

from cxlab.reproduce import Claim, Figure, Settings
from cxlab.reproduce.esf.common import BLUE, GREEN, RED, scenario

MIXES = {"reads": (1.0, BLUE), "2:1": (2 / 3, GREEN), "writes": (0.0, RED)}
INTERVALS = (
    100,
    50,
    20,
    10,
    7,
    5,
    4,
    3.5,
    3,
    2.8,
    2.75,
    2.7,
    2.65,
    2.6,
    2.55,
    2.5,
    2.45,
    2.4,
    2.2,
    2,
    1.9,
    1.8,
    1.75,
    1.7,
    1.65,
    1.6,
    1.5,
    1,
)


def collect(settings: Settings) -> pd.DataFrame:
    """Runs every mix at every interval."""
    cases = [(mix, interval) for mix in MIXES for interval in INTERVALS]
    scenarios = [
        scenario(
            "loaded-latency",
            {
                "hosts[0].workload.read_ratio": MIXES[mix][0],
                "hosts[0].issue.issue_interval": f"{interval} ns",
            },
        )
        for mix, interval in cases
    ]
    return pd.DataFrame(
        [
            {
                "mix": mix,
                "issue_interval_ns": interval,
                "bandwidth_gb_per_s": result.report["bandwidth_gb_per_s"]["total"],
                "mean_ns": result.report["latency_ns"]["mean"],
                "p99_ns": result.report["latency_ns"]["p99"],
            }
            for (mix, interval), result in zip(
                cases, settings.run("loaded-latency", scenarios), strict=True
            )
        ]
    )


def claims(_: pd.DataFrame) -> list[Claim]:
    """The paper has no number to compare with."""
    return []


def draw(table: pd.DataFrame) -> Drawing:
    """Latency over bandwidth."""
    figure, axes = plt.subplots(figsize=(6, 4))
    for mix, (_, colour) in MIXES.items():
        part = table[table.mix == mix]
        axes.plot(part.bandwidth_gb_per_s, part.mean_ns, ".-", color=colour, label=f"{mix}, mean")
        axes.plot(part.bandwidth_gb_per_s, part.p99_ns, ":", color=colour, label=f"{mix}, 99 %")
    axes.set(
        xlabel="bandwidth, GB/s",
        ylabel="latency, ns",
        ylim=(0, None),
        title="Loaded latency: PCIe 5.0 x8, one switch, four devices",
    )
    axes.legend(loc="upper left")
    return figure


FIGURE = Figure("loaded-latency", "latency against bandwidth", collect, claims, draw)
