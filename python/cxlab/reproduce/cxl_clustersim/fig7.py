"""Four nodes, STREAM in the pool, by latency added to their way there and back."""

import pandas as pd
from matplotlib import pyplot as plt
from matplotlib.figure import Figure as Drawing

from cxlab._scenario import Scenario
from cxlab._types import Value
from cxlab.reproduce import Claim, Figure, Settings
from cxlab.reproduce.common import BLUE, ORANGE
from cxlab.reproduce.cxl_clustersim import common
from cxlab.reproduce.cxl_clustersim.common import LOOPS, REMOTE, ROOT_PORT

NODES = 4
#: Latency added to a round trip, ns.
LATENCIES = (0, 85, 170, 250, 350, 500)
#: The same window of lines by half: what a core with half of gem5's queues would have.
MISSES = (8, 4)


def collect(settings: Settings) -> pd.DataFrame:
    """Bandwidth of the pool, mean over the loops, by lines under way of a core."""
    cases: list[tuple[dict[str, Value], Scenario]] = [
        (
            {"misses": misses, "added_ns": added, "loop": loop},
            common.scenario(
                NODES,
                REMOTE,
                loop,
                {
                    "hosts[0].processor.misses": misses,
                    "hosts[0].processor.root_port_time": f"{ROOT_PORT + added / 2} ns",
                },
            ),
        )
        for misses in MISSES
        for added in LATENCIES
        for loop in LOOPS
    ]
    table = common.collect(settings, "fig7", cases)
    means = table.groupby(["misses", "added_ns"], sort=False).remote_gibps.mean().reset_index()
    first = means.groupby("misses").remote_gibps.transform("first")
    return means.assign(change_percent=100 * (means.remote_gibps / first - 1))


def claims(table: pd.DataFrame) -> list[Claim]:
    """Loss against no latency."""
    loss = -table.set_index(["misses", "added_ns"]).change_percent
    found = [
        Claim(
            f"loss at {added} ns, %, {misses} lines a core",
            paper,
            float(loss[misses, added]),
            0.1 if misses == MISSES[0] else None,
        )
        for misses in MISSES
        for added, paper in ((170, 8.95), (250, 29.0))
    ]
    falls = table[table.misses == MISSES[0]].remote_gibps.is_monotonic_decreasing
    found.append(Claim("more latency never gives more bandwidth", 1.0, float(falls), 0.0))
    return found


def draw(table: pd.DataFrame) -> Drawing:
    """Curves, and the paper's two points."""
    figure, axes = plt.subplots(figsize=(5.5, 3.4), layout="constrained")
    for misses, colour in zip(MISSES, (BLUE, ORANGE), strict=True):
        part = table[table.misses == misses]
        label = f"{misses} lines under way of a core"
        axes.plot(part.added_ns, part.change_percent, "o-", color=colour, label=label)
    axes.plot([0, 170, 250], [0, -8.95, -29], "k:s", label="paper")
    axes.set(xlabel="latency added to a round trip (ns)", ylabel="bandwidth of the pool (%)")
    axes.set(title="STREAM in the pool, four nodes (CXL-ClusterSim Fig. 7)")
    axes.legend(fontsize=7)
    return figure


FIGURE = Figure("fig7", "latency of the way to the pool", collect, claims, draw)
