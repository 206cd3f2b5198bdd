"""Victim policies of a snoop filter: bandwidth, latency and invalidations over those of FIFO.

The paper's setting, and the same with one thing changed at a time. One of them is what the public
simulator's own experiment has, to be held against what that simulator measures.
"""

import pandas as pd
from matplotlib import pyplot as plt
from matplotlib.figure import Figure as Drawing

from cxlab._types import Value
from cxlab.reproduce import Claim, Figure, Settings
from cxlab.reproduce.esf.common import BLUE, DATA, GREEN, ORANGE, PURPLE, SKY, scenario

POLICIES = {"fifo": BLUE, "lru": SKY, "lifo": ORANGE, "mru": PURPLE, "lfi": GREEN}
#: Columns, and what they are called.
METRICS = {
    "bandwidth": "bandwidth",
    "latency": "average latency",
    "invalidations": "invalidations",
}
PAPER = "the paper's"
XERXES = "public Xerxes'"
#: What each setting changes of the scenario.
SETTINGS: dict[str, dict[str, Value]] = {
    PAPER: {},
    "cache takes an access and a snoop at any time": {
        "hosts[0].issue.issue_interval": "2 ns",
        "hosts[0].issue.cache.snoop_time": "0 ns",
    },
    "one access at a time": {"hosts[0].issue.outstanding": 1},
    "cache and filters of 8 ways": {
        "hosts[0].issue.cache.ways": 8,
        "devices[0].coherence.filter.ways": 8,
    },
    "each of the four filters as large as the cache": {
        "measure.warmup_requests": 4_000_000,
        "devices[0].coherence.filter.lines": 4096,
    },
    "clean lines leave with MemClnEvct": {"hosts[0].issue.cache.clean_evict": True},
    "MemClnEvct, cache of 8 ways": {
        "hosts[0].issue.cache.clean_evict": True,
        "hosts[0].issue.cache.ways": 8,
    },
    "16,000 accesses after 16,000": {
        "measure.warmup_requests": 16_000,
        "measure.requests": 16_000,
    },
    # configs/victim.py of Halifuda/Xerxes, commit 097b6de: a run from empty over 1 MiB, one filter
    # of 8 ways, and a cache that never evicts: its capacity is given in bytes and taken in lines.
    XERXES: {
        "measure.warmup_requests": 0,
        "measure.requests": 30_000,
        "hosts[0].workload.footprint": "1 MiB",
        "hosts[0].issue.cache.size": "1 MiB",
        "hosts[0].issue.cache.ways": 16_384,
        "hosts[0].issue.cache.snoop_time": "14 ns",
        "devices[0].count": 1,
        "devices[0].coherence.filter.lines": 3_280,
        "devices[0].coherence.filter.ways": 8,
    },
}


def _xerxes() -> pd.DataFrame:
    """Public Xerxes (Halifuda/Xerxes, commit 097b6de), measured."""
    return pd.read_csv(DATA / "xerxes-fig14.csv").set_index("policy")


def collect(settings: Settings) -> pd.DataFrame:
    """Runs every policy in every setting."""
    cases = [(setting, policy) for setting in SETTINGS for policy in POLICIES]
    scenarios = [
        scenario(
            "esf-fig14",
            SETTINGS[setting] | {"devices[0].coherence.victim": {"kind": policy}},
        )
        for setting, policy in cases
    ]
    rows = []
    for (setting, policy), result in zip(cases, settings.run("fig14", scenarios), strict=True):
        report = result.report
        accesses = report["requests"]["completed"]
        rows.append(
            {
                "setting": setting,
                "policy": policy,
                "bandwidth_gbps": report["bandwidth_gbps"]["total"],
                "mean_ns": report["latency_ns"]["mean"],
                "misses_per_access": 1 - report["requests"]["cache_hits"] / accesses,
                "invalidations_per_access": sum(
                    device["coherence"]["evictions"] for device in report["devices"]
                )
                / accesses,
            }
        )
    table = pd.DataFrame(rows)
    fifo = table[table.policy == "fifo"].set_index("setting")
    columns = zip(METRICS, ("bandwidth_gbps", "mean_ns", "invalidations_per_access"), strict=True)
    for metric, column in columns:
        table[metric] = table[column] / table.setting.map(fifo[column])
    return table


def _over_fifo(table: pd.DataFrame, setting: str) -> pd.DataFrame:
    return table[table.setting == setting].set_index("policy")


