"""Causes of the lower bandwidth of memory than of the last-level cache, in steady state.

One home agent serves both. Each row changes one thing that could differ between them. The paper
says that bandwidth hardly varies across nodes, which decides between the causes.
"""

import pandas as pd
from matplotlib import pyplot as plt
from matplotlib.figure import Figure as Drawing

from cxlab._types import Value
from cxlab.reproduce import Claim, Figure, Settings
from cxlab.reproduce.cohet import common, fig15
from cxlab.reproduce.cohet.common import BLUE, FPGA, GREEN, LLC, MEMORY, ORANGE
from cxlab.reproduce.ledger import shown

BESIDE = shown("one cause at a time; Fig. 15 judges what is calibrated")

#: The nearest node and the farthest.
NODES = (common.NODES[0], common.NODES[-1])
_REQUESTS = "accelerators[0].device.cache.misses"


def _memory(**given: Value) -> dict[str, Value]:
    return {
        f"hosts[0].nodes[{common.NODES.index(node)}].memory": {
            "kind": "dram",
            "channels": 4,
            **given,
        }
        for node in NODES
    }


#: Possible causes, by name.
CAUSES: dict[str, dict[str, Value]] = {
    "as calibrated: 184 requests of the device": {},
    "no refresh": _memory(refresh="none"),
    "512 requests": {_REQUESTS: 512},
    "512 requests, one subchannel": {_REQUESTS: 512, **_memory(channels=1)},
    "512 requests, 23 MSHRs of the home agent": {
        _REQUESTS: 512,
        "hosts[0].processor.llc.misses": 23,
    },
    "184 requests, one subchannel": _memory(channels=1),
}


def collect(settings: Settings) -> pd.DataFrame:
    """Bandwidth from the last-level cache and from two nodes, GB/s."""
    cases = [(LLC, common.NEAREST), *((MEMORY, node) for node in NODES)]
    rows = []
    for name, changes in CAUSES.items():
        found = common.steady_bandwidth(
            settings, f"steady, {name}", [(FPGA, tier, node) for tier, node in cases], changes
        )
        columns = ["llc_gb_per_s", *(f"node{node}_gb_per_s" for node in NODES)]
        rows.append({"cause": name, **dict(zip(columns, found, strict=True))})
    return pd.DataFrame(rows)


def claims(table: pd.DataFrame) -> list[Claim]:
    """Bandwidths by cause. Fig. 15 judges the calibrated ones."""
    near, far = (f"node{node}_gb_per_s" for node in NODES)
    found = []
    for row in table.to_dict("records"):
        found += [
            Claim(f"{row['cause']}: LLC hit, GB/s", fig15.PAPER[LLC], row["llc_gb_per_s"], BESIDE),
            Claim(f"{row['cause']}: memory hit, GB/s", fig15.PAPER[MEMORY], row[near], BESIDE),
            Claim(
                f"{row['cause']}: node {NODES[1]} over node {NODES[0]}",
                "marginal variation",
                row[far] / row[near],
                BESIDE,
            ),
        ]
    return found


def draw(table: pd.DataFrame) -> Drawing:
    """Bars by cause."""
    figure, axes = plt.subplots(figsize=(8, 3.8), layout="constrained")
    columns = [column for column in table.columns if column.endswith("_gb_per_s")]
    for place, (column, colour) in enumerate(zip(columns, (GREEN, BLUE, ORANGE), strict=True)):
        at = [index + 0.27 * (place - 1) for index in table.index]
        label = (
            column.removesuffix("_gb_per_s").replace("node", "memory, node ").replace("llc", LLC)
        )
        bars = axes.barh(at, table[column], 0.27, color=colour, label=label)
        axes.bar_label(bars, fmt="%.2f", padding=2, fontsize=7)
    for tier, colour in ((LLC, GREEN), (MEMORY, BLUE)):
        axes.axvline(fig15.PAPER[tier], color=colour, linestyle=":", linewidth=1)
    axes.set_yticks(table.index, list(table.cause), fontsize=8)
    axes.invert_yaxis()
    axes.set(xlabel="GB/s in steady state (dotted: the paper's)", xlim=(0, 17))
    axes.legend(fontsize=7, loc="upper left", bbox_to_anchor=(1, 1))
    axes.grid(axis="y", visible=False)
    figure.suptitle("What makes memory slower than the last-level cache, 400 MHz")
    return figure


FIGURE = Figure("steady", "what makes memory slower than the LLC", collect, claims, draw)
