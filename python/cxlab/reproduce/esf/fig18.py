"""Throughput of five real traces by topology, over that of a chain."""

from functools import partial

from cxlab.reproduce import Figure
from cxlab.reproduce.esf import traces
from cxlab.reproduce.esf.common import BANDWIDTH
from cxlab.reproduce.ledger import PREDICTED, Kind, fitted

#: Means over the traces (ESF section V-E).
PAPER = {"tree": 1.0, "ring": 1.72, "spine-leaf": 2.27, "fully-connected": 3.63}


def _kind(kind: str, of: str) -> Kind:
    chosen = kind == "fully-connected" and of == f"mean of traces, {traces.JUDGED} in flight"
    return fitted("issue.outstanding (Fig. 18)") if chosen else PREDICTED


FIGURE = Figure(
    "fig18",
    "throughput of real traces by topology",
    partial(traces.collect, figure="fig18"),
    partial(
        traces.claims,
        column="throughput_over_chain",
        what="throughput",
        paper=PAPER,
        tolerance=BANDWIDTH,
        judge=_kind,
    ),
    partial(traces.draw, column="throughput_over_chain", what="throughput", paper=PAPER, number=18),
    traces.FILES,
)