def claims(table: pd.DataFrame) -> list[Claim]:
    """LIFO and MRU invalidate less than FIFO and LRU, and LFI a little more than LIFO."""
    ours = _over_fifo(table, PAPER)
    better = all(
        ours.bandwidth[new] > ours.bandwidth[old]
        and ours.latency[new] < ours.latency[old]
        and ours.invalidations[new] < ours.invalidations[old]
        for new in ("lifo", "mru")
        for old in ("fifo", "lru")
    )
    between = ours.invalidations["lifo"] < ours.invalidations["lfi"] < 1
    found = [
        Claim("LIFO and MRU beat FIFO and LRU in all three (1: yes)", 1, float(better), 0),
        Claim("LFI between FIFO and LIFO (1: yes)", 1, float(between), 0),
        Claim("LRU over FIFO: invalidations", 1.0, ours.invalidations["lru"], 0.02),
        Claim("MRU over LIFO: invalidations", 1.0, _mru_over_lifo(ours), 0.02),
        Claim("LIFO over FIFO: bandwidth", 1.05, ours.bandwidth["lifo"], 0.02),
        Claim("LIFO over FIFO: average latency", 0.85, ours.latency["lifo"], 0.1),
        Claim("LIFO over FIFO: invalidations", 0.84, ours.invalidations["lifo"], 0.1),
        Claim("LFI over FIFO: invalidations", 0.85, ours.invalidations["lfi"], 0.1),
    ]
    xerxes = _xerxes()
    theirs = xerxes / xerxes.loc["fifo"]
    same = _over_fifo(table, XERXES)
    found += [
        Claim(
            f"public Xerxes (not the paper), its own setting: {policy.upper()} over FIFO, {name}",
            float(theirs[metric][policy]),
            same[metric][policy],
            0.1,
        )
        for policy in ("lifo", "lfi")
        for metric, name in METRICS.items()
    ]
    return found


def _mru_over_lifo(ours: pd.DataFrame) -> float:
    return float(ours.invalidations["mru"] / ours.invalidations["lifo"])


def draw(table: pd.DataFrame) -> Drawing:
    """Bars by policy, and LIFO's invalidations by setting."""
    figure, (left, right) = plt.subplots(
        1, 2, figsize=(11, 3.8), width_ratios=[3, 2], layout="constrained"
    )
    ours = _over_fifo(table, PAPER)
    for shift, (policy, colour) in enumerate(POLICIES.items()):
        places = [at + (shift - 2) * 0.17 for at in range(len(METRICS))]
        values = [ours[metric][policy] for metric in METRICS]
        bars = left.bar(places, values, width=0.16, color=colour, label=policy.upper())
        left.bar_label(bars, fmt="%.2f", fontsize=7, padding=1)
    for at, value in enumerate((1.05, 0.85, 0.84)):
        left.hlines(value, at - 0.45, at + 0.45, colors="grey", linestyles="--", linewidth=1)
    left.plot([], [], "--", color="grey", linewidth=1, label="paper, LIFO")
    left.set_xticks(range(len(METRICS)), list(METRICS.values()))
    left.set(ylabel="over FIFO", ylim=(0, 1.35), title="the paper's setting, steady state")
    left.grid(axis="x", visible=False)
    left.legend(ncols=6, fontsize=7, loc="upper center")
    for at, setting in enumerate(SETTINGS):
        part = _over_fifo(table, setting)
        for metric, marker in zip(METRICS, ("^", "o", "s"), strict=True):
            right.plot(part[metric]["lifo"], at, marker, color=ORANGE, markersize=5)
    xerxes = _xerxes()
    theirs = (xerxes / xerxes.loc["fifo"]).loc["lifo"]
    for metric, marker in zip(METRICS, ("^", "o", "s"), strict=True):
        at = list(SETTINGS).index(XERXES)
        right.plot(theirs[metric], at, marker, color="black", markerfacecolor="none", markersize=9)
        right.plot([], [], marker, color=ORANGE, markersize=5, label=METRICS[metric])
    right.plot([], [], "o", color="black", markerfacecolor="none", label="measured with Xerxes")
    right.axvline(1, color="grey", linewidth=1)
    right.set_yticks(range(len(SETTINGS)), list(SETTINGS), fontsize=7)
    right.invert_yaxis()
    right.set(xlabel="LIFO over FIFO", title="by setting", xlim=(0.2, 2.6))
    right.legend(fontsize=7, loc="center right")
    figure.suptitle("Victim policies of a snoop filter (ESF Fig. 14)")
    return figure


FIGURE = Figure("fig14", "victim policies of a snoop filter", collect, claims, draw)
