"""Cross-checks a medium of cxlab against a public simulator, on the same traffic.

    python3 adapters/compare.py dramsim3 --checkout ~/DRAMsim3
    python3 adapters/compare.py ramulator2-ddr4 --checkout ~/ramulator2
    python3 adapters/compare.py ramulator2-ddr5 --checkout ~/ramulator2
    python3 adapters/compare.py mqsim --checkout ~/MQSim

Builds the adapter of the simulator with CMake, and runs one host with one device over a link that
is faster than the memory: once with cxlab's own medium, once with the simulator, both of one
configuration. Prints a table in Markdown: latency in the medium (its queue and itself), and
bandwidth. Each comparison is one entry of `PAIRS`. See docs/guide/couple-a-medium.md.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median

ADAPTERS = Path(__file__).resolve().parent
LINE_BYTES = 64


@dataclass(frozen=True)
class Pair:
    """A configuration of a simulator, and the same of a medium of cxlab."""

    adapter: str
    """Folder of the adapter, below this one."""
    variable: str
    """The CMake variable that has the checkout."""
    library: str
    capacity: str
    own: str
    """Parameters of cxlab's medium, as TOML."""
    config: str
    """Text for the adapter. `{checkout}` and `{out}` are folders."""
    export: str | None = None
    """A script beside the adapter that describes Ramulator's configuration."""
    edit: tuple[str, tuple[tuple[str, str], ...]] | None = None
    """A file of the checkout that is copied, and what is replaced in the copy."""
    front: str = ""
    """What is in front of both media, as TOML: its `behind` is the medium."""
    requests: int = 50_000
    outstanding: int = 256
    mixed: str = "0.6667"


DRAMSIM3_DDR4 = """\
kind = "dram"
grade = "DDR4-2400U"
channels = 1
ranks = 2
clock = "830 ps"
mapping = "RoChRaBaBgCo"
bank_queue = 8
drain_above = 100
drain_below = 25
row_hit_cap = 1_000_000
yield_after = 4
timing = { rtw_gap = 1, rank_gap = 1, rfc = 420, refi = 9360 }
"""

RAMULATOR2_DDR4 = """\
kind = "dram"
grade = "DDR4-2400R"
channels = 1
row_hit_cap = 1_000_000
yield_after = 0
"""

RAMULATOR2_DDR5 = """\
kind = "dram"
grade = "DDR5-4800AN"
channels = 1
row_hit_cap = 1_000_000
yield_after = 0
"""

# ssdconfig.xml of MQSim with all of the mapping in DRAM, and a data cache whose DRAM is no limit
# (theirs moves 200 MB/s). MQSim writes new data to flash at once, and at most a page for each plane
# waits for that. A byte of its channel takes 3 ns; a read has 310 ns of commands and set-up.
SSD = """\
kind = "ssd"
flash = "mlc"
channels = {channels}
ways = {ways}
dies = {dies}
planes = {planes}
page = "8 KiB"
sub_page = "8 KiB"
pages = 256
blocks = {blocks}
command_time = "310 ns"
read_times = ["75 us", "75 us"]
program_times = ["750 us", "750 us"]
erase_time = "3.8 ms"
channel_rate = "333 MB/s"
suspend = "erase"
buffer_dirty = 0.0
over_provisioning = 0.07
"""


