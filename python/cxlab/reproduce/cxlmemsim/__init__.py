"""CXLMemSim (Yang et al.): its table 1, and the topology of its figure 1."""

from collections.abc import Sequence

from cxlab.reproduce import Figure
from cxlab.reproduce.cxlmemsim import fig1, table1

FIGURES: Sequence[Figure] = (fig1.FIGURE, table1.FIGURE)
