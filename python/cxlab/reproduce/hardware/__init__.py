"""Measurements of real hardware beside cxlab's presets: the rows of `docs/explain/hardware.md`."""

from collections.abc import Sequence

from cxlab.reproduce import Figure
from cxlab.reproduce.hardware import blade, mess, rows, summary, transfer

FIGURES: Sequence[Figure] = (
    *rows.FIGURES,
    blade.FIGURE,
    mess.FIGURE,
    transfer.FIGURE,
    summary.FIGURE,
)
