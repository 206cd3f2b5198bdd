"""Remote atomic operations: CXL-NIC over PCIe-NIC on six patterns of CircusTent.

The paper does not state the number of processing elements, the array, or the atomic
operation. One processing element is judged, with one operation in flight as in the paper's
Fig. 8, on an array of 64 MiB by fetch-and-add, at the ASIC's clock. More processing
elements and other arrays are shown.
"""

import pandas as pd
from matplotlib import pyplot as plt
from matplotlib.figure import Figure as Drawing

from cxlab._scenario import Scenario
from cxlab.reproduce import Claim, Figure, Settings
from cxlab.reproduce.cohet import common
from cxlab.reproduce.cohet.common import ASIC, BLUE, GREEN, ORANGE, SKY
from cxlab.reproduce.ledger import PREDICTED, fitted, hypothesis, shown, words

#: Throughput of CXL-NIC over PCIe-NIC (section VI-D). The last three are between ("moderate").
PAPER = {"central": 40.2, "stride1": 22.4, "rand": 5.5}
MODERATE = ("scatter", "gather", "sg")
_MODERATE = "exhibit moderate speedups due to lower cache hit rates"
QUOTE = {
    "central": "achieves the highest speedup (40.2×)",
    "stride1": "STRIDE1 follows with a 22.4× speedup",
    "rand": "delivers a 5.5× throughput gain",
    "scatter": _MODERATE,
    "gather": _MODERATE,
    "sg": "The SG workload, which combines SCATTER and GATHER, follows a similar trend",
}
PATTERNS = (*PAPER, *MODERATE)
#: Processing elements. The first is judged.
ELEMENTS = {1: BLUE, 2: SKY, 4: GREEN, 8: ORANGE}
#: Array size in MiB: the judged one, and others for the pattern that depends on it. The device's
#: cache has 128 KiB, the host's 96 MiB.
ARRAY = 64
ARRAYS = (1, 8, 512)
ITERATIONS = 2000


def _scenario(pattern: str, interface: str, elements: int, mebibytes: int) -> Scenario:
    return common.scenario(
        ASIC,
        {
            "kind": "circus-tent",
            "pattern": pattern,
            "interface": interface,
            "iterations": ITERATIONS,
            "memory": f"{mebibytes} MiB",
        },
        {
            "accelerators[0].device.elements": elements,
            **(common.PCIE if interface == "pcie" else {}),
        },
    )


def collect(settings: Settings) -> pd.DataFrame:
    """Operations per second by both interfaces, and their ratio."""
    cases = [(pattern, count, ARRAY) for count in ELEMENTS for pattern in PATTERNS]
    cases += [("rand", 1, array) for array in ARRAYS]
    tables = {
        interface: common.collect(
            settings,
            f"fig17, {interface}",
            [
                (
                    {"pattern": pattern, "elements": count, "array_mib": array},
                    _scenario(pattern, interface, count, array),
                )
                for pattern, count, array in cases
            ],
        )
        for interface in ("cxl", "pcie")
    }
    table = tables["cxl"][["pattern", "elements", "array_mib"]].copy()
    for interface, part in tables.items():
        table[f"{interface}_per_second"] = part.operations_per_second
    table["speedup"] = table.cxl_per_second / table.pcie_per_second
    return table


def _speedups(table: pd.DataFrame, elements: int) -> dict[str, float]:
    part = table[(table.elements == elements) & (table.array_mib == ARRAY)]
    return dict(zip(part.pattern, part.speedup, strict=True))


def claims(table: pd.DataFrame) -> list[Claim]:
    """One element is judged. More elements and other arrays are shown."""
    one = _speedups(table, 1)
    found = [
        Claim(
            name.upper(),
            value,
            one[name],
            fitted("device.atomic_cycles", "processor.io_time"),
            common.PAPER_ERROR,
            section="VI-D",
            quote=QUOTE[name],
            why=hypothesis(
                "one value of atomic_cycles serves CENTRAL and STRIDE1; the paper does not say "
                "what else an operation takes"
            ),
        )
        for name, value in PAPER.items()
    ]
    found += [
        Claim(
            f"{name.upper()}: between RAND and STRIDE1",
            (PAPER["rand"], PAPER["stride1"]),
            one[name],
            PREDICTED,
            words("moderate is between the two that are stated"),
            section="VI-D",
            quote=QUOTE[name],
            why=hypothesis("the array or the number of elements differs"),
        )
        for name in MODERATE
    ]
    for count in list(ELEMENTS)[1:]:
        many = _speedups(table, count)
        found += [
            Claim(
                f"{name.upper()}, {count} elements", "not stated", many[name], shown("not stated")
            )
            for name in PAPER
        ]
    for array in ARRAYS:
        part = table[(table.pattern == "rand") & (table.array_mib == array)]
        found.append(
            Claim(
                f"RAND, array of {array} MiB",
                "not stated",
                float(part.speedup.iloc[0]),
                shown("not stated"),
            )
        )
    return found


def draw(table: pd.DataFrame) -> Drawing:
    """Bars by pattern, with a colour for each number of elements."""
    figure, axes = plt.subplots(figsize=(8, 3.8), layout="constrained")
    width = 0.8 / len(ELEMENTS)
    for place, (count, colour) in enumerate(ELEMENTS.items()):
        values = _speedups(table, count)
        at = [index + (place - 1.5) * width for index in range(len(PATTERNS))]
        label = f"{count} element{'s' if count > 1 else ''}"
        bars = axes.bar(at, [values[name] for name in PATTERNS], width, color=colour, label=label)
        axes.bar_label(bars, fmt="%.3g", fontsize=6, padding=3)
    axes.plot(
        [index - 1.5 * width for index in range(len(PAPER))],
        list(PAPER.values()),
        "k_",
        markersize=14,
        label="paper",
    )
    axes.set_xticks(range(len(PATTERNS)), [name.upper() for name in PATTERNS])
    axes.set(ylabel="throughput, CXL-NIC over PCIe-NIC")
    axes.legend(fontsize=8)
    axes.grid(axis="x", visible=False)
    axes.set_title("Remote atomic operations, 1.5 GHz, 64 MiB (Cohet Fig. 17)")
    return figure


FIGURE = Figure("fig17", "remote atomic operations by pattern", collect, claims, draw)
