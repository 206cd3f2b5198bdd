"""Reproduces figures of the ESF paper (An et al.) with cxlab, and says how close it comes.

Runs the scenarios in scenarios/ with changes, and writes CSV and PNG files beside this script and
claims.csv, a table of what the paper says and what was found. Exits with 1 when a claim with a
tolerance is missed.

Uses the command named by $CXLAB, or target/release/cxlab.
"""

import json
import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import pandas as pd

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
CXLAB = os.environ.get("CXLAB") or str(ROOT / "target" / "release" / "cxlab")
PORT_GBPS = 8.0  # fabric.link.bandwidth of esf-fig10 and noisy-neighbours
BUS_GBPS = 16.0  # fabric.link.bandwidth of duplex

# Okabe and Ito's colours, which colour-blind readers tell apart.
BLUE, ORANGE, GREEN, RED, PURPLE, SKY, BLACK = (
    "#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9", "#000000",
)
TOPOLOGIES = {
    "chain": BLUE, "tree": SKY, "ring": GREEN, "spine-leaf": ORANGE, "fully-connected": RED,
}
plt.rcParams.update({
    "font.size": 9, "axes.titlesize": 10, "axes.spines.top": False, "axes.spines.right": False,
    "axes.grid": True, "grid.color": "#dddddd", "axes.axisbelow": True, "legend.frameon": False,
    "savefig.dpi": 110,
})


def run(scenario: str, changes: dict[str, object]) -> dict:
    """The report of a scenario with changes; values are written as TOML."""
    with tempfile.TemporaryDirectory() as out:
        command = [CXLAB, "run", str(ROOT / "scenarios" / f"{scenario}.toml"), "-q", "--out", out]
        for path, value in changes.items():
            command += ["--set", f"{path}={toml(value)}"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            sys.exit(f"{' '.join(command)}\n{done.stderr}")
        return json.loads((Path(out) / "report.json").read_text())


def toml(value: object) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {toml(item)}" for key, item in value.items()) + " }"
    return json.dumps(value)


def run_all(figure: str, jobs: list[tuple[str, dict[str, object]]]) -> list[dict]:
    """Reports of many runs, in order; progress goes to standard error."""
    reports = []
    with ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
        for report in pool.map(lambda job: run(*job), jobs):
            reports.append(report)
            print(f"\r{figure}: {len(reports)} of {len(jobs)} runs", end="", file=sys.stderr)
    print(file=sys.stderr)
    return reports


def save(figure: plt.Figure, table: pd.DataFrame, name: str) -> None:
    table.to_csv(HERE / f"{name}.csv", index=False, float_format="%.6g")
    figure.savefig(HERE / f"{name}.png", bbox_inches="tight", metadata={"Software": None})
    plt.close(figure)


CLAIMS: list[dict] = []


def claim(figure: str, what: str, paper: float | str, ours: float, tolerance: float | None) -> None:
    """Notes a claim; without a tolerance it is shown and not judged."""
    deviation = ours / paper - 1 if isinstance(paper, (int, float)) else None
    verdict = "shown" if tolerance is None else "pass" if abs(deviation) <= tolerance else "MISS"
    CLAIMS.append({
        "figure": figure, "claim": what, "paper": paper, "cxlab": f"{ours:.4g}",
        "deviation": "" if deviation is None else f"{deviation:+.2%}",
        "tolerance": "" if tolerance is None else f"{tolerance:.0%}", "verdict": verdict,
    })


