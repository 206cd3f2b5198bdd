"""CXL-ClusterSim: its figures 5, 6, 7 and 9 to 12, and the calibration of its memory."""

from collections.abc import Sequence

from cxlab.reproduce import Figure
from cxlab.reproduce.cxl_clustersim import calibration, fig5, fig6, fig7, fig9, fig10, fig11, fig12

FIGURES: Sequence[Figure] = (
    fig10.FIGURE,
    fig11.FIGURE,
    fig12.FIGURE,
    fig5.FIGURE,
    fig6.FIGURE,
    fig7.FIGURE,
    fig9.FIGURE,
    calibration.FIGURE,
)
