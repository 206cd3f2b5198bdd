"""Shared by the figures: the cluster, placements of STREAM's pages, bandwidth at the memories."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import pandas as pd

from cxlab._scenario import Scenario
from cxlab._types import Value
from cxlab.reproduce import Settings
from cxlab.reproduce.ledger import Tolerance

DATA = Path(__file__).parent / "data"

#: Tolerance of bandwidths: the difference of the paper's own two counts of one. The second
#: is for losses, in percentage points.
PAPER_BOUND = Tolerance(
    0.0099,
    "the paper's own bound: \"The baseline and the reported bandwidth using CXL-ClusterSim are "
    'within 0.99%"',
    relative=True,
)
POINTS = Tolerance(0.99, PAPER_BOUND.source)

LOOPS = ("copy", "scale", "add", "triad")
LOCAL, INTERLEAVE, REMOTE = "local", "interleave", "remote"
#: Policies of numactl: node 0 is the host's own memory, node 1 the blade.
PLACEMENTS: dict[str, Value] = {
    LOCAL: {"kind": "bind", "nodes": [0]},
    INTERLEAVE: {"kind": "interleave", "nodes": [0, 1]},
    REMOTE: {"kind": "bind", "nodes": [1]},
}
#: Latency from a node to its link without added latency, in ns: gem5's crossbar.
ROOT_PORT = 1.0
#: Lines that a node reads from memory in parallel: the scenario's number, and the MSHRs of gem5's
#: third cache. Claims that depend on it are judged with both.
LINES, GEM5_LINES = 40, 20
#: The key of that number. 40 was chosen for Fig. 7.
LINES_KEY = "processor.llc.misses"
GIB = 2.0**30
LINE = 64


def scenario(
    nodes: int, placement: str, loop: str, changes: Mapping[str, Value] | None = None
) -> Scenario:
    """Nodes that run one of STREAM's loops repeatedly."""
    values: dict[str, Value] = {
        "hosts[0].count": nodes,
        "hosts[0].os.placement": PLACEMENTS[placement],
        "hosts[0].workload.loops": [loop],
        "hosts[0].processor.root_port_time": f"{ROOT_PORT} ns",
        **(changes or {}),
    }
    return Scenario.from_file(DATA / "cluster.toml").update(values)


def collect(
    settings: Settings, figure: str, cases: Sequence[tuple[Mapping[str, Value], Scenario]]
) -> pd.DataFrame:
    """Runs cases. Returns bandwidth of lines read and written at the memories, in GiB/s."""
    results = settings.run(figure, [scenario for _, scenario in cases])
    rows = []
    for (columns, _), result in zip(cases, results, strict=True):
        report = result.report
        seconds = report["window_ns"] * 1e-9
        own = [host["processor"] for host in report["hosts"]]
        local = sum(one["node0.dram.reads"] + one["node0.dram.writes"] for one in own)
        remote = sum(device["reads"] + device["writes"] for device in report["devices"])
        near = [link for link in report["links"] if link["direction"].startswith("node")]
        near += [link for link in report["links"] if link["direction"].startswith("sw0->node")]
        rows.append(
            {
                **columns,
                "local_gibps_per_node": local * LINE / seconds / GIB / len(own),
                "remote_gibps": remote * LINE / seconds / GIB,
                "node_links_gibps": sum(link["payload_bytes"] for link in near) / seconds / GIB,
                "latency_ns": report["latency_ns"]["mean"],
            }
        )
    return pd.DataFrame(rows)
