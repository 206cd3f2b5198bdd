"""Aggregate bandwidth over the bandwidth of a port, by topology and scale."""

import pandas as pd
from matplotlib import pyplot as plt
from matplotlib.figure import Figure as Drawing

from cxlab.reproduce import Claim, Figure, Settings
from cxlab.reproduce.esf.common import LAW, PORT_GB_PER_S, TOPOLOGIES, law, scenario
from cxlab.reproduce.ledger import PREDICTED, fitted

LAWS = {"chain": "1", "tree": "1", "ring": "2", "spine-leaf": "N/2", "fully-connected": "N"}
_BRIDGE = "limiting the system bandwidth to the maximum capacity of a single switch port"
QUOTES = {
    "chain": _BRIDGE,
    "tree": _BRIDGE,
    "ring": "by scaling up the system, the bandwidth can reach 2× of the port capacity",
    "spine-leaf": "the spine-leaf can only provide N/2× bandwidth of the port capacity",
    "fully-connected": "achieving a system bandwidth of N× port capacity",
}
#: The paper does not say where endpoints are attached, nor how many uplinks a leaf has. The chain's
#: law decided the first, and the spine-leaf's the second.
KINDS = {
    "chain": fitted("fabric.topology.placement"),
    "tree": PREDICTED,
    "ring": PREDICTED,
    "spine-leaf": fitted("fabric.topology.oversubscription"),
    "fully-connected": PREDICTED,
}


def collect(settings: Settings) -> pd.DataFrame:
    """Runs every topology at every scale."""
    cases = [(kind, n) for n in (2, 4, 8, 16, 32, 64) for kind in TOPOLOGIES]
    scenarios = [
        scenario(
            "esf-fig10",
            {
                "fabric.topology": {"kind": kind},
                "hosts[0].count": n,
                "devices[0].count": n,
                "measure.warmup_requests": 1000 * n,
                "measure.requests": 2000 * n,
            },
        )
        for kind, n in cases
    ]
    return pd.DataFrame(
        [
            {
                "topology": kind,
                "scale": 2 * n,
                "ports": result.report["bandwidth_gb_per_s"]["total"] / PORT_GB_PER_S,
                "law": law(kind, n),
            }
            for (kind, n), result in zip(cases, settings.run("fig10", scenarios), strict=True)
        ]
    )


def claims(table: pd.DataFrame) -> list[Claim]:
    """The laws, each at the scale with the largest deviation."""
    found = []
    for kind in table.topology.unique():
        part = table[table.topology == kind]
        over = part.ports / part.law
        found.append(
            Claim(
                f"{kind}: ports over the law of {LAWS[kind]}, the farthest of six scales",
                1.0,
                max((float(value) for value in over), key=lambda value: abs(value - 1)),
                KINDS[kind],
                LAW,
                section="V-A",
                quote=QUOTES[kind],
            )
        )
    return found


def draw(table: pd.DataFrame) -> Drawing:
    """Points over laws."""
    figure, axes = plt.subplots(figsize=(6, 4))
    for kind, colour in TOPOLOGIES.items():
        part = table[table.topology == kind]
        tree = kind == "tree"  # lies on the chain: a hollow marker around it
        axes.plot(
            part.scale,
            part.ports,
            "s" if tree else "o",
            color=colour,
            label=kind,
            markersize=10 if tree else 5,
            markerfacecolor="none" if tree else colour,
        )
        axes.plot(part.scale, part.law, "-", color=colour, linewidth=1, zorder=0)
    axes.plot([], [], "-", color="grey", linewidth=1, label="law: 1, 1, 2, N/2, N")
    axes.set_xscale("log", base=2)
    axes.set_yscale("log", base=2)
    scales = sorted(table.scale.unique())
    axes.set_xticks(scales, [str(scale) for scale in scales])
    ticks = [2**k for k in range(7)]
    axes.set_yticks(ticks, [str(tick) for tick in ticks])
    axes.set(
        xlabel="system scale (N requesters + N memories)",
        ylabel="aggregate bandwidth / port bandwidth",
        title="Bridge bandwidth of topologies (ESF Fig. 10)",
    )
    axes.legend()
    return figure


FIGURE = Figure("fig10", "bandwidth of topologies by scale", collect, claims, draw)
