"""Latency of five real traces by topology, over that of a chain."""

from functools import partial

from cxlab.reproduce import Figure
from cxlab.reproduce.esf import traces
from cxlab.reproduce.esf.common import LATENCY
from cxlab.reproduce.ledger import Kind, derived

#: Means over the traces (ESF section V-E).
PAPER = {"tree": 1.0, "ring": 0.57, "spine-leaf": 0.44, "fully-connected": 0.28}


def _kind(kind: str, of: str) -> Kind:
    """By Little's law, because as many requests are in flight on every topology."""
    return derived(f"fig18: {kind}: throughput over chain, {of}")


FIGURE = Figure(
    "fig19",
    "latency of real traces by topology",
    partial(traces.collect, figure="fig19"),
    partial(
        traces.claims,
        column="latency_over_chain",
        what="latency",
        paper=PAPER,
        tolerance=LATENCY,
        judge=_kind,
    ),
    partial(traces.draw, column="latency_over_chain", what="latency", paper=PAPER, number=19),
    traces.FILES,
)
