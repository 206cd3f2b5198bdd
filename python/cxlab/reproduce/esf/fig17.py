"""Bus utility and transmission efficiency, by mix and header."""

import pandas as pd
from matplotlib import pyplot as plt
from matplotlib.figure import Figure as Drawing

from cxlab.reproduce import Claim, Figure, Settings
from cxlab.reproduce.esf import duplex
from cxlab.reproduce.esf.common import DUPLEX_LAW
from cxlab.reproduce.esf.duplex import HEADERS, KEYS, TICKS, label
from cxlab.reproduce.ledger import derived

COLUMNS = {"bus_utility": "bus utility", "transmission_efficiency": "transmission efficiency"}


def collect(settings: Settings) -> pd.DataFrame:
    """Utility and efficiency by duplex, header and mix: the runs of Fig. 16."""
    return duplex.collect(settings, "fig17")[[*KEYS, "read_ratio", *COLUMNS]]


def claims(table: pd.DataFrame) -> list[Claim]:
    """Reads alone use one direction, a mix uses both."""
    full = (table.duplex == "full") & (table.header_bytes == 0)
    utility = table[full].set_index("read_ratio").bus_utility
    same = derived("fig16: full duplex, no header: 1:1 over reads")
    return [
        Claim(
            "full duplex, no header: utility of reads alone",
            0.5,
            utility[1.0],
            same,
            DUPLEX_LAW,
            section="V-D",
            quote="single-type scenario only utilized half of the bus",
        ),
        Claim(
            "full duplex, no header: utility of 1:1",
            1.0,
            utility[0.5],
            same,
            DUPLEX_LAW,
            section="V-D",
            quote="As the mix ratio increases, the bus utility approaches 1",
        ),
    ]


def draw(table: pd.DataFrame) -> Drawing:
    """Lines over mix."""
    figure, grid = plt.subplots(
        2, 2, figsize=(7, 5), sharex=True, sharey=True, layout="constrained"
    )
    for top, row, (column, name) in zip((True, False), grid, COLUMNS.items(), strict=True):
        for axes, way in zip(row, ("full", "half"), strict=True):
            for header, colour in HEADERS.items():
                part = table[
                    (table.duplex == way)
                    & (table.header_bytes == header)
                    & (table.data_header_bytes == 0)
                ]
                axes.plot(part.read_ratio, part[column], ".-", color=colour, label=label(header))
            if top:
                axes.set_title(f"{way} duplex")
        row[0].set(ylabel=name, ylim=(0, 1.05))
    for axes in grid[1]:
        axes.set_xticks(*TICKS)
        axes.set_xlabel("reads : writes")
    grid[0, 0].invert_xaxis()
    grid[0, 0].legend(title="header", fontsize=8)
    figure.suptitle("Bus utility and transmission efficiency (ESF Fig. 17)")
    return figure


FIGURE = Figure("fig17", "bus utility and efficiency by duplex and mix", collect, claims, draw)
