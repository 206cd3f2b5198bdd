"""Section 4.1: what linear reads get of four channels of DDR4-2400."""

import pandas as pd
from matplotlib import pyplot as plt
from matplotlib.figure import Figure as Drawing

from cxlab._scenario import Scenario
from cxlab.reproduce import Claim, Figure, Settings
from cxlab.reproduce.common import BLUE
from cxlab.reproduce.cxl_clustersim.common import DATA

#: Peak of four channels, GB/s.
PEAK = 76.8
#: Columns below banks, as gem5 and DRAMsim3 map addresses; and spread by exclusive or, as servers.
MAPPINGS = {"columns first": "RoBaRaCoCh", "hashed": "MOP4CLXOR"}


def collect(settings: Settings) -> pd.DataFrame:
    """Bandwidth by mapping of addresses."""

    def scenario(mapping: str) -> Scenario:
        linear = Scenario.from_file(DATA / "linear.toml")
        return linear.update({"devices[0].memory.mapping": mapping})

    results = settings.run("calibration", [scenario(name) for name in MAPPINGS.values()])
    found = [result.report["bandwidth_gbps"]["total"] for result in results]
    return pd.DataFrame({"mapping": list(MAPPINGS), "bandwidth_gbps": found}).assign(
        percent_of_peak=lambda table: 100 * table.bandwidth_gbps / PEAK
    )


def claims(table: pd.DataFrame) -> list[Claim]:
    """77.5 %, within 3 points."""
    percent = table.set_index("mapping").percent_of_peak
    return [
        Claim(f"linear reads, % of peak, {name}", 77.5, float(percent[name]), tolerance)
        for name, tolerance in (("columns first", 3 / 77.5), ("hashed", None))
    ]


def draw(table: pd.DataFrame) -> Drawing:
    """Bars."""
    figure, axes = plt.subplots(figsize=(4.5, 3.2), layout="constrained")
    bars = axes.bar(table.mapping, table.bandwidth_gbps, color=BLUE, width=0.5)
    axes.bar_label(bars, [f"{percent:.1f} %" for percent in table.percent_of_peak])
    axes.axhline(PEAK, color="black", linewidth=0.8, label="peak")
    axes.axhline(59.6, color="black", linewidth=0.8, linestyle=":", label="paper: 77.5 %")
    axes.set(ylabel="linear reads (GB/s)", title="Four channels of DDR4-2400 (section 4.1)")
    axes.set_ylim(0, 1.35 * PEAK)
    axes.legend(fontsize=7)
    return figure


FIGURE = Figure("calibration", "linear reads of the remote memory", collect, claims, draw)