def fig10() -> None:
    """Aggregate bandwidth over the bandwidth of a port, by topology and scale."""
    law = {
        "chain": lambda n: 1, "tree": lambda n: 1, "ring": lambda n: 2,
        "spine-leaf": lambda n: n / 2, "fully-connected": lambda n: n,
    }
    cases = [(kind, n) for n in (2, 4, 8, 16, 32, 64) for kind in TOPOLOGIES]
    jobs = [
        ("esf-fig10", {
            "fabric.topology": {"kind": kind}, "hosts[0].count": n, "devices[0].count": n,
            "measure.warmup_requests": 1000 * n, "measure.requests": 2000 * n,
        })
        for kind, n in cases
    ]
    rows = []
    for (kind, n), report in zip(cases, run_all("Fig. 10", jobs)):
        ports = report["bandwidth_gbps"]["total"] / PORT_GBPS
        rows.append({"topology": kind, "scale": 2 * n, "ports": ports, "law": law[kind](n)})
        claim("10", f"{kind}, scale {2 * n}: ports", law[kind](n), ports, 0.1)
    table = pd.DataFrame(rows)
    figure, axes = plt.subplots(figsize=(6, 4))
    for kind, colour in TOPOLOGIES.items():
        part = table[table.topology == kind]
        tree = kind == "tree"  # lies on the chain: a hollow marker around it
        axes.plot(part.scale, part.ports, "s" if tree else "o", color=colour, label=kind,
                  markersize=10 if tree else 5, markerfacecolor="none" if tree else colour)
        axes.plot(part.scale, part.law, "-", color=colour, linewidth=1, zorder=0)
    axes.plot([], [], "-", color="grey", linewidth=1, label="law: 1, 1, 2, N/2, N")
    axes.set_xscale("log", base=2)
    axes.set_yscale("log", base=2)
    scales = sorted(table.scale.unique())
    axes.set_xticks(scales, [str(scale) for scale in scales])
    ticks = [2**k for k in range(7)]
    axes.set_yticks(ticks, [str(tick) for tick in ticks])
    axes.set(xlabel="system scale (N requesters + N memories)",
             ylabel="aggregate bandwidth / port bandwidth",
             title="Bridge bandwidth of topologies (ESF Fig. 10)")
    axes.legend()
    save(figure, table, "fig10")


def fig11() -> None:
    """Latency and its queueing part by links crossed, scale 16, under both arbitrations."""
    cases = [(arbitration, kind) for arbitration in ("round-robin", "age") for kind in TOPOLOGIES]
    jobs = [
        ("esf-fig10", {
            "fabric.topology": {"kind": kind}, "fabric.switch.arbitration": arbitration,
            "measure.warmup_requests": 50_000, "measure.requests": 100_000,
        })
        for arbitration, kind in cases
    ]
    rows, most, mean = [], {}, {}
    for (arbitration, kind), report in zip(cases, run_all("Fig. 11", jobs)):
        for hops in report["by_hops"]:
            rows.append({"arbitration": arbitration, "topology": kind, **hops})
        most[arbitration, kind] = report["by_hops"][-1]["mean_ns"]
        mean[arbitration, kind] = report["latency_ns"]["mean"]
    table = pd.DataFrame(rows)
    for other in ("chain", "tree"):
        for arbitration, tolerance in (("round-robin", None), ("age", 0.1)):
            claim("11", f"most hops, ring over {other}, arbitration {arbitration}", 0.5,
                  most[arbitration, "ring"] / most[arbitration, other], tolerance)
        claim("11", f"mean of all, ring over {other}, arbitration round-robin", 0.5,
              mean["round-robin", "ring"] / mean["round-robin", other], 0.1)
    figure, grid = plt.subplots(
        2, 5, figsize=(10, 5), sharey="row", sharex="col", layout="constrained",
        width_ratios=[max(2, table[table.topology == kind].hops.nunique()) for kind in TOPOLOGIES],
    )
    for axes, (arbitration, kind) in zip(grid.flat, cases):
        part = table[(table.arbitration == arbitration) & (table.topology == kind)]
        queue, rest = part.queue_ns / 1e3, (part.mean_ns - part.queue_ns) / 1e3
        axes.bar(part.hops, rest, color=BLUE, label="link, port, switch, device")
        axes.bar(part.hops, queue, bottom=rest, color=ORANGE, label="queueing")
        axes.set_xticks(part.hops)
        axes.set_xlim(part.hops.min() - 0.8, part.hops.max() + 0.8)
        axes.grid(axis="x", visible=False)
    for axes, kind in zip(grid[0], TOPOLOGIES):
        axes.set_title(kind.replace("fully-", "fully-\n"))
    for axes, arbitration in zip(grid[:, 0], ("round-robin", "oldest first")):
        axes.set_ylabel(f"{arbitration}\nmean latency, µs")
    figure.supxlabel("links crossed from device to requester", fontsize=9)
    figure.suptitle("Latency by hops, system scale 16, by arbitration (ESF Fig. 11)")
    figure.legend(*grid[0, 0].get_legend_handles_labels(), loc="outside lower right", ncols=2)
    save(figure, table, "fig11")


