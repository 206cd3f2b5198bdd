"""Systems and measures that all sources share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from cxlab import Result, Scenario

#: Requests of a point, without the warm-up.
REQUESTS = 40_000


@dataclass(frozen=True, eq=False)
class System:
    """A host with some equal devices on root ports of its own, or behind a switch."""

    host: str
    device: str
    count: int = 1
    #: A preset of `fabric.switch`, or "" for its defaults; None for devices on root ports.
    switch: str | None = None
    #: A table of `hosts[].processor`; None for the host as a requester.
    core: Mapping[str, Any] | None = None
    #: What differs from the presets, by path.
    changes: Mapping[str, Any] = field(default_factory=dict)

    def scenario(self, name: str, changes: Mapping[str, Any]) -> Scenario:
        """The system as a scenario, with the changes of a point."""
        topology: dict[str, Any] = {"kind": "direct"}
        fabric: dict[str, Any] = {"topology": topology, "link": {"preset": "gen5-x8"}}
        if self.switch is not None:
            topology.update(kind="chain", switches=1)
            fabric["switch"] = {"preset": self.switch} if self.switch else {}
        host: dict[str, Any] = (
            {"processor": dict(self.core)} if self.core else {"issue": {"preset": self.host}}
        )
        table: dict[str, Any] = {
            "name": name,
            "measure": {"requests": REQUESTS},
            "fabric": fabric,
            "hosts": [
                {
                    "name": "host",
                    **host,
                    "workload": {"kind": "uniform", "read_ratio": 1.0},
                }
            ],
            "devices": [{"name": "device", "preset": self.device, "count": self.count}],
        }
        return Scenario.from_dict(table).update({**self.changes, **changes})


def idle(read_ratio: float = 1.0) -> dict[str, Any]:
    """The changes of an idle system: one request at a time, each to another line."""
    return {
        "hosts[0].issue.outstanding": 1,
        "hosts[0].workload": {"kind": "pointer-chase", "read_ratio": read_ratio},
        "measure.requests": 20_000,
    }


def full(read_ratio: float) -> dict[str, Any]:
    """The changes of a full system: as many requests as the host can have in flight."""
    return {"hosts[0].workload.read_ratio": read_ratio}


def paced(read_ratio: float, gb_per_s: float) -> dict[str, Any]:
    """The changes of a system with an offered load."""
    rate = f"{round(gb_per_s * 1e9)} B/s"
    return {"hosts[0].workload.read_ratio": read_ratio, "hosts[0].issue.rate": rate}


def latency(result: Result) -> float:
    """Mean latency of reads, or of writes where there are no reads, in ns."""
    report = result.report
    part = report["read_latency_ns"] if report["requests"]["reads"] else report["latency_ns"]
    return float(part["mean"])


def bandwidth(result: Result) -> float:
    """Bandwidth of reads and writes together, in GB/s."""
    return float(result.report["bandwidth_gb_per_s"]["total"])
