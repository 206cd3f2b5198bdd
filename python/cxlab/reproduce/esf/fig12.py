"""Latency by links crossed, with the same bandwidth across the middle of all topologies.

The paper gives neither that bandwidth nor the load. Here every topology has 64 GB/s (*assumed*):
ports of a chain and a tree run at 64 GB/s, those of a ring at 32, and so on by the law of Fig.
10. The paper's ratios of about 3 and 2 are those of a system that is not saturated. With the load
of Fig. 11 they are shown too.
"""

import pandas as pd
from matplotlib import pyplot as plt
from matplotlib.figure import Figure as Drawing

from cxlab.reproduce import Claim, Figure, Settings
from cxlab.reproduce.esf.common import TOPOLOGIES, law, scenario
from cxlab.reproduce.esf.fig11 import HOPS
from cxlab.reproduce.ledger import PREDICTED, Tolerance, fitted, printed, tested

BISECTION_GB_PER_S = 64.0
REQUESTERS = 8
#: Requests in flight of each requester.
LOADS = {64: "not saturated", 256: "saturated"}
#: The load that was chosen to match the paper's ratios. The other is that of Fig. 11.
CHOSEN = 64

_OVERHEAD = (
    "about 2× in chain and 1× in tree and ring compared to the latency with lowest hop number"
)
_STABLE = "spine-leaf and fully-connected [...] can provide high stability for latency values"
#: An overhead is the excess over the least latency.
PAPER: dict[str, tuple[float | tuple[float, float], Tolerance, str]] = {
    "chain": (3.0, printed(1), _OVERHEAD),
    "tree": (2.0, printed(1), _OVERHEAD),
    "ring": (2.0, printed(1), _OVERHEAD),
    "spine-leaf": (1.0, Tolerance(0.5, "half of the overhead that the paper calls one"), _STABLE),
    "fully-connected": (
        1.0,
        Tolerance(0.5, "half of the overhead that the paper calls one"),
        _STABLE,
    ),
}
WHY = tested(
    "the arbiter decides once bridges are full: with the oldest first the ratios are 1.17 (chain) "
    "and 1.18 (ring); the paper gives neither arbiter, load nor bandwidth"
)
WHY_TREE = tested(
    "all requests cross the root of a tree whose halves hold either kind: one count of hops"
)


def collect(settings: Settings) -> pd.DataFrame:
    """Runs every topology at both loads."""
    cases = [(outstanding, kind) for outstanding in LOADS for kind in TOPOLOGIES]
    scenarios = [
        scenario(
            "esf-fig10",
            {
                "fabric.topology": {"kind": kind},
                "fabric.link.bandwidth": f"{BISECTION_GB_PER_S / law(kind, REQUESTERS):g} GB/s",
                "hosts[0].count": REQUESTERS,
                "devices[0].count": REQUESTERS,
                "hosts[0].issue.outstanding": outstanding,
                "measure.warmup_requests": 50_000,
                "measure.requests": 100_000,
            },
        )
        for outstanding, kind in cases
    ]
    return pd.DataFrame(
        [
            {
                "outstanding": outstanding,
                "topology": kind,
                **{key: value for key, value in hops.items() if key in HOPS},
            }
            for (outstanding, kind), result in zip(
                cases, settings.run("fig12", scenarios), strict=True
            )
            for hops in result.report["by_hops"]
        ]
    )


def claims(table: pd.DataFrame) -> list[Claim]:
    """Latency at the most hops over that at the fewest, at either load."""
    found = []
    for outstanding, name in LOADS.items():
        for kind in TOPOLOGIES:
            part = table[(table.outstanding == outstanding) & (table.topology == kind)]
            paper, tolerance, quote = PAPER[kind]
            found.append(
                Claim(
                    f"{kind}: most hops over fewest, {name}",
                    paper,
                    float(part.mean_ns.iloc[-1] / part.mean_ns.iloc[0]),
                    fitted("issue.outstanding (Fig. 12)") if outstanding == CHOSEN else PREDICTED,
                    tolerance,
                    section="V-A",
                    quote=quote,
                    why=WHY_TREE if kind == "tree" else WHY,
                )
            )
    return found


def draw(table: pd.DataFrame) -> Drawing:
    """Lines by hops."""
    figure, panels = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
    for axes, (outstanding, name) in zip(panels, LOADS.items(), strict=True):
        for kind, colour in TOPOLOGIES.items():
            part = table[(table.outstanding == outstanding) & (table.topology == kind)]
            axes.plot(part.hops, part.mean_ns / 1e3, "o-", color=colour, label=kind, markersize=5)
        axes.set(
            xlabel="links crossed from device to requester",
            ylabel="mean latency, µs",
            title=f"{name}: {outstanding} requests in flight each",
            ylim=(0, None),
        )
    panels[0].legend()
    figure.suptitle("Latency by hops at equal bisection bandwidth, system scale 16 (ESF Fig. 12)")
    return figure


FIGURE = Figure("fig12", "latency by hops at equal bisection bandwidth", collect, claims, draw)
