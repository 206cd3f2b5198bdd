"""Shared by the figures: the five devices, their scenarios, and runs."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import pandas as pd

from cxlab._scenario import Scenario
from cxlab._types import Value
from cxlab.reproduce import Settings
from cxlab.reproduce.common import BLACK, BLUE, GREEN, ORANGE, RED
from cxlab.reproduce.ledger import Tolerance

DATA = Path(__file__).parent / "data"

#: Reading of "similar", "on par" and "close".
SIMILAR = Tolerance(
    0.07, "half of the smallest difference that the paper calls one, 14 %", relative=True
)

#: Misses in flight: those of gem5's first cache, and of its second. Both are judged.
MISSES = (4, 20)

DRAM, CXL_DRAM, PMEM, UNCACHED, CACHED = "DRAM", "CXL-DRAM", "PMEM", "CXL-SSD", "CXL-SSD, cache"
#: The paper's five devices.
DEVICES = {DRAM: BLACK, CXL_DRAM: BLUE, PMEM: GREEN, UNCACHED: RED, CACHED: ORANGE}

#: gem5's DDR4_2400_8x8, and its controller's 10 ns before and after.
_DDR4: Value = {"kind": "dram", "grade": "DDR4-2400U", "channels": 1}
_BEHIND: dict[str, Value] = {
    "devices[0].capacity": "512 MiB",
    "devices[0].controller.process_time": "20 ns",
}

_PMEM: dict[str, Value] = {
    "kind": "pmem",
    "mode": "simple",
    "write_done": "queued",
    "combine": False,
}

_MLC: dict[str, Value] = {
    "kind": "ssd",
    "flash": "mlc",
    "channels": 8,
    "ways": 4,
    "dies": 2,
    "planes": 1,
    "read_times": ["40 us", "65 us"],
    "program_times": ["500 us", "1300 us"],
    "erase_time": "3500 us",
    "suspend": "never",
    "over_provisioning": 0.25,
    "buffer": "32 MiB",
    "buffer_reads": False,
    "buffer_dirty": 0.9,
}
#: Flash of the base scenario, with SimpleSSD's defaults. Variants: reads look into the write cache;
#: a buffer of a page for each die; a low-latency drive with a buffer of a page for each plane; and
#: the base with pages that cost no read before they are written.
FLASH: dict[str, Value] = {
    "mlc": _MLC,
    "mlc-cache": {**_MLC, "buffer_reads": True},
    "mlc-1mib": {**_MLC, "buffer_reads": True, "buffer": "1 MiB"},
    "z-nand": {"kind": "ssd", "flash": "z-nand", "buffer": "512 KiB"},
    "mlc-fresh": {**_MLC, "unwritten": "zero"},
}


def scenario(
    device: str,
    workload: Mapping[str, Value],
    changes: Mapping[str, Value] | None = None,
    *,
    flash: str = "mlc",
) -> Scenario:
    """One of the five devices with a workload and changes.

    The index is always in the host's own memory. PMEM is on the memory bus: a device with memory
    of its own, whose link takes only the time of the wire. Its banks are behind gem5's memory
    controller, and write each line by itself as gem5 does.
    """
    values: dict[str, Value] = {"hosts[0].workload": {**workload, "data": "cxl"}}
    if device == DRAM:
        values["hosts[0].workload"] = {**workload, "data": "local"}
        values |= {**_BEHIND, "devices[0].memory": _DDR4}
    elif device == CXL_DRAM:
        values |= {**_BEHIND, "devices[0].memory": _DDR4}
    elif device == PMEM:
        values |= {
            **_BEHIND,
            "devices[0].memory": _PMEM,
            "fabric.edge_link.port_delay": "0 ns",
        }
    elif device == UNCACHED:
        values["devices[0].memory"] = FLASH[flash]
    elif device == CACHED:
        values["devices[0].memory.behind"] = FLASH[flash]
    else:
        raise ValueError(f"found device {device}; allowed: {', '.join(DEVICES)}")
    return Scenario.from_file(DATA / "cxl-ssd-sim.toml").update({**values, **(changes or {})})


def collect(
    settings: Settings, figure: str, cases: Sequence[tuple[dict[str, Value], Scenario]]
) -> pd.DataFrame:
    """Runs cases. Returns a row for each phase of each, with the case's own columns."""
    results = settings.run(figure, [scenario for _, scenario in cases])
    return pd.DataFrame(
        [
            {
                **columns,
                "phase": phase["name"],
                "operations_per_second": phase["operations_per_second"],
                "bandwidth_gb_per_s": phase["bandwidth_gb_per_s"],
                "load_latency_ns": phase["load_latency_ns"],
            }
            for (columns, _), result in zip(cases, results, strict=True)
            for phase in result.report["hosts"][0]["core"]["phases"]
        ]
    )
