"""Shared by the figures: the testbed and its ASIC, the measurements, and the paper's values."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pandas as pd
from matplotlib.axes import Axes

from cxlab._scenario import Scenario
from cxlab._types import Value
from cxlab.reproduce import Settings
from cxlab.reproduce.common import BLACK as BLACK
from cxlab.reproduce.common import BLUE as BLUE
from cxlab.reproduce.common import GREEN as GREEN
from cxlab.reproduce.common import ORANGE as ORANGE
from cxlab.reproduce.common import PURPLE as PURPLE
from cxlab.reproduce.common import SKY as SKY
from cxlab.reproduce.ledger import Tolerance

DATA = Path(__file__).parent / "data"

#: Tolerance of a calibrated model: the error of the paper's own simulator.
PAPER_ERROR = Tolerance(
    0.03,
    'the paper\'s own error: "our simulator achieves a mean absolute percentage error of 3%"',
    relative=True,
)

FPGA, ASIC = "FPGA, 400 MHz", "ASIC, 1.5 GHz"
#: The ASIC is the FPGA with another clock and the same cycles (Cohet, section VI-A2).
CLOCKS: dict[str, dict[str, Value]] = {
    FPGA: {},
    ASIC: {"accelerators[0].device.cycle": "667 ps"},
}
#: The same board as a PCIe device, which has no CXL.cache and uses DMA instead.
PCIE: dict[str, Value] = {"accelerators[0].device.kind": "pcie"}
#: Colours of the clocks: most figures compare the FPGA with hardware, and its ASIC.
CLOCK_COLOURS = {FPGA: BLUE, ASIC: ORANGE}

HMC, LLC, MEMORY = "HMC hit", "LLC hit", "memory hit"
#: Label of loads next to DMA.
CXL_MEMORY = "CXL.cache, memory hit"
#: Where the load/store unit finds its lines, and the kernel's name of that tier.
TIERS = {HMC: "hmc", LLC: "llc", MEMORY: "memory"}

#: NUMA nodes in the order of the scenario, by distance.
NODES = (7, 6, 5, 4, 0, 1, 2, 3)
NEAREST = NODES[0]

#: Loads of a repeat for latency and for bandwidth, and repeats (Cohet, sections VI-B and VI-C). The
#: paper repeats 1,000 times. Runs here have no noise but refresh, so fewer repeats suffice.
LATENCY_LINES, LATENCY_REPEATS = 32, 200
BANDWIDTH_LINES, BANDWIDTH_REPEATS = 2048, 10

#: Loads of two measurements. The difference is steady state, without the latency of the first
#: loads. The HMC holds 2,048 lines; loads from the host take about 75 refreshes.
STEADY_LINES = {HMC: (1024, 2048), LLC: (16_384, 65_536), MEMORY: (16_384, 65_536)}
#: Most loads in flight of a processing element, and cycles of the host (1 ms) in which all
#: lines that it flushed are written.
STEADY_OUTSTANDING, STEADY_SETTLE = 4096, 2_400_000

#: Sizes of messages, bytes (Figs. 14 and 16).
SIZES = tuple(64 << (2 * step) for step in range(7))

#: Messages of a run for latency. For bandwidth, as many as move this many bytes, within bounds.
DMA_MESSAGES = 100
DMA_BYTES = 16 << 20
DMA_BOUNDS = (64, 5000)


def scenario(clock: str, workload: Mapping[str, Value], changes: Mapping[str, Value]) -> Scenario:
    """The testbed at a clock with a workload and changes."""
    values = {**CLOCKS[clock], "hosts[0].workload": dict(workload), **changes}
    return Scenario.from_file(DATA / "cohet-fpga.toml").update(values)


def loads(clock: str, tier: str, lines: int, *, outstanding: int = 1, node: int = 7) -> Scenario:
    """The load/store unit on lines of a node, which are in the given tier."""
    repeats = LATENCY_REPEATS if outstanding == 1 else BANDWIDTH_REPEATS
    workload: dict[str, Value] = {
        "kind": "load-store-unit",
        "tier": TIERS[tier],
        "lines": lines,
        "outstanding": outstanding,
        "repeats": repeats,
        "base": f"{NODES.index(node)} GiB",
    }
    return scenario(clock, workload, {})


def latency(clock: str, tier: str, *, node: int = 7) -> Scenario:
    """The measurement of latency: dependent loads."""
    return loads(clock, tier, LATENCY_LINES, node=node)


def bandwidth(clock: str, tier: str, *, node: int = 7) -> Scenario:
    """The measurement of bandwidth including the first loads, with all loads in flight at once."""
    return loads(clock, tier, BANDWIDTH_LINES, outstanding=BANDWIDTH_LINES, node=node)


def steady_bandwidth(
    settings: Settings,
    figure: str,
    cases: Sequence[tuple[str, str, int]],
    changes: Mapping[str, Value] | None = None,
) -> list[float]:
    """Bandwidth of loads in steady state by clock, tier and node, in GB/s, on a changed testbed."""
    measured = [
        ({"lines": lines}, _steady(clock, tier, lines, node, changes or {}))
        for clock, tier, node in cases
        for lines in STEADY_LINES[tier]
    ]
    table = collect(settings, f"{figure}, steady state", measured)
    table["time_ns"] = 64 * table.lines / table.bandwidth_gb_per_s
    fewer, more = table.iloc[::2].reset_index(), table.iloc[1::2].reset_index()
    return list(64 * (more.lines - fewer.lines) / (more.time_ns - fewer.time_ns))


def _steady(clock: str, tier: str, lines: int, node: int, changes: Mapping[str, Value]) -> Scenario:
    workload: dict[str, Value] = {
        "kind": "load-store-unit",
        "tier": TIERS[tier],
        "lines": lines,
        "outstanding": STEADY_OUTSTANDING,
        "repeats": 1,
        "settle": STEADY_SETTLE,
        "base": f"{NODES.index(node)} GiB",
    }
    return scenario(clock, workload, changes)


def dma_latency(clock: str, size: int) -> Scenario:
    """DMA reads of the host's memory, one after the other."""
    return scenario(
        clock, {"kind": "dma-transfers", "bytes": f"{size} B", "messages": DMA_MESSAGES}, PCIE
    )