def fig13() -> None:
    """Bandwidth of a host beside noisy neighbours, by routing."""
    def change(routing: str, leaves: int, spines: int, alone: bool) -> dict[str, object]:
        changes: dict[str, object] = {
            "fabric.routing": routing,
            "fabric.topology": {"kind": "spine-leaf", "leaves": leaves, "spines": spines},
        }
        return changes | ({"hosts[0].requests": 1} if alone else {})

    shapes = [(6, 3)] + [(l, s) for l in (4, 6, 8, 10) for s in (2, 3, 4) if (l, s) != (6, 3)]
    routings = ("alone", "oblivious", "shortest", "random", "adaptive")
    cases = [(shape, routing) for shape in shapes for routing in routings]
    jobs = [
        ("noisy-neighbours", change("adaptive" if r == "alone" else r, *shape, r == "alone"))
        for shape, r in cases
    ]
    rows = []
    for ((leaves, spines), routing), report in zip(cases, run_all("Fig. 13", jobs)):
        victim = next(host for host in report["hosts"] if host["name"] == "victim")
        rows.append({
            "leaves": leaves, "spines": spines, "routing": routing,
            "victim_ports": victim["bandwidth_gbps"]["total"] / PORT_GBPS,
            "victim_latency_ns": victim["latency_ns"]["mean"],
            "neighbours_ports":
                (report["bandwidth_gbps"]["total"] - victim["bandwidth_gbps"]["total"]) / PORT_GBPS,
        })
    table = pd.DataFrame(rows)
    main = table[(table.leaves == 6) & (table.spines == 3)].set_index("routing").victim_ports
    claim("13", "victim: adaptive over alone", 1.0, main.adaptive / main.alone, 0.05)
    claim("13", "victim: oblivious over alone", "clearly below 1", main.oblivious / main.alone, None)
    figure, (left, right) = plt.subplots(
        1, 2, figsize=(9, 3.6), sharey=True, width_ratios=[2, 3], layout="constrained")
    colours = {"alone": "grey", "oblivious": RED, "shortest": ORANGE, "random": SKY, "adaptive": GREEN}
    bars = left.bar(main.index, main.values, color=[colours[name] for name in main.index])
    left.bar_label(bars, fmt="%.2f", padding=2)
    left.tick_params(axis="x", rotation=30)
    left.set(ylabel="victim's bandwidth / port bandwidth", ylim=(0, 0.6),
             title="shipped scenario: 6 leaves, 3 spines")
    left.grid(axis="x", visible=False)
    shapes.sort()
    for routing, marker, shift in (("oblivious", "o", -0.2), ("shortest", "s", 0), ("adaptive", "^", 0.2)):
        part = table[table.routing == routing].set_index(["leaves", "spines"]).victim_ports
        right.plot([at + shift for at in range(len(shapes))], [part[shape] for shape in shapes],
                   marker, color=colours[routing], label=routing, markersize=5)
    right.set_xticks(range(len(shapes)), [f"{l}×{s}" for l, s in shapes], rotation=45)
    right.set(xlabel="leaves × spines", title="twelve arrangements")
    right.legend(loc="lower right")
    figure.suptitle("A host at half a port's rate beside eight noisy neighbours (ESF Fig. 13)")
    save(figure, table, "fig13")


RATIOS = (1.0, 0.75, 0.5, 0.25, 0.0)
HEADERS = (0, 16, 32, 64)
HEADER_COLOURS = {0: BLACK, 16: BLUE, 32: GREEN, 64: RED}


