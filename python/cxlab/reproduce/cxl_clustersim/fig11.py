"""Six nodes with one graph in the blade: the share of memory instructions that access it."""

import pandas as pd
from matplotlib import pyplot as plt
from matplotlib.figure import Figure as Drawing

from cxlab.reproduce import Claim, Figure, Settings
from cxlab.reproduce.common import BLUE, ORANGE
from cxlab.reproduce.cxl_clustersim import sharing
from cxlab.reproduce.ledger import PREDICTED, hypothesis, printed, shown

WHY_GRAPH = hypothesis(
    "the paper's instructions have the stack and what compilers spill among them, which the "
    "kernels here do not have; or it counts those whose line a cache has elsewhere"
)
WHY_BLADE = hypothesis("caches and graph are a 64th here, so their hit rates differ")


def collect(settings: Settings) -> pd.DataFrame:
    """Shares of a kernel's memory instructions, and of those that miss all caches, in percent."""
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
    """The paper's mean, under both readings of "served from"."""
    mean = table.mean(numeric_only=True)
    kernels = table.on_graph_percent
    return [
        *(
            Claim(
                f"memory instructions {text}, mean of six kernels, %",
                31.8,
                float(ours),
                PREDICTED,
                printed(0.1),
                section="4.4",
                quote="On average, 31.8% of the total memory instructions are served from the "
                "shared remote memory node",
                why=why,
            )
            for text, ours, why in (
                ("on the shared graph", mean.on_graph_percent, WHY_GRAPH),
                ("that waited for the blade", mean.from_blade_percent, WHY_BLADE),
            )
        ),
        Claim(
            "of those that no cache answered, from the blade, %",
            "no number",
            float(mean.missed_from_blade_percent),
            shown("no number"),
        ),
        Claim(
            "the share differs from kernel to kernel: largest over smallest",
            "no number",
            float(kernels.max() / kernels.min()),
            shown("no number"),
            section="4.4",
            quote="The split is kernel-dependent",
        ),
    ]


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
