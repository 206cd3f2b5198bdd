"""Cohet (Wang et al.): its figures 4 and 12 to 18, and its calibration as a whole."""

from collections.abc import Sequence

from cxlab.reproduce import Figure
from cxlab.reproduce.cohet import (
    calibration,
    fig4,
    fig12,
    fig13,
    fig14,
    fig15,
    fig16,
    fig17,
    fig18,
    sensitivity,
    steady,
)

FIGURES: Sequence[Figure] = (
    fig12.FIGURE,
    fig13.FIGURE,
    fig14.FIGURE,
    fig15.FIGURE,
    fig16.FIGURE,
    fig17.FIGURE,
    fig18.FIGURE,
    fig4.FIGURE,
    calibration.FIGURE,
    sensitivity.FIGURE,
    steady.FIGURE,
)
