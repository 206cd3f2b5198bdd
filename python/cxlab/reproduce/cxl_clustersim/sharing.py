"""Shared by Figs. 11 and 12: six graph kernels, together on one graph and each alone."""

from collections.abc import Sequence
from typing import Any

import pandas as pd

from cxlab._scenario import Scenario
from cxlab._types import Value
from cxlab.reproduce import Settings
from cxlab.reproduce.cxl_clustersim.common import DATA, ROOT_PORT

#: Kernels in the order of the scenario's hosts.
KERNELS = ("bfs", "bc", "cc", "cc-sv", "pr", "tc")
#: Number of vertices, as a power of 2.
SCALE = 12
#: Latency of a round trip that the paper adds, in ns, and others.
ADDED = 250
LATENCIES = (0, ADDED, 500)


def together(added: float) -> Scenario:
    """All six kernels on the graph in the blade, which the first host has written."""
    values: dict[str, Value] = {}
    for host in range(len(KERNELS)):
        values[f"hosts[{host}].workload.scale"] = SCALE
        values[f"hosts[{host}].processor.root_port_time"] = f"{ROOT_PORT + added / 2} ns"
    return Scenario.from_file(DATA / "graph.toml").update(values)


def private() -> Scenario:
    """Each kernel with the graph in its own memory. Nothing is shared, and the blade is unused."""
    values: dict[str, Value] = {}
    for host in range(len(KERNELS)):
        values[f"hosts[{host}].workload.scale"] = SCALE
        values[f"hosts[{host}].workload.graph"] = "local"
        values[f"hosts[{host}].workload.loading"] = "prepared"
    return Scenario.from_file(DATA / "graph.toml").update(values)


def collect(settings: Settings, figure: str, latencies: Sequence[float]) -> pd.DataFrame:
    """Measurements of each kernel: alone, and together by added latency."""
    cases = [("private", 0.0, private())]
    cases += [("together", added, together(added)) for added in latencies]
    results = settings.run(figure, [scenario for *_, scenario in cases])
    rows: list[dict[str, Any]] = []
    for (memory, added, _), result in zip(cases, results, strict=True):
        for kernel, host in zip(KERNELS, result.report["hosts"], strict=True):
            run = next(phase for phase in host["phases"] if phase["name"] == "run")
            rows.append(
                {
                    "memory": memory,
                    "added_ns": added,
                    "kernel": kernel,
                    "time_us": run["time_ns"] / 1e3,
                    "on_memory": run["on_memory"],
                    "on_graph": run["on_cxl"],
                    "from_own": run["from_own"],
                    "from_blade": run["from_cxl"],
                    "ipc": run["on_memory"] / run["time_ns"],
                }
            )
    return pd.DataFrame(rows)
