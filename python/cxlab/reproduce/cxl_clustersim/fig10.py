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
#: Channels of local memory: those that the paper's script gives an ARM node (darchr/cxl-clustersim,
#: `configs/arm_unified.py`: `DualChannelDDR4_2400`), and its Table 2's.
CHANNELS = (2, 1)
#: How long all run.
DURATION = "2 ms"
#: Latency added to a round trip to the pool, ns: that of the paper's `npb.json`; and none.
LATENCIES = (250, 0)


def cases() -> list[tuple[int, int]]:
    """Channels and latencies: the paper's first, then one of each changed."""
    return [
        (CHANNELS[0], LATENCIES[0]),
        *((channels, LATENCIES[0]) for channels in CHANNELS[1:]),
        *((CHANNELS[0], added) for added in LATENCIES[1:]),
    ]


def scenario(gibibytes: int, added: float = 0, channels: int = 1) -> Scenario:
    """All seven nodes, with so much local memory in the paper, and latency added to the pool."""
    values: dict[str, Value] = {"measure.duration": DURATION}
    for host in range(len(PROGRAMS)):
        values[f"hosts[{host}].workload.shrink"] = SHRINK
        values[f"hosts[{host}].processor.root_port_time"] = f"{ROOT_PORT + added / 2} ns"
        values[f"hosts[{host}].nodes[0].memory.channels"] = channels
        values[f"hosts[{host}].nodes[0].capacity"] = f"{gibibytes * 2**30 // SHRINK**3} B"
    return Scenario.from_file(DATA / "nas.toml").update(values)


def _words(channels: int) -> str:
    return f"{channels} local channel" + ("" if channels == 1 else "s")


def _is(table: pd.DataFrame, case: tuple[int, int]) -> Any:
    return (table.channels == case[0]) & (table.added_ns == case[1])


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
    """By channels, added latency and program: what is in the pool, and relative IPC.

    All run as long; what they have loaded and stored by then stands for their instructions.
    """
    own = [scenario(ALL_LOCAL, channels=channels) for channels in CHANNELS]
    pooled = [scenario(PREFERRED, added, channels) for channels, added in cases()]
    results = [_measured(one.report) for one in settings.run("fig10", [*own, *pooled])]
    local = dict(zip(CHANNELS, results, strict=False))
    tables = [
        table.assign(
            channels=channels,
            added_ns=added,
            local_gbps=local[channels].gbps,
            relative_ipc=table.gbps / local[channels].gbps,
        )
        for (channels, added), table in zip(cases(), results[len(CHANNELS) :], strict=True)
    ]
    return pd.concat(tables, ignore_index=True)


def claims(table: pd.DataFrame) -> list[Claim]:
    """Mg's point, those that fit, and the order."""
    first, *others = cases()
    by: pd.DataFrame = table[_is(table, first)].set_index("program")
    far = by[by.accesses_remote_percent > 1]
    order = far.relative_ipc.rank().corr(far.accesses_remote_percent.rank())
    resident = float(by.resident_mib["mg"]) * 2**20
    stranded = 100 * (1 - resident * SHRINK**3 / (ALL_LOCAL * 2**30))
    remote = float(by.accesses_remote_percent["mg"])
    found = [
        Claim("mg, accessed in the pool, %", 52.0, remote, 0.1),
        Claim("mg, relative IPC", 0.38, float(by.relative_ipc["mg"]), 0.1),
        Claim("mg, stranded of enough local memory, %", 79.0, stranded, 0.1),
    ]
    found += [
        Claim(f"{program}, relative IPC", 1.0, float(by.relative_ipc[program]), 0.05)
        for program in ("ep", "ua")
    ]
    text = "relative IPC against what is remote, rank correlation (falls: -1)"
    found.append(Claim(text, (-1.0, -0.5), float(order), 0.0))
    slower = float((far.relative_ipc < 0.95).all())
    found.append(Claim("all programs that use the pool are slower", 1.0, slower, 0.0))
    pages = float(by.pages_remote_percent["mg"])
    found.append(Claim("mg, in the pool, % of its pages", "no number", pages, None))
    found += [
        Claim(f"{program}, relative IPC", "no number", float(by.relative_ipc[program]), None)
        for program in ("bt", "cg", "ft", "sp")
    ]
    for channels, added in others:
        ipc = table[_is(table, (channels, added))].set_index("program").relative_ipc
        of = f"{_words(channels)}, {added} ns added"
        found += [
            Claim(f"{name}, relative IPC, {of}", "no number", float(ipc[name]), None)
            for name in PROGRAMS
        ]
    return found


def draw(table: pd.DataFrame) -> Drawing:
    """Points, and the paper's for mg."""
    figure, axes = plt.subplots(figsize=(5.5, 3.4), layout="constrained")
    first = cases()[0]
    for (channels, added), colour in zip(cases(), (BLUE, ORANGE, GREEN), strict=False):
        part = table[_is(table, (channels, added))]
        label = f"{added} ns added, {_words(channels)}"
        mark = "o" if (channels, added) == first else "x"
        ipc = part.relative_ipc
        axes.plot(part.accesses_remote_percent, ipc, mark, color=colour, label=label)
    named = table[_is(table, first)]
    points = zip(named.program, named.accesses_remote_percent, named.relative_ipc, strict=True)
    for program, x, y in points:
        # Those that fit lie on each other.
        shift = -10 if program == "ua" else 5
        axes.annotate(str(program), (x, y), textcoords="offset points", xytext=(6, shift))
    axes.plot([52], [0.38], "ks", label="paper: mg")
    axes.set(xlabel="accesses to the pool (% of a program's)", ylabel="relative IPC")
    axes.set_title("NAS programs, local memory preferred (CXL-ClusterSim Fig. 10)")
    axes.set_xlim(-5, 108)
    axes.set_ylim(0, 1.45 * max(1.0, table.relative_ipc.max()))
    axes.legend(fontsize=7, loc="upper right")
    return figure


FIGURE = Figure("fig10", "seven NAS programs: local memory preferred", collect, claims, draw)