def dma_bandwidth(clock: str, size: int) -> Scenario:
    """DMA reads with as many descriptors in flight as the engine accepts."""
    messages = min(max(DMA_BYTES // size, DMA_BOUNDS[0]), DMA_BOUNDS[1])
    workload: dict[str, Value] = {
        "kind": "dma-transfers",
        "bytes": f"{size} B",
        "messages": messages,
        "outstanding": min(messages, 1000),
        "distinct": min(messages, 2000),
    }
    return scenario(clock, workload, PCIE)


#: Names of the phases that hold a measurement.
MEASURED = ("measure", "transfer", "atomics")


def collect(
    settings: Settings, figure: str, cases: Sequence[tuple[Mapping[str, object], Scenario]]
) -> pd.DataFrame:
    """Runs cases. Returns a row for each with its columns and the accelerator's measurements."""
    results = settings.run(figure, [scenario for _, scenario in cases])
    rows = []
    for (columns, _), result in zip(cases, results, strict=True):
        phases = result.report["accelerators"][0]["phases"]
        [phase] = [phase for phase in phases if phase["name"] in MEASURED]
        rows.append(
            {
                **columns,
                "p50_ns": phase["latency_ns"]["p50"],
                "mean_ns": phase["latency_ns"]["mean"],
                "min_ns": phase["latency_ns"]["min"],
                "max_ns": phase["latency_ns"]["max"],
                "bandwidth_gb_per_s": phase["bandwidth_gb_per_s"],
                "operations_per_second": phase["operations_per_second"],
            }
        )
    return pd.DataFrame(rows)


def size_label(size: int) -> str:
    """A size as the paper writes it."""
    return f"{size} B" if size < 1024 else f"{size >> 10} KB"


def dma_cases(
    sizes: Sequence[int], dma: Callable[[str, int], Scenario], loads_of_memory: Scenario
) -> list[tuple[dict[str, Value], Scenario]]:
    """DMA of every size at both clocks, and the FPGA's loads from memory beside it."""
    cases: list[tuple[dict[str, Value], Scenario]] = [
        ({"clock": clock, "path": "DMA", "bytes": size}, dma(clock, size))
        for clock in CLOCKS
        for size in sizes
    ]
    cases.append(({"clock": FPGA, "path": CXL_MEMORY, "bytes": 64}, loads_of_memory))
    return cases


def dma_curve(table: pd.DataFrame, clock: str, column: str) -> "pd.Series[float]":
    """A column of the DMA rows by message size."""
    part = table[(table.clock == clock) & (table.path == "DMA")]
    return part.set_index("bytes")[column]


def clock_bars(
    axes: Axes, values: Callable[[str], dict[str, float]], paper: Mapping[str, float], fmt: str
) -> None:
    """Bars by path, one for each clock, and the paper's values over the FPGA's."""
    for place, (clock, colour) in enumerate(CLOCK_COLOURS.items()):
        shown = values(clock)
        at = [index + 0.4 * (place - 0.5) for index in range(len(shown))]
        bars = axes.bar(at, list(shown.values()), 0.4, color=colour, label=clock)
        axes.bar_label(bars, fmt=fmt, padding=2, fontsize=8)
    axes.plot(
        [index - 0.2 for index in range(len(paper))],
        list(paper.values()),
        "k_",
        markersize=24,
        label="paper, FPGA",
    )
    axes.set_xticks(range(len(paper)), list(paper))
    axes.grid(axis="x", visible=False)
