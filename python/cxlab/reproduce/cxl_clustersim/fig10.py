"""Seven nodes with NAS programs: local memory preferred and a pool, against enough local memory."""

from typing import Any

import pandas as pd
from matplotlib import pyplot as plt
from matplotlib.figure import Figure as Drawing

from cxlab._scenario import Scenario
from cxlab._types import Value
from cxlab.reproduce import Claim, Figure, Settings
from cxlab.reproduce.common import BLUE, GREEN, ORANGE
from cxlab.reproduce.cxl_clustersim.common import DATA, ROOT_PORT

#: Programs in the order of the scenario's hosts.
PROGRAMS = ("bt", "cg", "ep", "ft", "mg", "sp", "ua")
#: By what each side of class D's grids is divided; working sets and memories by its cube.
SHRINK = 16
#: The paper's local memories, GiB: without a pool, and with one.
ALL_LOCAL, PREFERRED = 128, 8
#: Channels of local memory: Table 2's, and as many as the pool has.
CHANNELS, MANY = 1, 4
#: How long all run.
DURATION = "2 ms"
#: Latency added to a round trip to the pool, ns: section 4.3 names none; the sharing case has 250.
LATENCIES = (0, 250)


def scenario(gibibytes: int, added: float = 0, channels: int = CHANNELS) -> Scenario:
    """All seven nodes, with so much local memory in the paper, and latency added to the pool."""
    values: dict[str, Value] = {"measure.duration": DURATION}
    for host in range(len(PROGRAMS)):
        values[f"hosts[{host}].workload.shrink"] = SHRINK
        values[f"hosts[{host}].processor.root_port_time"] = f"{ROOT_PORT + added / 2} ns"
        values[f"hosts[{host}].nodes[0].memory.channels"] = channels
        values[f"hosts[{host}].nodes[0].capacity"] = f"{gibibytes * 2**30 // SHRINK**3} B"
    return Scenario.from_file(DATA / "nas.toml").update(values)


def _measured(report: Any) -> pd.DataFrame:
    rows = []
    for program, host in zip(PROGRAMS, report["hosts"], strict=True):
        (run,) = host["phases"]
        own, pool = (
            host["processor"][name] for name in ("numa0.cpu.used_bytes", "numa1.memory.used_bytes")
        )
        rows.append(
            {
                "program": program,
                "resident_mib": (own + pool) / 2**20,
                "pages_remote_percent": 100 * pool / (own + pool),
                "accesses_remote_percent": 100 * run["on_cxl"] / run["on_memory"],
                "gbps": run["bytes"] / run["time_ns"],
            }
        )
    return pd.DataFrame(rows)


def collect(settings: Settings) -> pd.DataFrame:
    """By added latency and program: what lies in the pool, and relative IPC.

    All run as long; what they have loaded and stored by then stands for their instructions.
    """
    scenarios = [scenario(ALL_LOCAL), scenario(ALL_LOCAL, channels=MANY)]
    scenarios += [scenario(PREFERRED, added) for added in LATENCIES]
    own, many, *pooled = (_measured(result.report) for result in settings.run("fig10", scenarios))
    tables = [
        table.assign(
            added_ns=added,
            local_gbps=own.gbps,
            relative_ipc=table.gbps / own.gbps,
            relative_to_many_channels=table.gbps / many.gbps,
        )
        for added, table in zip(LATENCIES, pooled, strict=True)
    ]
    return pd.concat(tables, ignore_index=True)


def claims(table: pd.DataFrame) -> list[Claim]:
    """Mg's point, those that fit, and the order."""
    by = table[table.added_ns == LATENCIES[0]].set_index("program")
    far = by[by.pages_remote_percent > 1].sort_values("pages_remote_percent")
    order = far.relative_ipc.rank().corr(far.pages_remote_percent.rank())
    pool, resident = by.pages_remote_percent, float(by.resident_mib["mg"]) * 2**20
    stranded = 100 * (1 - resident * SHRINK**3 / (ALL_LOCAL * 2**30))
    found = [
        Claim("mg, in the pool, % of its pages", 52.0, float(pool["mg"]), 0.1),
        Claim("mg, relative IPC", 0.38, float(by.relative_ipc["mg"]), 0.1),
        Claim("mg, stranded of enough local memory, %", 79.0, stranded, 0.1),
    ]
    found += [
        Claim(f"{program}, relative IPC", 1.0, float(by.relative_ipc[program]), 0.05)
        for program in ("ep", "ua")
    ]
    text = "relative IPC against what is remote, rank correlation (falls: -1)"
    found.append(Claim(text, (-1.0, -0.5), float(order), 0.0))
    found += [
        Claim(f"{program}, relative IPC", "no number", float(by.relative_ipc[program]), None)
        for program in ("bt", "cg", "ft", "sp")
    ]
    against = by.relative_to_many_channels
    found += [
        Claim(
            f"{name}, relative IPC, against {MANY} local channels",
            "no number",
            float(against[name]),
            None,
        )
        for name in PROGRAMS
    ]
    for added in LATENCIES[1:]:
        ipc = table[table.added_ns == added].set_index("program").relative_ipc
        found += [
            Claim(f"{name}, relative IPC, {added} ns added", "no number", float(ipc[name]), None)
            for name in PROGRAMS
        ]
    return found


def draw(table: pd.DataFrame) -> Drawing:
    """Points, and the paper's for mg."""
    figure, axes = plt.subplots(figsize=(5.5, 3.4), layout="constrained")
    for added, colour in zip(LATENCIES, (BLUE, ORANGE), strict=True):
        part = table[table.added_ns == added]
        label = f"{added} ns added"
        axes.plot(part.pages_remote_percent, part.relative_ipc, "o", color=colour, label=label)
    part = table[table.added_ns == LATENCIES[0]]
    label = f"against {MANY} local channels"
    ratio = part.relative_to_many_channels
    axes.plot(part.pages_remote_percent, ratio, "x", color=GREEN, label=label)
    for program, part in table.groupby("program"):
        place = (part.pages_remote_percent.iloc[0], part.relative_ipc.max())
        # Those that fit lie on each other.
        shift = -10 if program == "ua" else 5
        axes.annotate(str(program), place, textcoords="offset points", xytext=(6, shift))
    axes.plot([52], [0.38], "ks", label="paper: mg")
    axes.set(xlabel="in the pool (% of a program's pages)", ylabel="relative IPC")
    axes.set_title("NAS programs, local memory preferred (CXL-ClusterSim Fig. 10)")
    axes.set_xlim(-5, 100)
    axes.set_ylim(0, 1.2 * max(1.0, table.relative_ipc.max()))
    axes.legend(fontsize=7)
    return figure


FIGURE = Figure("fig10", "seven NAS programs: local memory preferred", collect, claims, draw)