def fig16_17() -> None:
    """Bandwidth, bus utility and transmission efficiency over mix, header and duplex."""
    cases = [
        (duplex, header, data_header, ratio)
        for duplex in ("full", "half") for header in HEADERS
        for data_header in sorted({0, header}) for ratio in RATIOS
    ]
    jobs = [
        ("duplex", {
            "measure.requests": 50_000, "fabric.link.duplex": duplex,
            "fabric.link.packet": {"header": f"{header} B", "data_header": f"{data_header} B"},
            "hosts[0].workload.read_ratio": ratio,
        })
        for duplex, header, data_header, ratio in cases
    ]
    rows = []
    for (duplex, header, data_header, ratio), report in zip(cases, run_all("Figs. 16, 17", jobs)):
        bus = [link for link in report["links"] if link["name"].startswith("host--")]
        busy = sum(link["utilization"] for link in bus)
        rows.append({
            "duplex": duplex, "header_bytes": header, "data_header_bytes": data_header,
            "read_ratio": ratio, "bandwidth_gbps": report["bandwidth_gbps"]["total"],
            # The mean over directions, or the sum where they share the wire.
            "bus_utility": busy / len(bus) if duplex == "full" else busy,
            "transmission_efficiency":
                sum(link["payload_bytes"] for link in bus) / sum(link["bytes"] for link in bus),
        })
    table = pd.DataFrame(rows)
    keys = ["duplex", "header_bytes", "data_header_bytes"]
    reads = table[table.read_ratio == 1.0].set_index(keys).bandwidth_gbps
    table["over_reads"] = [
        row.bandwidth_gbps / reads[row.duplex, row.header_bytes, row.data_header_bytes]
        for row in table.itertuples()
    ]
    xerxes = pd.read_csv(HERE / "xerxes-fig16.csv")
    xerxes_reads = xerxes[xerxes.read_ratio == 1.0].set_index("header_bytes").bandwidth_gbps
    xerxes["over_reads"] = [
        row.bandwidth_gbps / xerxes_reads[row.header_bytes] for row in xerxes.itertuples()
    ]

    def gain(duplex: str, header: int, data_header: int, ratio: float = 0.5) -> float:
        part = table[(table.duplex == duplex) & (table.header_bytes == header)
                     & (table.data_header_bytes == data_header) & (table.read_ratio == ratio)]
        return part.over_reads.iloc[0]

    claim("16", "full duplex, no header: 1:1 over reads", 2.0, gain("full", 0, 0), 0.01)
    claim("16", "full duplex, header = payload: 1:1 over reads", 1.0, gain("full", 64, 0), 0.01)
    half = [gain("half", header, 0, ratio) for header in HEADERS for ratio in RATIOS]
    claim("16", "half duplex: least over reads, any mix and header", 1.0, min(half), 0.01)
    claim("16", "half duplex: most over reads, any mix and header", 1.0, max(half), 0.01)
    for row in xerxes[xerxes.read_ratio == 0.5].itertuples():
        claim("16", f"public Xerxes (not the paper), header {row.header_bytes} B on lines too: 1:1 over reads",
              float(f"{row.over_reads:.4g}"), gain("full", row.header_bytes, row.header_bytes), None)
    point = table[(table.duplex == "full") & (table.header_bytes == 0)].set_index("read_ratio")
    claim("17", "full duplex, no header: utility of reads alone", 0.5, point.bus_utility[1.0], 0.01)
    claim("17", "full duplex, no header: utility of 1:1", 1.0, point.bus_utility[0.5], 0.01)

    ticks = (list(RATIOS), ["1:0", "3:1", "1:1", "1:3", "0:1"])
    figure, panels = plt.subplots(1, 3, figsize=(10, 3.4), sharey=True, layout="constrained")
    titles = ("full duplex, headers on messages\nwithout data (the paper's text)",
              "full duplex, headers on all\n(o: public Xerxes, measured)", "half duplex")
    for axes, title, duplex, both in zip(panels, titles, ("full", "full", "half"), (0, 1, 0)):
        for header in HEADERS:
            part = table[(table.duplex == duplex) & (table.header_bytes == header)
                         & (table.data_header_bytes == both * header)]
            axes.plot(part.read_ratio, part.over_reads, ".-", color=HEADER_COLOURS[header],
                      label=f"{header} B" + (" = payload" if header == 64 else ""))
            if both:
                part = xerxes[xerxes.header_bytes == header]
                axes.plot(part.read_ratio, part.over_reads, "o", color=HEADER_COLOURS[header],
                          markerfacecolor="none", markersize=7)
        axes.set(title=title, xlabel="reads : writes", ylim=(0, 2.1))
        axes.set_xticks(*ticks)
        axes.invert_xaxis()
    panels[0].set_ylabel("bandwidth / bandwidth of reads alone")
    panels[2].legend(title="header")
    figure.suptitle("What full duplex is worth (ESF Fig. 16)")
    save(figure, table, "fig16")

    figure, grid = plt.subplots(2, 2, figsize=(7, 5), sharex=True, sharey=True, layout="constrained")
    names = {"bus_utility": "bus utility", "transmission_efficiency": "transmission efficiency"}
    for top, row, (column, name) in zip((True, False), grid, names.items()):
        for axes, duplex in zip(row, ("full", "half")):
            for header in HEADERS:
                part = table[(table.duplex == duplex) & (table.header_bytes == header)
                             & (table.data_header_bytes == 0)]
                axes.plot(part.read_ratio, part[column], ".-", color=HEADER_COLOURS[header],
                          label=f"{header} B" + (" = payload" if header == 64 else ""))
            if top:
                axes.set_title(f"{duplex} duplex")
        row[0].set(ylabel=name, ylim=(0, 1.05))
    for axes in grid[1]:
        axes.set_xticks(*ticks)
        axes.set_xlabel("reads : writes")
    grid[0, 0].invert_xaxis()
    grid[0, 0].legend(title="header", fontsize=8)
    figure.suptitle("Bus utility and transmission efficiency (ESF Fig. 17)")
    save(figure, table[keys + ["read_ratio", "bus_utility", "transmission_efficiency"]], "fig17")


