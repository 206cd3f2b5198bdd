"""Latency and its queueing part by links crossed, scale 16, under both arbitrations."""

import pandas as pd
from matplotlib import pyplot as plt
from matplotlib.figure import Figure as Drawing

from cxlab.reproduce import Claim, Figure, Settings
from cxlab.reproduce.esf.common import BLUE, ORANGE, TOPOLOGIES, scenario
from cxlab.reproduce.ledger import PREDICTED, Tolerance, tested, words

#: The paper does not describe its arbiter, so both arbitrations are judged.
WHY_HALF = tested(
    "a switch that serves its inputs in turn gives each device at the bridge as much as the rest "
    "of the chain behind it, so the farthest starve; by age the ratio is a half"
)
WHY_QUEUE = tested("the oldest request goes first, so all wait as long, within 5 %")

#: Columns of the report by links crossed.
HOPS = ("hops", "count", "mean_ns", "queue_ns")
ARBITRATIONS = {"round-robin": "round-robin", "age": "oldest first"}


def collect(settings: Settings) -> pd.DataFrame:
    """Runs every topology under every arbitration."""
    cases = [(arbitration, kind) for arbitration in ARBITRATIONS for kind in TOPOLOGIES]
    scenarios = [
        scenario(
            "esf-fig10",
            {
                "fabric.topology": {"kind": kind},
                "fabric.switch.arbitration": arbitration,
                "measure.warmup_requests": 50_000,
                "measure.requests": 100_000,
            },
        )
        for arbitration, kind in cases
    ]
    return pd.DataFrame(
        [
            {
                "arbitration": arbitration,
                "topology": kind,
                **{key: value for key, value in hops.items() if key in HOPS},
            }
            for (arbitration, kind), result in zip(
                cases, settings.run("fig11", scenarios), strict=True
            )
            for hops in result.report["by_hops"]
        ]
    )


def claims(table: pd.DataFrame) -> list[Claim]:
    """A ring halves the longest latencies, and queueing grows with hops, by arbitration."""
    found = []
    parts = dict(iter(table.groupby(["arbitration", "topology"])))
    for arbitration in ARBITRATIONS:
        most = {kind: float(parts[arbitration, kind].mean_ns.max()) for kind in TOPOLOGIES}
        found += [
            Claim(
                f"largest latency, ring over {other}, arbitration {arbitration}",
                0.5,
                most["ring"] / most[other],
                PREDICTED,
                Tolerance(0.05, "the paper's printed precision: a half, one digit"),
                section="V-A",
                quote="the maximum latency is halved compared to the maximum latency in tree and "
                "chain",
                why=WHY_HALF,
            )
            for other in ("chain", "tree")
        ]
        chain = parts[arbitration, "chain"]
        found.append(
            Claim(
                f"chain: rank correlation of queueing with hops, arbitration {arbitration}",
                1.0,
                float(chain.queue_ns.rank().corr(chain.hops.rank())),
                PREDICTED,
                words("an order"),
                section="V-A",
                quote="as the number of hops increases, the request will experience more switch "
                "queuing time",
                why=WHY_QUEUE,
            )
        )
    return found


def draw(table: pd.DataFrame) -> Drawing:
    """Bars by hops."""
    widths = [max(2, table[table.topology == kind].hops.nunique()) for kind in TOPOLOGIES]
    figure, grid = plt.subplots(
        2,
        5,
        figsize=(10, 5),
        sharey="row",
        sharex="col",
        layout="constrained",
        width_ratios=widths,
    )
    cases = [(arbitration, kind) for arbitration in ARBITRATIONS for kind in TOPOLOGIES]
    for axes, (arbitration, kind) in zip(grid.flat, cases, strict=True):
        part = table[(table.arbitration == arbitration) & (table.topology == kind)]
        queue, rest = part.queue_ns / 1e3, (part.mean_ns - part.queue_ns) / 1e3
        axes.bar(part.hops, rest, color=BLUE, label="link, port, switch, device")
        axes.bar(part.hops, queue, bottom=rest, color=ORANGE, label="queueing")
        axes.set_xticks(part.hops)
        axes.set_xlim(part.hops.min() - 0.8, part.hops.max() + 0.8)
        axes.grid(axis="x", visible=False)
    for axes, kind in zip(grid[0], TOPOLOGIES, strict=True):
        axes.set_title(kind.replace("fully-", "fully-\n"))
    for axes, name in zip(grid[:, 0], ARBITRATIONS.values(), strict=True):
        axes.set_ylabel(f"{name}\nmean latency, µs")
    figure.supxlabel("links crossed from device to requester", fontsize=9)
    figure.suptitle("Latency by hops, system scale 16, by arbitration (ESF Fig. 11)")
    figure.legend(*grid[0, 0].get_legend_handles_labels(), loc="outside lower right", ncols=2)
    return figure


FIGURE = Figure("fig11", "latency by hops", collect, claims, draw)
