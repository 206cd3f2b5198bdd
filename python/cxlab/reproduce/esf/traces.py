"""Runs of the paper's five traces over topologies: Figs. 18 and 19.

The system is that of the paper's public artifact: a requester and a memory on each of eight
switches, and every requester replays the trace. The windows are steady states, as the paper says of
all its experiments: every requester is at work from beginning to end.

How many requests are in flight decides how far the ratios lie apart. The artifact's 4 a requester
are with DRAMsim3, whose loaded latency is longer than our fixed one. So 16, the power of two that
comes nearest to one number of the paper (the throughput of the full connection, which is therefore
shown and not judged), is what the other numbers are judged with, and the rest is shown.

The artifact deals a trace's accesses to the memories in turn, whatever their addresses. A stride of
one interleave granule does the same; it is run beside the traces, whose addresses decide.
"""

from pathlib import Path

import pandas as pd
from matplotlib import pyplot as plt
from matplotlib.figure import Figure as Drawing

from cxlab._types import Value
from cxlab.reproduce import Claim, Settings
from cxlab.reproduce.esf.common import GREEN, ORANGE, RED, scenario

TRACES = ("BTree", "liblinear", "redis", "silo", "XSBench")
FILES = tuple(f"{name}.trace.gz" for name in TRACES)
#: Topologies beside the chain.
OTHERS = {"ring": GREEN, "spine-leaf": ORANGE, "fully-connected": RED}
#: Requests in flight of each requester.
OUTSTANDING = (4, 8, 16, 32)
JUDGED = 16
#: In place of a trace: accesses that are dealt to the memories in turn.
IN_TURN = "in turn"
#: Of 400,000 requests in all.
WINDOW: dict[str, Value] = {"measure.warmup_requests": 20_000, "measure.requests": 100_000}


def _topology(kind: str) -> Value:
    # The artifact's spine-leaf has one spine.
    spines: dict[str, Value] = {"leaves": 8, "spines": 1} if kind == "spine-leaf" else {}
    return {"kind": kind, "placement": "paired", **spines}


def _workload(path: Path | None) -> dict[str, Value]:
    if path is None:
        return {"hosts[0].workload": {"kind": "stride", "stride": "256 B", "footprint": "64 MiB"}}
    return {"hosts[0].workload.path": str(path)}


def collect(settings: Settings, figure: str) -> pd.DataFrame:
    """Throughput and latency of each trace on each topology, over those on the chain."""
    paths: dict[str, Path | None] = {**settings.trace_paths(FILES), IN_TURN: None}
    cases = [
        (outstanding, name, kind)
        for outstanding in OUTSTANDING
        for name in paths
        for kind in ("chain", "tree", *OTHERS)
    ]
    scenarios = [
        scenario(
            "esf-fig18",
            {
                **WINDOW,
                "fabric.topology": _topology(kind),
                "hosts[0].issue.outstanding": outstanding,
                **_workload(paths[name]),
            },
        )
        for outstanding, name, kind in cases
    ]
    table = pd.DataFrame(
        [
            {
                "outstanding": outstanding,
                "trace": name,
                "topology": kind,
                "bandwidth_gbps": result.report["bandwidth_gbps"]["total"],
                "mean_ns": result.report["latency_ns"]["mean"],
            }
            for (outstanding, name, kind), result in zip(
                cases, settings.run(figure, scenarios), strict=True
            )
        ]
    )
    chain = table[table.topology == "chain"].set_index(["outstanding", "trace"])
    keys = list(zip(table.outstanding, table.trace, strict=True))
    table["throughput_over_chain"] = table.bandwidth_gbps / [
        chain.bandwidth_gbps[key] for key in keys
    ]
    table["latency_over_chain"] = table.mean_ns / [chain.mean_ns[key] for key in keys]
    return table


def claims(
    table: pd.DataFrame, column: str, what: str, paper: dict[str, float], tolerance: float
) -> list[Claim]:
    """Means over the traces, and what is dealt in turn."""
    found = []
    for outstanding in OUTSTANDING:
        for kind, value in paper.items():
            part = table[(table.outstanding == outstanding) & (table.topology == kind)]
            judged = outstanding == JUDGED and (kind != "fully-connected")
            found.append(
                Claim(
                    f"{kind}: {what} over chain, mean of traces, {outstanding} in flight",
                    value,
                    float(part[part.trace != IN_TURN][column].mean()),
                    tolerance if judged else None,
                )
            )
    for kind, value in paper.items():
        part = table[(table.outstanding == JUDGED) & (table.topology == kind)]
        found.append(
            Claim(
                f"{kind}: {what} over chain, memories in turn as the artifact, {JUDGED} in flight",
                value,
                float(part[part.trace == IN_TURN][column].iloc[0]),
                tolerance if kind != "fully-connected" else None,
            )
        )
    return found


def draw(
    table: pd.DataFrame, column: str, what: str, paper: dict[str, float], number: int
) -> Drawing:
    """Bars by trace, and means by requests in flight beside the paper's."""
    figure, (left, right) = plt.subplots(
        1, 2, figsize=(10, 3.6), sharey=True, width_ratios=[3, 2], layout="constrained"
    )
    groups = list(table.trace.unique())
    for shift, (kind, colour) in enumerate(OTHERS.items()):
        part = table[(table.outstanding == JUDGED) & (table.topology == kind)]
        places = [at + (shift - 1) * 0.26 for at in range(len(groups))]
        bars = left.bar(places, part[column], width=0.25, color=colour, label=kind)
        left.bar_label(bars, fmt="%.2f", fontsize=7, padding=1)
        part = table[table.topology == kind]
        means = part[part.trace != IN_TURN].groupby("outstanding")[column].mean()
        right.plot(range(len(means)), means, "o-", color=colour, label=f"{kind}, traces")
        in_turn = part[part.trace == IN_TURN][column]
        right.plot(range(len(means)), in_turn, "^:", color=colour, markersize=4)
        right.axhline(paper[kind], color=colour, linestyle="--", linewidth=1)
    right.plot([], [], "^:", color="grey", markersize=4, label="memories in turn")
    right.plot([], [], "--", color="grey", linewidth=1, label="paper")
    left.set_xticks(range(len(groups)), groups)
    left.grid(axis="x", visible=False)
    left.set(ylabel=f"{what} / that of chain", title=f"{JUDGED} requests in flight a requester")
    right.set_xticks(range(len(OUTSTANDING)), [str(count) for count in OUTSTANDING])
    right.set(xlabel="requests in flight a requester", title="by requests in flight")
    left.legend(fontsize=8)
    right.legend(fontsize=8)
    figure.suptitle(f"{what.capitalize()} of traces by topology (ESF Fig. {number})")
    return figure
