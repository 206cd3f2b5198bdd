"""Bandwidth of a host beside noisy neighbours, by routing."""

import math

import pandas as pd
from matplotlib import pyplot as plt
from matplotlib.figure import Figure as Drawing

from cxlab._scenario import Scenario
from cxlab._types import Value
from cxlab.reproduce import Claim, Figure, Settings
from cxlab.reproduce.esf.common import GREEN, ORANGE, PORT_GB_PER_S, RED, SKY, scenario
from cxlab.reproduce.ledger import PREDICTED, Tolerance, fitted, shown, tested

#: Leaves and spines of the shipped scenario. The paper gives none.
SHAPE = (6, 3)
SHAPES = [(leaves, spines) for leaves in (4, 6, 8, 10) for spines in (2, 3, 4)]
#: "alone" is adaptive routing with neighbours that send one request each.
ROUTINGS = {
    "alone": "grey",
    "oblivious": RED,
    "shortest": ORANGE,
    "random": SKY,
    "adaptive": GREEN,
}


def _scenario(shape: tuple[int, int], routing: str) -> Scenario:
    alone = routing == "alone"
    changes: dict[str, Value] = {
        "fabric.routing": "adaptive" if alone else routing,
        "fabric.topology": {"kind": "spine-leaf", "leaves": shape[0], "spines": shape[1]},
    }
    return scenario("noisy-neighbours", changes | ({"hosts[0].requests": 1} if alone else {}))


def collect(settings: Settings) -> pd.DataFrame:
    """Runs every arrangement under every routing."""
    cases = [(shape, routing) for shape in SHAPES for routing in ROUTINGS]
    results = settings.run("fig13", [_scenario(*case) for case in cases])
    rows = []
    for ((leaves, spines), routing), result in zip(cases, results, strict=True):
        victim = next(host for host in result.report["hosts"] if host["name"] == "victim")
        own = victim["bandwidth_gb_per_s"]["total"]
        rows.append(
            {
                "leaves": leaves,
                "spines": spines,
                "routing": routing,
                "victim_ports": own / PORT_GB_PER_S,
                "victim_latency_ns": victim["latency_ns"]["mean"],
                "neighbours_ports": (result.report["bandwidth_gb_per_s"]["total"] - own)
                / PORT_GB_PER_S,
            }
        )
    return pd.DataFrame(rows)


def _shipped(table: pd.DataFrame) -> dict[str, float]:
    part = table[(table.leaves == SHAPE[0]) & (table.spines == SHAPE[1])]
    return dict(zip(part.routing, part.victim_ports, strict=True))


def claims(table: pd.DataFrame) -> list[Claim]:
    """Bandwidth that adaptive routing restores, in the chosen arrangement and in all."""
    victim = _shipped(table)
    by = table.pivot_table(index=["leaves", "spines"], columns="routing", values="victim_ports")
    every = by.adaptive / by.oblivious
    quote = (
        "Adaptive routing strategies, compared to Oblivious, can drastically improve host "
        "performance under the pressure of noisy neighbors"
    )
    chosen = fitted("fabric.topology.leaves", "fabric.topology.spines")
    drastic = Tolerance(
        0.0, "drastically is by more than the paper's own error of bandwidths, 10 %"
    )
    return [
        Claim(
            "victim: adaptive over oblivious",
            (1.1, math.inf),
            victim["adaptive"] / victim["oblivious"],
            chosen,
            drastic,
            section="V-A",
            quote=quote,
        ),
        Claim(
            "victim: oblivious over alone",
            (-math.inf, 0.9),
            victim["oblivious"] / victim["alone"],
            chosen,
            drastic,
            section="V-A",
            quote=quote,
        ),
        Claim(
            "victim: adaptive over oblivious, median of twelve arrangements",
            (1.1, math.inf),
            float(every.median()),
            PREDICTED,
            drastic,
            section="V-A",
            quote=quote,
            why=tested("a hash of source and destination collides in four of twelve arrangements"),
        ),
        Claim(
            "victim: adaptive over alone",
            "no number",
            victim["adaptive"] / victim["alone"],
            shown("the paper has no host alone"),
        ),
    ]


def draw(table: pd.DataFrame) -> Drawing:
    """Draws the shipped arrangement, and all."""
    figure, (left, right) = plt.subplots(
        1, 2, figsize=(9, 3.6), sharey=True, width_ratios=[2, 3], layout="constrained"
    )
    victim = _shipped(table)
    bars = left.bar(list(victim), list(victim.values()), color=[ROUTINGS[name] for name in victim])
    left.bar_label(bars, fmt="%.2f", padding=2)
    left.tick_params(axis="x", rotation=30)
    left.set(
        ylabel="victim's bandwidth / port bandwidth",
        ylim=(0, 0.6),
        title=f"shipped scenario: {SHAPE[0]} leaves, {SHAPE[1]} spines",
    )
    left.grid(axis="x", visible=False)
    styles = (("oblivious", "o", -0.2), ("shortest", "s", 0.0), ("adaptive", "^", 0.2))
    for routing, marker, shift in styles:
        part = table[table.routing == routing].set_index(["leaves", "spines"]).victim_ports
        right.plot(
            [at + shift for at in range(len(SHAPES))],
            [part[shape] for shape in SHAPES],
            marker,
            color=ROUTINGS[routing],
            label=routing,
            markersize=5,
        )
    right.set_xticks(
        range(len(SHAPES)), [f"{leaves}×{spines}" for leaves, spines in SHAPES], rotation=45
    )
    right.set(xlabel="leaves × spines", title="twelve arrangements")
    right.legend(loc="lower right")
    figure.suptitle("A host at half a port's rate beside eight noisy neighbours (ESF Fig. 13)")
    return figure


FIGURE = Figure("fig13", "a host beside noisy neighbours, by routing", collect, claims, draw)