def drive(
    channels: int, ways: int, dies: int, planes: int, write_cache: bool = True
) -> dict[str, object]:
    """A drive of 16 GiB of flash: what a pair has for it."""
    blocks = 8192 // (channels * ways * dies * planes)
    shape = {"channels": channels, "ways": ways, "dies": dies, "planes": planes, "blocks": blocks}
    cached = f'buffer = "{channels * ways * dies * planes * 8} KiB"\n'
    changes = (
        ("Ideal_Mapping_Table", "false", "true"),
        ("Data_Cache_DRAM_Data_Rate", "100", "3200"),
        ("Data_Cache_DRAM_Data_Busrt_Size", "1", "8"),
        ("Flash_Channel_Count", "8", str(channels)),
        ("Chip_No_Per_Channel", "4", str(ways)),
        ("Die_No_Per_Chip", "2", str(dies)),
        ("Plane_No_Per_Die", "2", str(planes)),
        ("Block_No_Per_Plane", "2048", str(blocks)),
    )
    return {
        "own": SSD.format(**shape) + (cached if write_cache else 'acknowledge = "programmed"\n'),
        "config": 'xml="{out}/ssdconfig.xml" unit=8192' + ("" if write_cache else " cache=off"),
        "edit": (
            "ssdconfig.xml",
            tuple((f"<{key}>{old}<", f"<{key}>{new}<") for key, old, new in changes),
        ),
    }


# A drive is read in pages: a small cache in front fetches them.
CACHE = """\
kind = "dram-cache"
page = "8 KiB"
size = "16 MiB"
mshrs = 256
queue = 1024
"""


def mqsim(of: dict[str, object]) -> Pair:
    """A pair of a drive."""
    pair = Pair(
        adapter="mqsim",
        variable="MQSIM",
        library="libmqsim_medium.so",
        capacity="8 GiB",
        own="",
        config="",
        front=CACHE,
        requests=20_000,
    )
    return replace(pair, **of)  # type: ignore[arg-type]


PAIRS = {
    "dramsim3": Pair(
        adapter="dramsim3-medium",
        variable="DRAMSIM3",
        library="libdramsim3_medium.so",
        capacity="16 GiB",
        own=DRAMSIM3_DDR4,
        config='ini="{checkout}/configs/DDR4_8Gb_x8_2400.ini"',
    ),
    "ramulator2-ddr4": Pair(
        adapter="ramulator2",
        variable="RAMULATOR2",
        library="libramulator2_medium.so",
        capacity="8 GiB",
        own=RAMULATOR2_DDR4,
        config='yaml="{out}/ddr4_2400r.yaml"',
        export="ddr4_2400r.py",
    ),
    "ramulator2-ddr5": Pair(
        adapter="ramulator2",
        variable="RAMULATOR2",
        library="libramulator2_medium.so",
        capacity="8 GiB",
        own=RAMULATOR2_DDR5,
        config='yaml="{out}/ddr5_4800an.yaml"',
        export="ddr5_4800an.py",
    ),
    "mqsim": mqsim(drive(channels=8, ways=4, dies=2, planes=2)),
    "mqsim-plane": mqsim(drive(1, 1, 1, 1, write_cache=False)),
}

SCENARIO = """\
name = "compare"
seed = 1
measure = {{ requests = {requests}, warmup_requests = {warmup} }}

[fabric]
topology = {{ kind = "direct" }}
link = {{ generation = "6", lanes = 16 }}

[[hosts]]
name = "host"
workload = {{ kind = "{workload}", read_ratio = {read_ratio} }}
issue = {{ outstanding = {outstanding}, issue_interval = "{interval_ps} ps" }}

[[devices]]
name = "device"
capacity = "{capacity}"
[devices.memory]
{medium}
"""


class CheckError(Exception):
    """An error that the user can correct."""


@dataclass(frozen=True)
class Traffic:
    """What the host sends."""

    name: str
    workload: str
    read_ratio: str
    outstanding: int
    interval_ps: int = 0


@dataclass(frozen=True)
class Result:
    """What a run measured."""

    latency_ns: float
    """Mean time from a request's arrival at the medium's queue to its completion."""
    gb_per_s: float
    digest: str


