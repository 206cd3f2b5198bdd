"""The validation system: idle latency, peak bandwidth by mix, and latency under load.

The paper's Figs. 7 and 8 are bars and curves of hardware without numbers in the text. So its words
are checked, and the DRAM's share is held against what a detailed simulator measures.
"""

import pandas as pd
from matplotlib import pyplot as plt
from matplotlib.figure import Figure as Drawing

from cxlab._scenario import Scenario
from cxlab.reproduce import Claim, Figure, Settings
from cxlab.reproduce.esf.common import BLUE, GREEN, ORANGE, RED, SKY, scenario

#: Reads to writes, their share of reads, and a colour.
MIXES = {
    "1:0": (1.0, BLUE),
    "3:1": (0.75, SKY),
    "2:1": (2 / 3, GREEN),
    "1:1": (0.5, ORANGE),
    "0:1": (0.0, RED),
}
LOADED = ("1:0", "2:1", "1:1", "0:1")
INTERVALS = (100, 50, 20, 10, 5, 3, 2, 1.6, 1.4, 1.3, 1.2, 1.1, 1, 0.9, 0.8, 0.7, 0.5)
#: Table III, the wires and flits of PCIe 5.0 x16, and the medium: process 10, cache 12, four ports
#: of 2 x 25, four wires of 1, two switchings of 20, controller 40, flits of 1.079 and 2.158 ns on
#: two links, medium 46.
IDLE_NS = 10 + 12 + 4 * 50 + 4 * 1 + 2 * 20 + 40 + 2 * (1.079 + 2.158) + 46
#: Ramulator 2.1, DDR5-4800AN: a random read's latency by load, as a share of the peak bandwidth.
RAMULATOR = {0.0776: 44.83, 0.3822: 53.29}


def _loaded(mix: str, interval: float) -> Scenario:
    return scenario(
        "esf-section4",
        {
            "hosts[0].workload.read_ratio": MIXES[mix][0],
            "hosts[0].issue.issue_interval": f"{interval} ns",
        },
    )


def collect(settings: Settings) -> pd.DataFrame:
    """Runs the idle system, every mix at full load, and some at every interval."""
    idle = scenario("esf-table3", {"hosts[0].issue.outstanding": 1, "measure.requests": 10_000})
    cases = [("idle", "1:0", 0.0)]
    cases += [("peak", mix, 0.0) for mix in MIXES]
    cases += [("loaded", mix, interval) for mix in LOADED for interval in INTERVALS]
    scenarios = [idle] + [_loaded(mix, interval) for _, mix, interval in cases[1:]]
    rows = []
    for (part, mix, interval), result in zip(
        cases, settings.run("section4", scenarios), strict=True
    ):
        report = result.report
        rows.append(
            {
                "part": part,
                "mix": mix,
                "issue_interval_ns": interval,
                "bandwidth_gbps": report["bandwidth_gbps"]["total"],
                "mean_ns": report["latency_ns"]["mean"],
                "p99_ns": report["latency_ns"]["p99"],
                "media_ns": report["stages_ns"]["media"],
            }
        )
    return pd.DataFrame(rows)


def claims(table: pd.DataFrame) -> list[Claim]:
    """Stages add up, a mix has more bandwidth, and latency rises where the bandwidth ends."""
    idle = table[table.part == "idle"].iloc[0]
    peak = table[table.part == "peak"].set_index("mix").bandwidth_gbps
    mixing = peak["1:0"] < peak["3:1"] < peak["2:1"] < peak["1:1"]
    reads = table[(table.part == "loaded") & (table.mix == "1:0")]
    lowest = reads.iloc[0]
    half = reads[reads.bandwidth_gbps < peak["1:0"] / 2].iloc[-1]
    full = table[(table.part == "peak") & (table.mix == "1:0")].iloc[0]
    return [
        Claim("idle latency, ns: the sum of stages (not the paper's)", IDLE_NS, idle.mean_ns, 1e-5),
        Claim("bandwidth rises with the mix from 1:0 to 1:1 (1: yes)", 1, float(mixing), 0),
        Claim(
            "reads, half of the peak: latency over idle", "low", half.mean_ns / lowest.mean_ns, None
        ),
        Claim("reads, peak: latency over idle", "high", full.mean_ns / lowest.mean_ns, None),
        Claim(
            "idle medium, ns: Ramulator 2.1, DDR5-4800 at 8 % of its peak (not the paper's)",
            RAMULATOR[0.0776],
            idle.media_ns,
            0.1,
        ),
        Claim(
            "medium at peak of reads, ns: Ramulator 2.1 at 38 % of its peak (not the paper's)",
            RAMULATOR[0.3822],
            full.media_ns,
            0.1,
        ),
    ]


def draw(table: pd.DataFrame) -> Drawing:
    """Stages of the idle latency are in the docs; here peaks and curves."""
    figure, (left, right) = plt.subplots(
        1, 2, figsize=(9.5, 3.8), width_ratios=[2, 3], layout="constrained"
    )
    peak = table[table.part == "peak"]
    bars = left.bar(peak.mix, peak.bandwidth_gbps, color=[MIXES[mix][1] for mix in peak.mix])
    left.bar_label(bars, fmt="%.1f", padding=2)
    left.set(xlabel="reads : writes", ylabel="bandwidth, GB/s", title="peak bandwidth")
    left.margins(y=0.12)
    left.grid(axis="x", visible=False)
    idle = table[table.part == "idle"].mean_ns.iloc[0]
    right.axhline(idle, color="grey", linewidth=1, linestyle="--", label=f"idle, {idle:.1f} ns")
    for mix in LOADED:
        part = table[(table.part == "loaded") & (table.mix == mix)]
        right.plot(part.bandwidth_gbps, part.mean_ns, ".-", color=MIXES[mix][1], label=mix)
    right.set(
        xlabel="bandwidth, GB/s", ylabel="mean latency, ns", ylim=(0, None), title="under load"
    )
    right.legend(loc="upper left", fontsize=8)
    figure.suptitle("The validation system, Table III (ESF Figs. 7 and 8)")
    return figure


FIGURE = Figure(
    "section4", "the validation system: latency, bandwidth, load", collect, claims, draw
)
