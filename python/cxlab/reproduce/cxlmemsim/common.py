"""Programs, and how `cxlab attach` runs them."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import Any

#: Runs of which the median counts.
RUNS = 3
#: Bytes that the micro programs use (section 4).
SMALL = 100_000_000
LARGE = 10_000_000_000
MICRO = {
    "mmap_read": SMALL,
    "mmap_write": SMALL,
    "sbrk": SMALL,
    "malloc": SMALL,
    "calloc": LARGE,
}
#: Programs in the place of mcf and wrf, which need a licence: what every machine with Python has.
REAL = {
    "python: sqlite3 of 200,000 rows": (
        "import sqlite3; base = sqlite3.connect(':memory:'); "
        "base.execute('create table rows (a integer primary key, b text)'); "
        "base.executemany('insert into rows values (?, ?)', "
        "((i, hex(i * 7919 % 1000003)) for i in range(200000))); "
        "base.execute('create index by_b on rows (b)'); "
        "print(base.execute('select count(*), sum(a) from rows where b like \"%37%\"').fetchone())"
    ),
    "python: gzip of 24 MB": (
        "import gzip; numbers = (i * 7919 % 1000003 for i in range(1800000)); "
        "text = b''.join(b'%d %d\\n' % (number, at) for at, number in enumerate(numbers)); "
        "print(len(gzip.compress(text, 6)))"
    ),
    "python: sorted dictionary of 400,000": (
        "words = {str(i * 7919 % 1000003): i for i in range(400000)}; "
        "print(sum(words[word] for word in sorted(words)) % 997)"
    ),
}


class ProgramError(OSError):
    """A program could not be compiled or run."""


def data(name: str) -> Path:
    """A file of this paper."""
    return Path(str(resources.files(__package__) / "data" / name))


def memory() -> int:
    """Bytes of memory that are free on this machine."""
    lines = Path("/proc/meminfo").read_text(encoding="utf-8").splitlines()
    [line] = [line for line in lines if line.startswith("MemAvailable:")]
    return int(line.split()[1]) << 10


def compiled(folder: Path) -> Path:
    """The micro programs, compiled into a folder."""
    program = folder / "programs"
    command = ["cc", "-O1", "-o", str(program), str(data("programs.c"))]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as error:
        raise ProgramError(f"cc cannot be run: {error}") from error
    if done.returncode:
        raise ProgramError(f"cc does not compile {data('programs.c')}: {done.stderr.strip()}")
    return program


def seconds(command: Sequence[str]) -> tuple[float, str]:
    """Real time of a command, and what it printed."""
    began = time.monotonic()
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    took = time.monotonic() - began
    if done.returncode:
        raise ProgramError(
            f"{command[0]} ended with {done.returncode}: {done.stderr.strip()[-400:]}"
        )
    return took, done.stdout


def attached(scenario: Path, options: Sequence[str], command: Sequence[str]) -> dict[str, Any]:
    """A run under `cxlab attach`: its report, with the real time and what the program printed."""
    with tempfile.TemporaryDirectory() as folder:
        attach = [sys.executable, "-m", "cxlab", "attach", str(scenario), *options]
        took, said = seconds([*attach, "--quiet", "--out", folder, "--", *command])
        report = json.loads((Path(folder) / "report.json").read_text(encoding="utf-8"))
    return {**report, "took_s": took, "printed": said}


def programs(folder: Path) -> dict[str, list[str]]:
    """Commands of all programs. `calloc` takes 10 GB where the machine has them."""
    micro = compiled(folder)
    found = {name: [str(micro), name, str(size_of(name))] for name in MICRO}
    return found | {name: [sys.executable, "-c", text] for name, text in REAL.items()}


def size_of(name: str) -> int:
    """Bytes that a micro program uses on this machine, at most a third of what is free."""
    return min(MICRO[name], memory() // 3)


def measure(
    name: str, command: Sequence[str], scenario: Path, options: Sequence[str]
) -> dict[str, Any]:
    """Alone and attached in turn, medians."""
    alone, under = [], []
    for _ in range(RUNS):
        took, said = seconds(command)
        alone.append(took)
        found = attached(scenario, options, command)
        if found["printed"] != said:
            raise ProgramError(f"{name} printed something else under cxlab attach")
        under.append(found)
    middle = sorted(under, key=lambda one: one["real_s"])[RUNS // 2]
    slowdown = middle.get("slowdown") or {}
    return {
        "native_s": statistics.median(alone),
        # The program's own real time; that of the command has the start of Python too.
        "cxlab_s": middle["real_s"],
        "command_s": middle["took_s"],
        "asked_s": middle["delay"]["asked_ns"] / 1e9,
        "undelayed_s": middle["undelayed_s"],
        "modelled_slowdown": slowdown.get("factor", ""),
        "local_ns": middle["local_latency_ns"],
        "processors": os.cpu_count(),
    }
