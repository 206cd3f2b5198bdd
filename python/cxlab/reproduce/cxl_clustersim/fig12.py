"""Six nodes with one graph in the blade: IPC against a graph in each node's own memory."""

import math

import pandas as pd
from matplotlib import pyplot as plt
from matplotlib.figure import Figure as Drawing

from cxlab.reproduce import Claim, Figure, Settings
from cxlab.reproduce.common import BLUE, GREEN, ORANGE
from cxlab.reproduce.cxl_clustersim import sharing
from cxlab.reproduce.cxl_clustersim.sharing import ADDED
from cxlab.reproduce.ledger import PREDICTED, hypothesis, shown, words

#: Kernels that the paper names as those with the largest loss.
CHASING = {"bfs", "pr"}


def collect(settings: Settings) -> pd.DataFrame:
    """Relative IPC by kernel and added latency, and the geometric mean."""
    table = sharing.collect(settings, "fig12", sharing.LATENCIES)
    own = table[table.memory == "private"].set_index("kernel")
    shared = table[table.memory == "together"]
    rows = shared.assign(
        relative_ipc=shared.ipc / shared.kernel.map(own.ipc),
        relative_time=shared.time_us / shared.kernel.map(own.time_us),
    )[["added_ns", "kernel", "relative_ipc", "relative_time"]]
    values = rows.set_index(["added_ns", "kernel"])
    means = values.map(math.log).groupby("added_ns").mean().map(math.exp)
    means = means.reset_index().assign(kernel="geomean")
    return pd.concat([rows, means], ignore_index=True)


def claims(table: pd.DataFrame) -> list[Claim]:
    """The paper's words: all lose, pointer-chasing kernels most, and more with a higher latency."""
    ipc = table.set_index(["added_ns", "kernel"]).relative_ipc
    here = ipc[ADDED].drop("geomean")
    worst = set(here.nsmallest(len(CHASING)).index)
    falls = all(ipc.xs(kernel, level="kernel").is_monotonic_decreasing for kernel in here.index)
    found = [
        Claim(
            "kernels that lose, of six",
            6.0,
            float((here < 1).sum()),
            PREDICTED,
            words("all"),
            section="4.4",
            quote="moving the graph to the shared remote memory node reduces IPC relative to the "
            "baseline",
        ),
        Claim(
            "more latency costs every kernel more (1: yes)",
            1.0,
            float(falls),
            PREDICTED,
            words("an order"),
            section="4.4",
            quote="Increasing the injected CXL latency will further degrade performance",
        ),
        Claim(
            "bfs and pr lose most (1: yes)",
            1.0,
            float(worst == CHASING),
            PREDICTED,
            words("names"),
            section="4.4",
            quote="Kernels with more irregular, pointer-chasing access patterns (bfs, pr) tend to "
            "be more sensitive",
            why=hypothesis(
                "cc-sv goes through all edges several times and does little else; cc and tc find "
                "most lines in caches"
            ),
        ),
        Claim(
            "relative IPC, geometric mean",
            "no number",
            float(ipc[ADDED, "geomean"]),
            shown("bars only"),
        ),
    ]
    found += [
        Claim(f"relative IPC, {kernel}", "no number", float(here[kernel]), shown("bars only"))
        for kernel in here.index
    ]
    return found


def draw(table: pd.DataFrame) -> Drawing:
    """Groups of bars."""
    figure, axes = plt.subplots(figsize=(6, 3.4), layout="constrained")
    kernels = list(table.kernel.unique())
    for number, (added, colour) in enumerate(
        zip(sharing.LATENCIES, (GREEN, BLUE, ORANGE), strict=True)
    ):
        part = table[table.added_ns == added].set_index("kernel").relative_ipc[kernels]
        places = [at + 0.27 * (number - 1) for at in range(len(kernels))]
        axes.bar(places, part, 0.27, color=colour, label=f"{added} ns added")
    axes.axhline(1, color="black", linewidth=0.8)
    axes.set_xticks(range(len(kernels)), kernels)
    axes.set(ylabel="IPC, relative to memory of its own")
    axes.set_title("One graph, six nodes (CXL-ClusterSim Fig. 12)")
    axes.set_ylim(0, 1.35)
    axes.legend(fontsize=7, ncols=3)
    return figure


FIGURE = Figure("fig12", "six graph kernels: the price of sharing", collect, claims, draw)
