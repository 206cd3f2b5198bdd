"""Six nodes, one graph in the blade: how many memory instructions are on it."""

import pandas as pd
from matplotlib import pyplot as plt
from matplotlib.figure import Figure as Drawing

from cxlab.reproduce import Claim, Figure, Settings
from cxlab.reproduce.common import BLUE, ORANGE
from cxlab.reproduce.cxl_clustersim import sharing


def collect(settings: Settings) -> pd.DataFrame:
    """Shares of a kernel's memory instructions, and of those that no cache answered, in percent."""
    table = sharing.collect(settings, "fig11", (sharing.ADDED,))
    table = table[table.memory == "together"].reset_index(drop=True)
    missed = table.from_own + table.from_blade
    return table.assign(
        on_graph_percent=100 * table.on_graph / table.on_memory,
        from_blade_percent=100 * table.from_blade / table.on_memory,
        from_own_percent=100 * table.from_own / table.on_memory,
        missed_from_blade_percent=100 * table.from_blade / missed,
    )[
        [
            "kernel",
            "on_graph_percent",
            "from_blade_percent",
            "from_own_percent",
            "missed_from_blade_percent",
        ]
    ]


def claims(table: pd.DataFrame) -> list[Claim]:
    """The paper's mean, as "served from" the blade may be read; its figure has no numbers."""
    mean = table.mean(numeric_only=True)
    text = "memory instructions on the shared graph, mean of six kernels, %"
    found = [Claim(text, 31.8, float(mean.on_graph_percent), 0.1)]
    text = "memory instructions that waited for the blade, mean of six kernels, %"
    found.append(Claim(text, 31.8, float(mean.from_blade_percent), 0.1))
    shown = {
        "of those that no cache answered, from the blade, %": mean.missed_from_blade_percent,
    }
    found += [Claim(text, "no number", float(value), None) for text, value in shown.items()]
    kernels = table.on_graph_percent
    text = "the share differs from kernel to kernel: largest over smallest"
    found.append(Claim(text, "kernel-dependent", float(kernels.max() / kernels.min()), None))
    return found


def draw(table: pd.DataFrame) -> Drawing:
    """Bars, and the paper's mean."""
    figure, axes = plt.subplots(figsize=(5.5, 3.4), layout="constrained")
    places = range(len(table))
    axes.bar(places, table.on_graph_percent, 0.6, color=ORANGE, label="on the shared graph")
    rest = 100 - table.on_graph_percent
    axes.bar(places, rest, 0.6, bottom=table.on_graph_percent, color=BLUE, label="on local memory")
    axes.axhline(31.8, color="black", linewidth=0.8, linestyle=":", label="paper: mean")
    mean = table.on_graph_percent.mean()
    axes.axhline(mean, color="black", linewidth=0.8, label="mean")
    axes.set_xticks(places, table.kernel)
    axes.set(ylabel="memory instructions (%)")
    axes.set_title("One graph, six nodes (CXL-ClusterSim Fig. 11)")
    axes.set_ylim(0, 135)
    axes.legend(fontsize=7, ncols=2, loc="upper center")
    return figure


FIGURE = Figure("fig11", "six graph kernels: what lies in the blade", collect, claims, draw)