class Bench:
    """Runs traffic on both media of a pair."""

    def __init__(self, pair: Pair, arguments: argparse.Namespace) -> None:
        self.pair = pair
        self.cxlab: str = arguments.cxlab
        self.out: Path = arguments.out.resolve()
        self.requests: int = arguments.requests or pair.requests
        self.out.mkdir(parents=True, exist_ok=True)
        checkout: Path = arguments.checkout.resolve()
        if pair.edit:
            edit(checkout, self.out, *pair.edit)
        library: Path = arguments.library or build(pair, checkout, self.out)
        if pair.export:
            export(pair.adapter, pair.export, checkout, self.out)
        config = pair.config.format(checkout=checkout, out=self.out)
        plugin = [
            'kind = "plugin"',
            f"library = {json.dumps(str(library.resolve()))}",
            f"config = {json.dumps(config)}",
        ]
        behind = f"{pair.front}\n[devices.memory.behind]\n" if pair.front else ""
        self.media = {"own": behind + pair.own, "theirs": behind + "\n".join(plugin)}

    def command(self, medium: str, traffic: Traffic) -> list[str]:
        """The command of a run, whose scenario is written."""
        pair = self.pair
        scenario = self.out / f"{medium}.toml"
        scenario.write_text(
            SCENARIO.format(
                requests=self.requests,
                warmup=self.requests // 5,
                workload=traffic.workload,
                read_ratio=traffic.read_ratio,
                outstanding=traffic.outstanding,
                interval_ps=traffic.interval_ps,
                capacity=pair.capacity,
                medium=self.media[medium],
            ),
            encoding="utf-8",
        )
        to = str(self.out / medium)
        return [self.cxlab, "run", str(scenario), "--out", to, "--quiet", "--trust-plugins"]

    def run(self, medium: str, traffic: Traffic) -> Result:
        """Runs traffic on one medium, `own` or `theirs`."""
        call(self.command(medium, traffic))
        report = json.loads((self.out / medium / "report.json").read_text(encoding="utf-8"))
        stages = report["stages_ns"]
        return Result(
            latency_ns=stages["media_queue"] + stages["media"],
            gb_per_s=report["bandwidth_gb_per_s"]["total"],
            digest=report["digest"],
        )

    def seconds(self, traffic: Traffic, rounds: int) -> dict[str, float]:
        """Median wall time of a run of each medium, taken in turn."""
        taken: dict[str, list[float]] = {medium: [] for medium in self.media}
        for _ in range(rounds):
            for medium, list_of in taken.items():
                command = self.command(medium, traffic)
                begin = time.monotonic()
                call(command)
                list_of.append(time.monotonic() - begin)
        return {medium: median(list_of) for medium, list_of in taken.items()}


