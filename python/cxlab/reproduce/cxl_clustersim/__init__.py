"""CXL-ClusterSim: its figures 5, 6 and 7, and the calibration of its memory."""

from collections.abc import Sequence

from cxlab.reproduce import Figure
from cxlab.reproduce.cxl_clustersim import calibration, fig5, fig6, fig7

FIGURES: Sequence[Figure] = (fig5.FIGURE, fig6.FIGURE, fig7.FIGURE, calibration.FIGURE)
