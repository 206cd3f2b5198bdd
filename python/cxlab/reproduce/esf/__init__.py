"""ESF (An et al., the paper of the Xerxes simulator): its figures 10 to 20.

Figures 14 and 15 (snoop filter, InvBlk) need device-managed coherence: they come into this list,
one module each, when the simulator has it.
"""

from collections.abc import Sequence

from cxlab.reproduce import Figure
from cxlab.reproduce.esf import (
    fig10,
    fig11,
    fig12,
    fig13,
    fig16,
    fig17,
    fig18,
    fig19,
    fig20,
    loaded_latency,
)

#: In the order of the paper; the last one is not the paper's.
FIGURES: Sequence[Figure] = (
    fig10.FIGURE,
    fig11.FIGURE,
    fig12.FIGURE,
    fig13.FIGURE,
    fig16.FIGURE,
    fig17.FIGURE,
    fig18.FIGURE,
    fig19.FIGURE,
    fig20.FIGURE,
    loaded_latency.FIGURE,
)
