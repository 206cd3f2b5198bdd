"""One blade of VLDB 2025, by pattern, size of access and threads.

A thread has as many lines in flight as its measured bandwidth alone, times the idle latency, needs.
So the row of one thread is fitted, and those of all other numbers of threads are predicted.
"""

from __future__ import annotations

from importlib import resources
from typing import Any

import pandas as pd
from matplotlib import pyplot as plt
from matplotlib.figure import Figure as Drawing

from cxlab.reproduce import Claim, Figure, Settings
from cxlab.reproduce.common import BLUE, ORANGE
from cxlab.reproduce.hardware.common import System, bandwidth
from cxlab.reproduce.ledger import PREDICTED, Tolerance, fitted, hypothesis

BLADE = System("emerald-rapids", "seagate-blade")
#: Idle latencies of reads and writes, medians of the same source, in ns.
READ_NS, WRITE_NS = 507, 346
#: Largest operation of a random pattern, in bytes: less than the lines that a thread has in flight.
LARGEST = 1024
BAR = Tolerance(0.10, "the bar of this page", relative=True)
#: What the host's streamer reads beyond the end of a random access of 1 KiB, a quarter of a page:
#: four lines, but none where the page ends, so three for 16 that are used.
STREAMER, IN_VAIN = {"after": 16, "beyond": 4}, 3 / 16
#: Rows that the parts `seagate-blade` was fitted by, beside those of one thread.
PEAKS = {("seq read", 64, 12), ("seq write", 256, 12), ("random read", 64, 48)}

KNEE = hypothesis(
    "threads issue in bursts, and the pages of a burst fill one channel before the others; the "
    "simulated lines spread evenly over the banks"
)
MERGED = hypothesis(
    "many threads with adjacent lines fill the write queues of the blade's media better"
)


def _data() -> pd.DataFrame:
    file = resources.files("cxlab.reproduce.hardware") / "data" / "blade.csv"
    with file.open(encoding="utf-8") as text:
        return pd.read_csv(text, comment="#")


def _lines(gb_per_s: float, *, write: bool) -> float:
    return gb_per_s * (WRITE_NS if write else READ_NS) / 64


def collect(settings: Settings) -> pd.DataFrame:
    """Runs every pattern, size and number of threads of the source."""
    table = _data()
    alone = table[table.threads == 1].set_index(["pattern", "access_bytes"]).gb_per_s
    scenarios = []
    for row in table.to_dict("records"):
        write = "write" in str(row["pattern"])
        lines = _lines(float(alone[(row["pattern"], row["access_bytes"])]), write=write)
        sequential = "seq" in str(row["pattern"])
        size = 64 if sequential else min(int(row["access_bytes"]), LARGEST)
        streamed = not sequential and row["access_bytes"] == 1024
        lines *= 1 + streamed * IN_VAIN
        changes: dict[str, Any] = {
            "hosts[0].issue.outstanding": max(size // 64, round(lines * int(row["threads"]))),
            "hosts[0].workload": {
                "kind": "stream" if sequential else "uniform",
                "read_ratio": 0.0 if write else 1.0,
                "request": f"{size} B",
            },
        }
        if streamed:
            changes["hosts[0].issue.overfetch"] = STREAMER
        name = f"blade-{row['pattern']}-{row['access_bytes']}-{row['threads']}".replace(" ", "-")
        scenarios.append(BLADE.scenario(name, changes))
    results = settings.run("blade", scenarios)
    return table.assign(simulated=[bandwidth(result) for result in results])


def _why(pattern: str, threads: int) -> str:
    return MERGED if pattern == "seq write" and threads > 12 else KNEE


def claims(table: pd.DataFrame) -> list[Claim]:
    """Every row of the source."""
    rows = []
    for row in table.to_dict("records"):
        pattern, size, threads = str(row["pattern"]), int(row["access_bytes"]), int(row["threads"])
        kind = PREDICTED
        if threads == 1:
            kind = fitted(f"lines in flight of a thread, {pattern} of {size} B")
        elif (pattern, size, threads) in PEAKS:
            kind = fitted("paths and banks of `seagate-blade`")
        elif (pattern, size, threads) == ("random read", 1024, 48):
            kind = fitted("lines that the streamer reads in vain")
        rows.append(
            Claim(
                f"{pattern} of {size} B, {threads} thread{'s' if threads > 1 else ''}",
                float(row["gb_per_s"]),
                float(row["simulated"]),
                kind,
                BAR,
                section="Weisgut et al., VLDB 2025, figure 4",
                quote=f"{row['gb_per_s']:g} GB/s",
                why=_why(pattern, threads),
            )
        )
    return rows


def draw(table: pd.DataFrame) -> Drawing:
    """Bandwidth over threads, measured and simulated, by pattern and size."""
    patterns = list(dict.fromkeys(table.pattern))
    sizes = sorted(set(table.access_bytes))
    figure, grid = plt.subplots(
        len(patterns), len(sizes), figsize=(9, 6), sharex=True, sharey="row", layout="constrained"
    )
    for row, pattern in zip(grid, patterns, strict=True):
        for axes, size in zip(row, sizes, strict=True):
            part = table[(table.pattern == pattern) & (table.access_bytes == size)]
            axes.plot(part.threads, part.gb_per_s, "o", color=BLUE, markersize=3, label="measured")
            axes.plot(part.threads, part.simulated, "-", color=ORANGE, label="simulated")
            axes.set_title(f"{pattern}, {size} B", fontsize=8)
        most = table[table.pattern == pattern][["gb_per_s", "simulated"]].to_numpy().max()
        row[0].set(ylabel="GB/s", ylim=(0, 1.05 * most))
    for axes in grid[-1]:
        axes.set_xlabel("threads")
    grid[0, 0].legend(fontsize=7)
    figure.suptitle("A Seagate CMA blade by pattern, size and threads (VLDB 2025)")
    return figure


FIGURE = Figure("blade", "a blade by pattern, size and threads", collect, claims, draw)
