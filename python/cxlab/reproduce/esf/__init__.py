"""ESF (An et al., the paper of the Xerxes simulator): its figures 10 to 20."""

from collections.abc import Sequence

from cxlab.reproduce import Figure
from cxlab.reproduce.esf import (
    fig10,
    fig11,
    fig12,
    fig13,
    fig14,
    fig15,
    fig16,
    fig17,
    fig18,
    fig19,
    fig20,
    loaded_latency,
    section4,
)

#: By number, and then figures without one. Loaded-latency is not the paper's.
FIGURES: Sequence[Figure] = (
    fig10.FIGURE,
    fig11.FIGURE,
    fig12.FIGURE,
    fig13.FIGURE,
    fig14.FIGURE,
    fig15.FIGURE,
    fig16.FIGURE,
    fig17.FIGURE,
    fig18.FIGURE,
    fig19.FIGURE,
    fig20.FIGURE,
    loaded_latency.FIGURE,
    section4.FIGURE,
)
