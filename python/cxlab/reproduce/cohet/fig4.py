"""AXPY in three programming models: explicit copies, unified memory, and Cohet.

The paper counts lines of its pseudocode and measures nothing; what is run here is the same work in
all three.
"""

import math

import pandas as pd
from matplotlib import pyplot as plt
from matplotlib.figure import Figure as Drawing

from cxlab.reproduce import Claim, Figure, Settings
from cxlab.reproduce.cohet import common
from cxlab.reproduce.cohet.common import ASIC, BLUE, GREEN, ORANGE

#: Lines of the paper's pseudocode (section III-C3), and a colour.
MODELS = {"explicit": (16, BLUE), "unified": (10, ORANGE), "cohet": (9, GREEN)}
#: Elements of each vector, doubles; the second is judged.
SIZES = (4096, 65_536, 262_144)
JUDGED = 65_536


def collect(settings: Settings) -> pd.DataFrame:
    """Time from vectors that are filled to a result that has been read, by phase."""
    cases = [(size, model) for size in SIZES for model in MODELS]
    scenarios = [
        common.scenario(ASIC, {"kind": "axpy", "model": model, "elements": size}, {})
        for size, model in cases
    ]
    rows = []
    for (size, model), result in zip(cases, settings.run("fig4", scenarios), strict=True):
        phases = {phase["name"]: phase for phase in result.report["hosts"][0]["phases"]}
        total = result.report["window_ns"] - phases["fill"]["time_ns"]
        read = phases["read"]["time_ns"]
        rows.append(
            {
                "elements": size,
                "model": model,
                "time_us": total / 1000,
                "read_us": read / 1000,
                "paper_lines": MODELS[model][0],
            }
        )
    return pd.DataFrame(rows)


def _times(table: pd.DataFrame, size: int) -> dict[str, float]:
    part = table[table.elements == size]
    return dict(zip(part.model, part.time_us, strict=True))


def claims(table: pd.DataFrame) -> list[Claim]:
    """Unified memory pays for its faults; "comparable" is read as within 20 %."""
    times = _times(table, JUDGED)
    found = [
        Claim(
            "unified memory over explicit copies, time",
            (1.0, math.inf),
            times["unified"] / times["explicit"],
            0.0,
        ),
        Claim(
            "Cohet over unified memory, time", (0.0, 1.0), times["cohet"] / times["unified"], 0.0
        ),
    ]
    found.append(
        Claim(
            "Cohet over explicit copies, time (comparable)",
            (0.0, 1.0),
            times["cohet"] / times["explicit"],
            0.2,
        )
    )
    for size in SIZES:
        times = _times(table, size)
        found.append(
            Claim(
                f"Cohet over explicit copies, {size} elements",
                "comparable",
                times["cohet"] / times["explicit"],
                None,
            )
        )
    return found


def draw(table: pd.DataFrame) -> Drawing:
    """Bars by size, and the paper's lines of code."""
    figure, (left, right) = plt.subplots(
        1, 2, figsize=(8.5, 3.6), width_ratios=[3, 1.4], layout="constrained"
    )
    for place, (model, (lines, colour)) in enumerate(MODELS.items()):
        times = [_times(table, size)[model] for size in SIZES]
        at = [index + 0.27 * (place - 1) for index in range(len(SIZES))]
        bars = left.bar(at, times, 0.27, color=colour, label=model)
        left.bar_label(bars, fmt="{:,.0f}", padding=2, fontsize=7)
        right.bar_label(right.bar(model, lines, color=colour))
    left.set_yscale("log")
    left.set_xticks(range(len(SIZES)), [f"{size:,}" for size in SIZES])
    left.set(xlabel="elements", ylabel="time without filling (us)")
    left.legend(fontsize=8)
    for axes in (left, right):
        axes.grid(axis="x", visible=False)
    right.set(title="lines of code, the paper's")
    figure.suptitle("AXPY in three programming models, 1.5 GHz (Cohet Fig. 4)")
    return figure


FIGURE = Figure("fig4", "AXPY in three programming models", collect, claims, draw)
