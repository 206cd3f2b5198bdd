"""The slowest requests of a run, as its pages show them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

#: Number of requests of a log that a page has.
SLOWEST = 100


def slowest(
    columns: Mapping[str, np.ndarray], report: Mapping[str, Any]
) -> tuple[list[dict[str, Any]], int]:
    """The slowest requests of the measurement with their stages, and the number of all in it.

    ``columns`` are those of the request log. Of equal latencies the first rows come first.
    """
    import numpy as np

    latency = columns["completed_ps"] - columns["issued_ps"]
    measured = np.flatnonzero(columns["completed_ps"] > report["warmup_ns"] * 1e3)
    order = measured[np.argsort(-latency[measured], kind="stable")[:SLOWEST]]
    stages = [name for name in report["stages_ns"] if f"{name}_ps" in columns]
    rows = [
        {
            "host": int(columns["host"][at]),
            "device": int(columns["device"][at]) if columns["device"][at] >= 0 else None,
            "write": bool(columns["write"][at]),
            "issued_ps": int(columns["issued_ps"][at]),
            "latency_ps": int(latency[at]),
            "stages_ps": {stage: int(columns[f"{stage}_ps"][at]) for stage in stages},
        }
        for at in order
    ]
    return rows, len(measured)