def loaded_latency() -> None:
    """Latency against bandwidth while the issue interval shrinks."""
    mixes = {"reads": (1.0, BLUE), "2:1": (2 / 3, GREEN), "writes": (0.0, RED)}
    intervals = (100, 50, 20, 10, 7, 5, 4, 3.5, 3, 2.8, 2.75, 2.7, 2.65, 2.6, 2.55, 2.5, 2.45, 2.4,
                 2.2, 2, 1.9, 1.8, 1.75, 1.7, 1.65, 1.6, 1.5, 1)
    cases = [(mix, interval) for mix in mixes for interval in intervals]
    jobs = [
        ("loaded-latency", {"hosts[0].workload.read_ratio": mixes[mix][0],
                            "hosts[0].issue.issue_interval": f"{interval} ns"})
        for mix, interval in cases
    ]
    rows = []
    for (mix, interval), report in zip(cases, run_all("loaded latency", jobs)):
        latency = report["latency_ns"]
        rows.append({
            "mix": mix, "issue_interval_ns": interval,
            "bandwidth_gbps": report["bandwidth_gbps"]["total"],
            "mean_ns": latency["mean"], "p99_ns": latency["p99"],
        })
    table = pd.DataFrame(rows)
    figure, axes = plt.subplots(figsize=(6, 4))
    for mix, (_, colour) in mixes.items():
        part = table[table.mix == mix]
        axes.plot(part.bandwidth_gbps, part.mean_ns, ".-", color=colour, label=f"{mix}, mean")
        axes.plot(part.bandwidth_gbps, part.p99_ns, ":", color=colour, label=f"{mix}, 99 %")
    axes.set(xlabel="bandwidth, GB/s", ylabel="latency, ns", ylim=(0, None),
             title="Loaded latency: PCIe 5.0 x8, one switch, four devices")
    axes.legend(loc="upper left")
    save(figure, table, "loaded-latency")


def main() -> int:
    if not Path(CXLAB).is_file():
        sys.exit(f"{CXLAB} is not there: build it (cargo build --release) or set CXLAB")
    for figure in (fig10, fig11, fig13, fig16_17, loaded_latency):
        figure()
    table = pd.DataFrame(CLAIMS)
    table.to_csv(HERE / "claims.csv", index=False)
    print(table.to_string(index=False))
    return int((table.verdict == "MISS").any())


if __name__ == "__main__":
    sys.exit(main())
