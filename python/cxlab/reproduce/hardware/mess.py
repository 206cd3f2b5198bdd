"""45 mixes of the curves of Micron's model (Mess): peak, and latency at it and below it."""

from __future__ import annotations

from importlib import resources

import pandas as pd
from matplotlib import pyplot as plt
from matplotlib.figure import Figure as Drawing

from cxlab.reproduce import Claim, Figure, Settings
from cxlab.reproduce.common import BLUE, ORANGE
from cxlab.reproduce.hardware.common import System, bandwidth, full, latency, paced
from cxlab.reproduce.ledger import PREDICTED, Kind, Tolerance, fitted, hypothesis

MODEL = System("mess", "micron-model")
PEAK = Tolerance(0.02, "the bar of this page for peaks", relative=True)
BELOW = Tolerance(0.05, "the bar of this page below the peak", relative=True)
SATURATED = Tolerance(0.15, "the bar of this page for saturated latencies", relative=True)
#: Mixes whose saturated latency, and whose latencies at 75 % of the peak, chose the parameters.
SEEN = (2, 30, 50, 56, 60, 64, 76, 100)

ORDER = hypothesis(
    "where both directions of the link are nearly full, the arbitration among messages decides how "
    "many of the 256 requests are reads: cxlab's transmitter sends the oldest message that the "
    "flit has room for, and writes wait 490 ns for it. The medium does not matter: with eight "
    "channels, or a fixed latency, reads take 308 to 317 ns too"
)


def _data() -> pd.DataFrame:
    file = resources.files("cxlab.reproduce.hardware") / "data" / "mess.csv"
    with file.open(encoding="utf-8") as text:
        return pd.read_csv(text, comment="#")


def collect(settings: Settings) -> pd.DataFrame:
    """Runs every mix at full load, and at four loads below the peak."""
    table = _data()
    scenarios = []
    for row in table.to_dict("records"):
        reads, part = int(row["read_percent"]) / 100, str(row["part"])
        saturated = part == "saturated"
        changes = full(reads) if saturated else paced(reads, float(row["gb_per_s"]))
        name = f"mess-{row['read_percent']}-{part}".replace(" %", "")
        scenarios.append(MODEL.scenario(name, changes))
    results = settings.run("mess", scenarios)
    return table.assign(
        simulated_gb_per_s=[bandwidth(result) for result in results],
        simulated_ns=[latency(result) for result in results],
    )


def _kind(percent: int, part: str) -> Kind:
    if part == "idle":
        return fitted("process time of `micron-model`")
    if percent in SEEN and part in ("75 %", "50 %"):
        return fitted("medium of `micron-model`")
    if percent in SEEN and part == "saturated":
        return fitted("requests in flight, and those that wait, of `mess`")
    return PREDICTED


def claims(table: pd.DataFrame) -> list[Claim]:
    """Peak and latencies of every mix."""
    rows = []
    for row in table.to_dict("records"):
        percent, part = int(row["read_percent"]), str(row["part"])
        section = "Mess, MICRO 2024, data of the model"
        if part == "saturated":
            rows.append(
                Claim(
                    f"{percent} % reads: peak, GB/s",
                    float(row["gb_per_s"]),
                    float(row["simulated_gb_per_s"]),
                    PREDICTED,
                    PEAK,
                    section=section,
                    quote=f"{row['gb_per_s']:g} GB/s",
                )
            )
        rows.append(
            Claim(
                f"{percent} % reads: latency, {part}, ns",
                float(row["latency_ns"]),
                float(row["simulated_ns"]),
                _kind(percent, part),
                SATURATED if part in ("saturated", "knee") else BELOW,
                section=section,
                quote=f"{row['latency_ns']:g} ns at {row['gb_per_s']:g} GB/s",
                why=ORDER,
            )
        )
    return rows


def draw(table: pd.DataFrame) -> Drawing:
    """Curves of nine mixes, and peaks of all."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
    peaks = table[table.part == "saturated"]
    left.plot(peaks.read_percent, peaks.gb_per_s, "o", color=BLUE, markersize=3, label="the model")
    left.plot(peaks.read_percent, peaks.simulated_gb_per_s, "-", color=ORANGE, label="cxlab")
    left.set(xlabel="reads, %", ylabel="peak, GB/s", ylim=(0, None), title="Peak by mix")
    left.legend()
    for percent in (2, 30, 50, 76, 100):
        part = table[(table.read_percent == percent) & ~table.part.isin(["saturated", "knee"])]
        right.plot(part.gb_per_s, part.latency_ns, "o", color=BLUE, markersize=3)
        right.plot(part.gb_per_s, part.simulated_ns, "-", color=ORANGE)
        right.annotate(
            f"{percent} %", (part.gb_per_s.iloc[-1], part.latency_ns.iloc[-1]), fontsize=7
        )
    right.set(xlabel="GB/s", ylabel="latency of reads, ns", title="Latency below the peak")
    figure.suptitle("Micron's model of an expander (Mess) and the preset micron-model")
    return figure


FIGURE = Figure("mess", "a vendor's model: peaks and latencies of 45 mixes", collect, claims, draw)
