"""All values of latency, bandwidth and NUMA that the paper measured on hardware, together."""

import math

import pandas as pd
from matplotlib import pyplot as plt
from matplotlib.figure import Figure as Drawing

from cxlab._scenario import Scenario
from cxlab.reproduce import Claim, Figure, Settings
from cxlab.reproduce.cohet import common, fig12, fig13, fig15, fig16
from cxlab.reproduce.cohet.common import BLUE, FPGA, GREEN, MEMORY, NEAREST, ORANGE, TIERS
from cxlab.reproduce.ledger import derived, shown, words

#: The mean error of the paper's own simulator, in %. Ours is judged by it.
PAPER = 3.0
_COLOURS = {"latency, ns": BLUE, "NUMA, ns": ORANGE, "bandwidth, GB/s": GREEN}


def _cases() -> list[tuple[str, str, float, Scenario]]:
    """Kind, name, the paper's value, and the scenario that measures it.

    Each value counts once. The memory hit of Fig. 13 and that of node 7 in Fig. 12 are separate
    measurements. DMA at 64 B of Figs. 15 and 16 is one.
    """
    found = [("latency, ns", tier, fig13.PAPER[tier], common.latency(FPGA, tier)) for tier in TIERS]
    found.append(("latency, ns", fig13.DMA, fig13.PAPER[fig13.DMA], common.dma_latency(FPGA, 64)))
    found += [
        ("NUMA, ns", f"node {node}", value, common.latency(FPGA, MEMORY, node=node))
        for node, value in fig12.PAPER.items()
    ]
    found += [
        (
            "bandwidth, GB/s",
            f"DMA, {common.size_label(size)}",
            value,
            common.dma_bandwidth(FPGA, size),
        )
        for size, value in fig16.PAPER.items()
    ]
    return found


def collect(settings: Settings) -> pd.DataFrame:
    """A row for each value. Bandwidth of loads is that in steady state."""
    cases = _cases()
    measured = common.collect(
        settings, "calibration", [({"name": name}, run) for _, name, _, run in cases]
    )
    table = pd.DataFrame(
        [{"kind": kind, "name": name, "paper": paper} for kind, name, paper, _ in cases]
    )
    is_bandwidth = table.kind == "bandwidth, GB/s"
    table["cxlab"] = measured.p50_ns.where(~is_bandwidth, measured.bandwidth_gb_per_s)
    steady = common.steady_bandwidth(
        settings, "calibration", [(FPGA, tier, NEAREST) for tier in TIERS]
    )
    loads = pd.DataFrame(
        {
            "kind": "bandwidth, GB/s",
            "name": list(TIERS),
            "paper": [fig15.PAPER[tier] for tier in TIERS],
            "cxlab": steady,
        }
    )
    table = pd.concat([table, loads], ignore_index=True)
    table["error_percent"] = 100 * (table.cxlab / table.paper - 1)
    return table


def claims(table: pd.DataFrame) -> list[Claim]:
    """The mean absolute percentage error of all values, and the largest error."""
    errors = table.error_percent.abs()
    return [
        Claim(
            f"mean absolute error of {len(table)} values, %",
            (-math.inf, PAPER),
            float(errors.mean()),
            derived(f"fig13: {MEMORY}: median latency, ns"),
            words("no worse than the paper's own simulator"),
            section="VI-C2",
            quote="after all calibration tests, our simulator achieves a mean absolute percentage "
            "error of 3%",
        ),
        Claim(
            "mean absolute error without the nodes, %",
            "not stated",
            float(errors[table.kind != "NUMA, ns"].mean()),
            shown("not stated"),
        ),
        Claim("largest absolute error, %", "not stated", float(errors.max()), shown("not stated")),
    ]


def draw(table: pd.DataFrame) -> Drawing:
    """Draws a bar for each value."""
    figure, axes = plt.subplots(figsize=(8, 3.8), layout="constrained")
    for kind, colour in _COLOURS.items():
        part = table[table.kind == kind]
        bars = axes.bar(part.index, part.error_percent, color=colour, label=kind)
        axes.bar_label(bars, fmt="%.1f", padding=2, fontsize=7)
    axes.axhspan(-PAPER, PAPER, color="#eeeeee", zorder=0, label="within 3 %")
    axes.axhline(0, color="black", linewidth=0.8)
    axes.set_xticks(range(len(table)), list(table.name), rotation=45, ha="right")
    axes.set(ylabel="cxlab less paper (%)")
    axes.legend(fontsize=8, ncols=2)
    axes.grid(axis="x", visible=False)
    mean = table.error_percent.abs().mean()
    axes.set_title(f"Calibration to Cohet's testbed: mean absolute error {mean:.2f} %")
    return figure


FIGURE = Figure("calibration", "all values of the testbed at once", collect, claims, draw)
