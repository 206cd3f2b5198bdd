"""All rows of all sources: each measured number beside the simulated one."""

from __future__ import annotations

import pandas as pd
from matplotlib import pyplot as plt
from matplotlib.figure import Figure as Drawing
from matplotlib.ticker import LogLocator, NullLocator, ScalarFormatter

from cxlab.reproduce import Claim, Figure, Settings
from cxlab.reproduce.common import BLUE, ORANGE
from cxlab.reproduce.hardware import blade, mess, rows


def collect(settings: Settings) -> pd.DataFrame:
    """Every judged row: source, quantity, measured, simulated, kind."""
    found = []
    for figure in (*rows.FIGURES, blade.FIGURE, mess.FIGURE):
        path = settings.out / f"{figure.name}.csv"
        table = (
            pd.read_csv(path, keep_default_na=False) if path.is_file() else figure.collect(settings)
        )
        for claim in figure.claims(table):
            assert isinstance(claim.paper, float | int)
            assert claim.ours is not None
            found.append(
                {
                    "source": figure.name,
                    "quantity": "latency" if claim.quote.split()[1] == "ns" else "bandwidth",
                    "kind": claim.kind.name,
                    "measured": float(claim.paper),
                    "simulated": float(claim.ours),
                }
            )
    return pd.DataFrame(found)


def claims(table: pd.DataFrame) -> list[Claim]:
    """None: each row is a claim of its own figure."""
    del table
    return []


def draw(table: pd.DataFrame) -> Drawing:
    """Measured against simulated, of all rows."""
    figure, axes = plt.subplots(1, 2, figsize=(9, 4), layout="constrained")
    for panel, quantity, unit in zip(axes, ("latency", "bandwidth"), ("ns", "GB/s"), strict=True):
        part = table[table.quantity == quantity]
        for kind, colour in (("fitted", ORANGE), ("predicted", BLUE)):
            some = part[part.kind == kind]
            panel.loglog(some.measured, some.simulated, "o", color=colour, markersize=3, label=kind)
        ends = [part.measured.min(), part.measured.max()]
        for width in (1, 0.9, 1.1):
            panel.plot(ends, [width * end for end in ends], color="black", linewidth=0.6)
        for axis in (panel.xaxis, panel.yaxis):
            axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
            axis.set_major_formatter(ScalarFormatter())
            axis.set_minor_locator(NullLocator())
        panel.set(xlabel=f"measured, {unit}", ylabel=f"simulated, {unit}", title=quantity)
        panel.legend()
    figure.suptitle("All rows; lines at 90, 100 and 110 %")
    return figure


FIGURE = Figure("summary", "all rows: measured against simulated", collect, claims, draw)
