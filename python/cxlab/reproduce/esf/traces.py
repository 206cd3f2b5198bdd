"""Runs of the paper's five traces over topologies: Figs. 18 and 19.

The system is that of the paper's public artifact: a requester and a memory on each of eight
switches, and every requester replays the trace. The windows are steady states, as in all
experiments of the paper: every requester is active from beginning to end.

The number of requests in flight determines how far the ratios are apart. The paper does not state
it. The artifact has 4 a requester, with DRAMsim3's DDR4-3200. That number is judged, with fixed
latency and with DRAM by commands. So is 16, the power of two that comes nearest to one number of
the paper: the throughput of the full connection, which is therefore fitted. 8 and 32 are shown.

The artifact distributes a trace's accesses to the memories in turn, regardless of their
addresses. A stride of one interleave granule has the same effect. It is run in addition to
the traces, in which addresses decide.
"""

from collections.abc import Callable
from pathlib import Path

import pandas as pd
from matplotlib import pyplot as plt
from matplotlib.figure import Figure as Drawing

from cxlab._types import Value
from cxlab.reproduce import Claim, Settings
from cxlab.reproduce.esf.common import GREEN, ORANGE, RED, scenario
from cxlab.reproduce.ledger import Kind, Tolerance, tested

QUOTES = {
    "tree": "both the chain and the tree exhibit the lowest throughput and highest average memory "
    "latency",
    "ring": "ring can achieve 1.72× throughput and 0.57× average latency",
    "spine-leaf": "achieving 2.27×, 3.63× throughput and 0.44×, 0.28× average latency",
    "fully-connected": "achieving 2.27×, 3.63× throughput and 0.44×, 0.28× average latency",
}
#: Explanations of misses with few requests in flight, and with unequal load of memories.
WHY_FEW = tested(
    "with 4 in flight links are not full, and latency without load decides; DRAM by commands does "
    "not change that"
)
WHY_UPLINKS = tested(
    "the traces' addresses load memories unequally, and a leaf's bound is that of its busiest "
    "memory; dealt in turn, as the artifact does it, the limit of the uplinks (16/7) is reached"
)

TRACES = ("BTree", "liblinear", "redis", "silo", "XSBench")
FILES = tuple(f"{name}.trace.gz" for name in TRACES)
#: Topologies beside the chain.
OTHERS = {"ring": GREEN, "spine-leaf": ORANGE, "fully-connected": RED}
#: Requests in flight of each requester: the artifact's, and the fitted number.
OUTSTANDING = (4, 8, 16, 32)
ARTIFACT, JUDGED = 4, 16
#: Memory backends: the scenario's, and the artifact's DDR4_8Gb_x8_3200 by commands.
FIXED, COMMANDS = "fixed", "DDR4-3200 by commands"
_DRAM: dict[str, Value] = {
    "devices[0].memory": {"kind": "dram", "grade": "DDR4-3200AA"},
}
#: Accesses that are distributed to the memories in turn, in place of a trace.
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
    settled = [(FIXED, outstanding) for outstanding in OUTSTANDING] + [(COMMANDS, ARTIFACT)]
    cases = [
        (memory, outstanding, name, kind)
        for memory, outstanding in settled
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
                **(_DRAM if memory == COMMANDS else {}),
            },
        )
        for memory, outstanding, name, kind in cases
    ]
    table = pd.DataFrame(
        [
            {
                "memory": memory,
                "outstanding": outstanding,
                "trace": name,
                "topology": kind,
                "bandwidth_gb_per_s": result.report["bandwidth_gb_per_s"]["total"],
                "mean_ns": result.report["latency_ns"]["mean"],
                "media_ns": result.report["stages_ns"]["media"],
            }
            for (memory, outstanding, name, kind), result in zip(
                cases, settings.run(figure, scenarios), strict=True
            )
        ]
    )
    names = ["memory", "outstanding", "trace"]
    chain = table[table.topology == "chain"].set_index(names)
    keys = list(table[names].itertuples(index=False, name=None))
    table["throughput_over_chain"] = table.bandwidth_gb_per_s / [
        chain.bandwidth_gb_per_s[key] for key in keys
    ]
    table["latency_over_chain"] = table.mean_ns / [chain.mean_ns[key] for key in keys]
    return table


def claims(
    table: pd.DataFrame,
    column: str,
    what: str,
    paper: dict[str, float],
    tolerance: Tolerance,
    judge: Callable[[str, str], Kind],
) -> list[Claim]:
    """Means over the traces, and accesses in turn. ``judge`` gives a claim's kind."""
    found = []
    cases = [
        (FIXED, outstanding, f"mean of traces, {outstanding} in flight")
        for outstanding in OUTSTANDING
    ]
    cases.append((COMMANDS, ARTIFACT, f"mean of traces, {ARTIFACT} in flight, {COMMANDS}"))
    cases.append((FIXED, JUDGED, f"memories in turn as the artifact, {JUDGED} in flight"))
    for memory, outstanding, of in cases:
        for kind, value in paper.items():
            part = table[
                (table.memory == memory)
                & (table.outstanding == outstanding)
                & (table.topology == kind)
                & ((table.trace == IN_TURN) == of.startswith("memories"))
            ]
            claim = Claim(
                f"{kind}: {what} over chain, {of}",
                value,
                float(part[column].mean()),
                judge(kind, of),
                tolerance,
                section="V-E",
                quote=QUOTES[kind],
                why=WHY_FEW if outstanding == ARTIFACT else WHY_UPLINKS,
            )
            between = outstanding not in (ARTIFACT, JUDGED)
            found.append(
                claim.unjudged("neither the artifact's nor the fitted") if between else claim
            )
    return found


def draw(
    table: pd.DataFrame, column: str, what: str, paper: dict[str, float], number: int
) -> Drawing:
    """Draws bars by trace, and means by requests in flight beside the paper's."""
    figure, (left, right) = plt.subplots(
        1, 2, figsize=(10, 3.6), sharey=True, width_ratios=[3, 2], layout="constrained"
    )
    table = table[table.memory == FIXED]
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
