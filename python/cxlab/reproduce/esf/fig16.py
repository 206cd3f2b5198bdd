"""Benefit of full duplex: bandwidth over that of reads alone, by mix and header."""

import pandas as pd
from matplotlib import pyplot as plt
from matplotlib.figure import Figure as Drawing

from cxlab.reproduce import Claim, Figure, Settings
from cxlab.reproduce.esf import duplex
from cxlab.reproduce.esf.common import DATA, DUPLEX_LAW
from cxlab.reproduce.esf.duplex import HEADERS, KEYS, TICKS, label
from cxlab.reproduce.ledger import PREDICTED, fitted, shown


def _xerxes() -> pd.DataFrame:
    """Public Xerxes (Halifuda/Xerxes, commit 097b6de), measured."""
    table = pd.read_csv(DATA / "xerxes-fig16.csv")
    reads = table[table.read_ratio == 1.0].set_index("header_bytes").bandwidth_gb_per_s
    table["over_reads"] = table.bandwidth_gb_per_s / table.header_bytes.map(reads)
    return table


def collect(settings: Settings) -> pd.DataFrame:
    """Bandwidth by duplex, header and mix."""
    table = duplex.collect(settings, "fig16")
    return table[[*KEYS, "read_ratio", "bandwidth_gb_per_s", "over_reads"]]


def claims(table: pd.DataFrame) -> list[Claim]:
    """Full duplex doubles the bandwidth only of a mix without headers."""
    gain = table.set_index([*KEYS, "read_ratio"]).over_reads
    half = table[(table.duplex == "half") & (table.data_header_bytes == 0)].over_reads
    flat = "the system bandwidth stays almost constant for a half-duplex bus"
    found = [
        Claim(
            "full duplex, no header: 1:1 over reads",
            2.0,
            gain["full", 0, 0, 0.5],
            PREDICTED,
            DUPLEX_LAW,
            section="V-D",
            quote="with zero header overhead, a 1:1 mix of read and write packets can nearly "
            "double the system bandwidth",
        ),
        Claim(
            "full duplex, header = payload: 1:1 over reads",
            1.0,
            gain["full", 64, 0, 0.5],
            fitted("fabric.link.packet.data_header"),
            DUPLEX_LAW,
            section="V-D",
            quote="When the headers have the same length of payloads, the improvement drops to "
            "zero",
        ),
        *(
            Claim(
                f"half duplex: {name} over reads, any mix and header",
                1.0,
                float(value),
                PREDICTED,
                DUPLEX_LAW,
                section="V-D",
                quote=flat,
            )
            for name, value in (("least", half.min()), ("most", half.max()))
        ),
    ]
    xerxes = _xerxes()
    for row in xerxes[xerxes.read_ratio == 0.5].to_dict("records"):
        header = int(row["header_bytes"])
        found.append(
            Claim(
                f"public Xerxes (not the paper), header {header} B on lines too: 1:1 over reads",
                float(row["over_reads"]),
                gain["full", header, header, 0.5],
                shown("not the paper's, and its bus was 92 to 98 % busy"),
            )
        )
    return found


def draw(table: pd.DataFrame) -> Drawing:
    """Lines over mix."""
    xerxes = _xerxes()
    figure, panels = plt.subplots(1, 3, figsize=(10, 3.4), sharey=True, layout="constrained")
    titles = (
        ("full duplex, headers on messages\nwithout data (the paper's text)", "full", False),
        ("full duplex, headers on all\n(o: public Xerxes, measured)", "full", True),
        ("half duplex", "half", False),
    )
    for axes, (title, way, both) in zip(panels, titles, strict=True):
        for header, colour in HEADERS.items():
            part = table[
                (table.duplex == way)
                & (table.header_bytes == header)
                & (table.data_header_bytes == both * header)
            ]
            axes.plot(part.read_ratio, part.over_reads, ".-", color=colour, label=label(header))
            if both:
                part = xerxes[xerxes.header_bytes == header]
                axes.plot(
                    part.read_ratio,
                    part.over_reads,
                    "o",
                    color=colour,
                    markerfacecolor="none",
                    markersize=7,
                )
        axes.set(title=title, xlabel="reads : writes", ylim=(0, 2.1))
        axes.set_xticks(*TICKS)
        axes.invert_xaxis()
    panels[0].set_ylabel("bandwidth / bandwidth of reads alone")
    panels[2].legend(title="header")
    figure.suptitle("What full duplex is worth (ESF Fig. 16)")
    return figure


FIGURE = Figure("fig16", "bandwidth by duplex, header and mix", collect, claims, draw)
