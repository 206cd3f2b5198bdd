"""What the preset of one expander gives for others of its kind: x8, with a hard controller.

Each preset was fitted on its own device alone. Its numbers beside those of the other devices show
how far a preset may be from a device that nobody has measured.
"""

from __future__ import annotations

import pandas as pd
from matplotlib import pyplot as plt
from matplotlib.figure import Figure as Drawing

from cxlab.reproduce import Claim, Figure, Settings
from cxlab.reproduce.hardware.common import System, bandwidth, full, idle, latency
from cxlab.reproduce.ledger import shown

PRESETS = ("vistara", "cachelib", "cxl-dmsim-asic", "cz122")
#: By quantity: the changes of its run, its unit, and what sources measured of one device.
QUANTITIES = {
    "idle latency": (
        idle(),
        "ns",
        {"vistara": 250, "cachelib": 250, "cxl-dmsim-asic": 284.086, "Montage": 300},
    ),
    "bandwidth, reads": (full(1.0), "GB/s", {"vistara": 24, "cachelib": 17.8}),
    "bandwidth, 2:1": (
        full(2 / 3),
        "GB/s",
        {"vistara": 21, "cachelib": 25.1, "cxl-dmsim-asic": 25.2, "cz122": 37},
    ),
    "bandwidth, 1:1": (
        full(1 / 2),
        "GB/s",
        {"vistara": 21, "cachelib": 27.2, "cxl-dmsim-asic": 25.2},
    ),
}
OTHER = shown("the preset was fitted on another device")


def collect(settings: Settings) -> pd.DataFrame:
    """Runs every preset once for each quantity, beside one host."""
    cases = [(preset, name) for preset in PRESETS for name in QUANTITIES]
    scenarios = [
        System("sapphire-rapids", preset).scenario(f"{preset}-{at}", QUANTITIES[name][0])
        for at, (preset, name) in enumerate(cases)
    ]
    results = settings.run("transfer", scenarios)
    rows = []
    for (preset, name), result in zip(cases, results, strict=True):
        _, unit, measured = QUANTITIES[name]
        ours = latency(result) if unit == "ns" else bandwidth(result)
        rows += [
            {
                "preset": preset,
                "quantity": name,
                "unit": unit,
                "device": device,
                "measured": value,
                "simulated": ours,
            }
            for device, value in measured.items()
            if device != preset
        ]
    return pd.DataFrame(rows)


def claims(table: pd.DataFrame) -> list[Claim]:
    """Every preset beside every other device. None is judged."""
    return [
        Claim(
            f"{row['quantity']} of {row['device']}, {row['unit']}, by `{row['preset']}`",
            float(row["measured"]),
            float(row["simulated"]),
            OTHER,
        )
        for row in table.to_dict("records")
    ]


def draw(table: pd.DataFrame) -> Drawing:
    """Deviation by quantity, a point for each preset and device."""
    figure, axes = plt.subplots(figsize=(6.5, 3.4), layout="constrained")
    names = list(QUANTITIES)
    for preset in PRESETS:
        part = table[table.preset == preset]
        off = 100 * (part.simulated / part.measured - 1)
        shift = 0.15 * (PRESETS.index(preset) - 1.5)
        axes.plot(off, [names.index(name) + shift for name in part.quantity], "o", label=preset)
    axes.set_yticks(range(len(names)), names)
    axes.invert_yaxis()
    axes.axvline(0, color="black", linewidth=0.8)
    axes.set_xlabel("simulated by another device's preset over measured, %")
    axes.legend(fontsize=7)
    axes.set_title("One preset for the other expanders")
    return figure


FIGURE = Figure("transfer", "one preset for the other expanders", collect, claims, draw)