def call(command: Sequence[str], env: dict[str, str] | None = None) -> None:
    """Runs a command, whose output is shown only if it fails."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, env=env)
    except OSError as error:
        raise CheckError(f"cannot run `{command[0]}`: {error.strerror}") from error
    if done.returncode != 0:
        shown = " ".join(command)
        raise CheckError(f"`{shown}` ended with {done.returncode}:\n{done.stdout}{done.stderr}")


def build(pair: Pair, checkout: Path, out: Path) -> Path:
    """Builds the adapter, and returns the path of its library."""
    if not shutil.which("cmake"):
        raise CheckError("found no `cmake`; install it, or give --library")
    folder = out / f"build-{pair.adapter}"
    source = str(ADAPTERS / pair.adapter)
    call(["cmake", "-S", source, "-B", str(folder), f"-D{pair.variable}={checkout}"])
    call(["cmake", "--build", str(folder), "--parallel", "2"])
    return folder / pair.library


def edit(checkout: Path, out: Path, name: str, changes: Sequence[tuple[str, str]]) -> None:
    """Copies a file of the checkout with changes, each of which must apply."""
    try:
        text = (checkout / name).read_text(encoding="utf-8")
    except OSError as error:
        raise CheckError(f"{checkout / name}: found no such file; --checkout is wrong") from error
    for before, after in changes:
        if before not in text:
            raise CheckError(f"{checkout / name}: found no `{before}`")
        text = text.replace(before, after)
    (out / name).write_text(text, encoding="utf-8")


def export(adapter: str, script: str, checkout: Path, out: Path) -> None:
    """Writes Ramulator's configuration with its own Python package, which needs no build."""
    env = os.environ | {
        "PYTHONPATH": str(checkout / "python"),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    to = out / Path(script).with_suffix(".yaml").name
    command = [sys.executable, "-m", "ramulator", "export", str(ADAPTERS / adapter / script)]
    call([*command, "-o", str(to)], env)


def commit(checkout: Path) -> str:
    """The commit of a checkout, or `unknown`."""
    command = ["git", "-C", str(checkout), "rev-parse", "--short=12", "HEAD"]
    done = subprocess.run(command, capture_output=True, text=True)
    return done.stdout.strip() if done.returncode == 0 else "unknown"


def row(bench: Bench, traffic: Traffic) -> tuple[Result, Result]:
    """Runs traffic on both media and prints a row."""
    own, theirs = bench.run("own", traffic), bench.run("theirs", traffic)

    def off(here: float, there: float) -> str:
        return f"{100 * (here / there - 1):+.1f} %" if there else "-"

    print(
        f"| {traffic.name} | {theirs.latency_ns:.2f} | {own.latency_ns:.2f} "
        f"| {off(own.latency_ns, theirs.latency_ns)} | {theirs.gb_per_s:.4g} "
        f"| {own.gb_per_s:.4g} | {off(own.gb_per_s, theirs.gb_per_s)} |",
        flush=True,
    )
    return own, theirs


def compare(bench: Bench, rounds: int) -> None:
    """Prints the rows of a pair, and its speed."""
    many = bench.pair.outstanding
    mixed = bench.pair.mixed
    print("| traffic | ns there | ns here | off | GB/s there | GB/s here | off |")
    print("|---|---:|---:|---:|---:|---:|---:|")
    row(bench, Traffic("random reads, one at a time", "uniform", "1.0", 1))
    peaks = {}
    for name, workload in (("random", "uniform"), ("sequential", "stream")):
        own, theirs = row(bench, Traffic(f"{name} reads, saturated", workload, "1.0", many))
        row(bench, Traffic(f"{name}, 2 reads to 1 write, saturated", workload, mixed, many))
        peaks[name, workload] = min(own.gb_per_s, theirs.gb_per_s)
    for (name, workload), peak in peaks.items():
        for percent in (50, 90):
            # GB/s are bytes per nanosecond.
            interval = round(LINE_BYTES / (peak * percent / 100) * 1000)
            title = f"{name} reads, {percent} % of the lower peak"
            row(bench, Traffic(title, workload, "1.0", many, interval))
    if rounds:
        print("\n| traffic | s there | s here | ratio |\n|---|---:|---:|---:|")
        for title, outstanding in (("one at a time", 1), ("saturated", many)):
            traffic = Traffic(title, "uniform", mixed, outstanding)
            seconds = bench.seconds(traffic, rounds)
            there, here = seconds["theirs"], seconds["own"]
            print(f"| random, {title} | {there:.2f} | {here:.2f} | {there / here:.1f} |")


def main() -> int:
    """The command. Returns the exit code."""
    parser = argparse.ArgumentParser(
        description="Compares a medium of cxlab with a public simulator on the same traffic."
    )
    parser.add_argument("pair", choices=sorted(PAIRS))
    parser.add_argument("--checkout", type=Path, required=True, help="the simulator's sources")
    parser.add_argument("--library", type=Path, help="a built adapter (default: build it)")
    parser.add_argument("--cxlab", default="cxlab", help="the command (default: cxlab)")
    parser.add_argument("--out", type=Path, default=Path("out/compare"), help="working folder")
    parser.add_argument("--requests", type=int, help="measured requests of a run")
    parser.add_argument("--rounds", type=int, default=0, help="timed runs of each medium")
    arguments = parser.parse_args()
    try:
        bench = Bench(PAIRS[arguments.pair], arguments)
        print(f"{arguments.pair}, commit {commit(arguments.checkout)}, {bench.requests} requests\n")
        compare(bench, arguments.rounds)
    except CheckError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
