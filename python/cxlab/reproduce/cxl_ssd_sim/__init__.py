"""CXL-SSD-Sim (Wang et al.): its figures 3 to 6."""

from collections.abc import Sequence

from cxlab.reproduce import Figure
from cxlab.reproduce.cxl_ssd_sim import fig3, fig4, fig5, fig6

FIGURES: Sequence[Figure] = (fig3.FIGURE, fig4.FIGURE, fig5.FIGURE, fig6.FIGURE)
