"""Throughput of five real traces by topology, over that of a chain."""

from functools import partial

from cxlab.reproduce import Figure
from cxlab.reproduce.esf import traces

#: Means over the traces (ESF section V-E).
PAPER = {"tree": 1.0, "ring": 1.72, "spine-leaf": 2.27, "fully-connected": 3.63}

FIGURE = Figure(
    "fig18",
    "throughput of real traces by topology",
    partial(traces.collect, figure="fig18"),
    partial(
        traces.claims,
        column="throughput_over_chain",
        what="throughput",
        paper=PAPER,
        tolerance=0.15,
    ),
    partial(traces.draw, column="throughput_over_chain", what="throughput", paper=PAPER, number=18),
    traces.FILES,
)
