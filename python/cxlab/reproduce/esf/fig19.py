"""Latency of five real traces by topology, over that of a chain."""

from functools import partial

from cxlab.reproduce import Figure
from cxlab.reproduce.esf import traces

#: Means over the traces (ESF section V-E).
PAPER = {"tree": 1.0, "ring": 0.57, "spine-leaf": 0.44, "fully-connected": 0.28}

FIGURE = Figure(
    "fig19",
    "latency of real traces by topology",
    partial(traces.collect, figure="fig19"),
    partial(
        traces.claims, column="latency_over_chain", what="latency", paper=PAPER, tolerance=0.15
    ),
    partial(traces.draw, column="latency_over_chain", what="latency", paper=PAPER, number=19),
    traces.FILES,
)
