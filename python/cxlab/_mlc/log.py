"""Reader of what Intel Memory Latency Checker (MLC) prints.

The format is that of public logs of versions 3.5 to 3.11b: the FD.io CSIT calibration data (3.5),
the user guide of ndctl and CXL by pmem.io (3.9), and posts with 3.9a, 3.10 and 3.11b. Ratios of
``-Wn`` are those of MLC's help text. MLC counts traffic at the memory: its ratio 3:1 "stream
triad-like with RFO" (``-W11``) is two loads and one store whose line is first read.

The reader is strict: it knows every line that it passes over, and a table that breaks off is a
mistake with its line.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

from cxlab import _files
from cxlab._mlc.result import Mlc, matrix_of, table_of
from cxlab._result import ResultError

#: Largest log, in bytes.
_MOST_BYTES = 1 << 24

#: Reads in percent of the traffic for each ``-Wn`` (help text of MLC; 19: notes of release 3.11).
_MIXES = {
    2: 200 / 3,
    3: 75.0,
    4: 60.0,
    5: 50.0,
    6: 0.0,
    7: 200 / 3,
    8: 50.0,
    9: 75.0,
    10: 200 / 3,
    11: 75.0,
    12: 80.0,
    13: 500 / 6,
    14: 600 / 7,
    15: 700 / 8,
    16: 800 / 9,
    17: 90.0,
    19: 90.0,
}

_NUMBER = r"(\d+(?:\.\d+)?)"
_BANNER = re.compile(r"Intel\(R\) Memory Latency Checker\b.*?- (v\S+)")
_COMMAND = re.compile(r"Command line parameters:(.*)")
_IDLE = re.compile(rf"Each iteration took {_NUMBER} .*clocks \(\s*{_NUMBER}\s*ns\s*\)")
_MATRIX_LATENCY = re.compile(r"Measuring idle latencies\b.*\(in ns\)")
_MATRIX_BANDWIDTH = re.compile(r"Measuring Memory Bandwidths between nodes")
_PEAK = re.compile(r"Measuring (Peak Injection|Maximum) Memory Bandwidths")
_LOADED = re.compile(r"Measuring Loaded Latencies")
_CACHES = re.compile(r"Measuring cache-to-cache transfer latency")
_PEAK_ROW = re.compile(rf"([A-Za-z0-9:][A-Za-z0-9: -]*?)\s*:\s*{_NUMBER}")
_LOADED_ROW = re.compile(rf"(\d+)\s+{_NUMBER}\s+{_NUMBER}")
_RATIO = re.compile(r"(\d+):(\d+) (Reads-Writes|Read-NT write)s?")
#: Lines between tables that say nothing of the numbers, or what is known from elsewhere.
_PASSED = re.compile(
    r"Using |\*\*\*|Bandwidths are in MB/sec|Will take several minutes|Inject\b|Delay\b|=+$|"
    r"Numa node$|Memory node$|.*[#$>] |.*\bmlc\b"
)

_KNOWN = (
    "a table of idle latencies, peak or maximum bandwidths, bandwidths between nodes, loaded or "
    "cache-to-cache latencies, or the line of --idle_latency, as MLC 3.5 to 3.12 prints them"
)


def read_log(path: Path) -> Mlc:
    """Reads a log of MLC; see :meth:`Mlc.from_log`."""
    try:
        text = _files.read_text(path, _MOST_BYTES)
    except ValueError as error:
        raise ResultError(str(error)) from None
    return _Reader(path, text.splitlines()).read()


@dataclass
class _Reader:
    """The state of reading: the next line, and the tables that were found."""

    path: Path
    lines: list[str]
    at: int = 0
    version: str = ""
    read_percent: float = 100.0
    idle: list[dict[str, Any]] = field(default_factory=list)
    peak: list[dict[str, Any]] = field(default_factory=list)
    maximum: list[dict[str, Any]] = field(default_factory=list)
    loaded: dict[float, list[dict[str, Any]]] = field(default_factory=dict)
    matrices: dict[str, Any] = field(default_factory=dict)

    def read(self) -> Mlc:
        while self.at < len(self.lines):
            self._next()
        if not (self.idle or self.peak or self.maximum or self.loaded or self.matrices):
            raise ResultError(f"{self.path}: found no table; allowed: {_KNOWN}")
        made = Mlc(name=self.path.name, mode="measured", version=self.version, inject_unit="cycles")
        made.idle = table_of("idle", self.idle)
        made.peak = table_of("peak", self.peak or self.maximum)
        if self.peak and self.maximum:
            made.notes.append("left out: maximum bandwidths, beside the peak injection bandwidths")
        first = 100.0 if 100.0 in self.loaded else next(iter(self.loaded), 100.0)
        made.loaded = table_of("loaded", self.loaded.get(first, []))
        rising = [reversed(self.loaded[percent]) for percent in sorted(self.loaded)]
        made.curves = table_of("curves", [row for rows in rising for row in rows])
        for name, matrix in self.matrices.items():
            setattr(made, name, matrix)
        return made

    def _next(self) -> None:
        """Reads a line, and the table that it begins."""
        number, line = self.at + 1, self.lines[self.at].strip()
        self.at += 1
        if found := _BANNER.match(line):
            self.version, self.read_percent = found[1].removesuffix("-internal"), 100.0
        elif found := _COMMAND.match(line):
            self.read_percent = self._mix(number, found[1])
        elif found := _IDLE.match(line):
            self._once(number, bool(self.idle), "an idle latency")
            self.idle = [{"host": "0", "memory": "0", "latency_ns": float(found[2])}]
        elif _MATRIX_LATENCY.match(line):
            self._matrix(number, "latency_matrix")
        elif _MATRIX_BANDWIDTH.match(line):
            self._matrix(number, "bandwidth_matrix")
        elif found := _PEAK.match(line):
            rows = self._peak(number, line)
            self._once(number, bool(self.peak if found[1] != "Maximum" else self.maximum), line)
            if found[1] == "Maximum":
                self.maximum = rows
            else:
                self.peak = rows
        elif _LOADED.match(line):
            rows = self._loaded(number, line)
            self._once(
                number,
                self.read_percent in self.loaded,
                f"loaded latencies with {self.read_percent:g} % reads",
            )
            self.loaded[self.read_percent] = rows
        elif _CACHES.match(line):
            while self.at < len(self.lines) and not self._begins(self.lines[self.at].strip()):
                self.at += 1
        elif line and not _PASSED.match(line) and self.version:
            self._fail(number, f"found {line[:60]!r}", _KNOWN)

    def _begins(self, line: str) -> bool:
        """Whether a line begins a table or the output of another run."""
        begins = (_BANNER, _COMMAND, _IDLE, _MATRIX_LATENCY, _MATRIX_BANDWIDTH, _PEAK, _LOADED)
        return any(pattern.match(line) for pattern in begins)

    def _mix(self, number: int, parameters: str) -> float:
        """Reads in percent of the traffic, by ``-W`` of MLC's command line."""
        found = re.search(r"(?:^|\s)-W(\S*)", parameters)
        if found is None:
            return 100.0
        if not found[1].isdecimal() or int(found[1]) not in _MIXES:
            allowed = ", ".join(map(str, _MIXES))
            self._fail(number, f"found -W{found[1]}", f"-W with one of {allowed}")
        return _MIXES[int(found[1])]

    def _once(self, number: int, twice: bool, what: str) -> None:
        if twice:
            self._fail(number, f"found {what} for the second time", "one in a file")

    def _row(self) -> tuple[int, str] | None:
        """The next line of a table and its number; None at the table's end."""
        if self.at == len(self.lines) or not (line := self.lines[self.at].strip()):
            return None
        if self._begins(line) or _CACHES.match(line):
            return None
        self.at += 1
        return self.at, line

    def _header(self, first: re.Pattern[str]) -> None:
        """Passes over the lines between a table's title and its first row."""
        while self.at < len(self.lines):
            line = self.lines[self.at].strip()
            if first.match(line) or self._begins(line) or (line and not _PASSED.match(line)):
                return
            self.at += 1

    def _peak(self, number: int, title: str) -> list[dict[str, Any]]:
        self._header(_PEAK_ROW)
        rows = []
        while (row := self._row()) is not None:
            found = _PEAK_ROW.fullmatch(row[1])
            if found is None:
                self._fail(row[0], f"found {row[1][:60]!r}", "LABEL : BANDWIDTH, or an empty line")
            label = found[1].strip()
            read_percent, writes = self._label(row[0], label)
            rows.append(
                {
                    "label": label,
                    "read_percent": read_percent,
                    "writes": writes,
                    "bandwidth_mb_per_s": float(found[2]),
                }
            )
        return rows or self._empty(number, title)

    def _label(self, number: int, label: str) -> tuple[float, str]:
        """Reads in percent of the traffic, and how the label's mix writes."""
        known = {
            "all reads": (100.0, ""),
            "stream-triad like": (200 / 3, "nt"),
            "all nt writes": (0.0, "nt"),
        }
        if label.lower() in known:
            return known[label.lower()]
        found = _RATIO.fullmatch(label)
        if found is None or int(found[1]) + int(found[2]) == 0:
            allowed = "ALL Reads, N:M Reads-Writes, N:M Read-NT write, All NT writes"
            self._fail(number, f"found {label!r}", f"{allowed}, Stream-triad like")
        reads, writes = int(found[1]), int(found[2])
        return 100 * reads / (reads + writes), "rfo" if found[3] == "Reads-Writes" else "nt"

    def _loaded(self, number: int, title: str) -> list[dict[str, Any]]:
        self._header(_LOADED_ROW)
        rows = []
        while (row := self._row()) is not None:
            found = _LOADED_ROW.fullmatch(row[1])
            if found is None:
                self._fail(row[0], f"found {row[1][:60]!r}", "DELAY LATENCY BANDWIDTH")
            rows.append(
                {
                    "read_percent": self.read_percent,
                    "inject": float(found[1]),
                    "latency_ns": float(found[2]),
                    "bandwidth_mb_per_s": float(found[3]),
                    "latency_of": "probe",
                }
            )
        return rows or self._empty(number, title)

    def _matrix(self, number: int, name: str) -> None:
        title = self.lines[number - 1].strip()
        self._once(number, name in self.matrices, f"{title!r}")
        heading = re.compile(r"(?:Numa node|Memory node|Socket)((?:\s+\d+)+)$")
        self._header(heading)
        row = self._row()
        found = heading.fullmatch(row[1]) if row is not None else None
        if found is None:
            where = row[0] if row is not None else min(self.at + 1, len(self.lines))
            self._fail(where, f"found no line of nodes after {title!r}", "Numa node 0 1 ...")
        nodes = found[1].split()
        hosts: list[str] = []
        values: list[list[float]] = []
        while (row := self._row()) is not None:
            host, *cells = row[1].split()
            numbers = [_cell(cell) for cell in cells]
            if not host.isdecimal() or len(numbers) != len(nodes) or None in numbers:
                self._fail(row[0], f"found {row[1][:60]!r}", f"a node and {len(nodes)} numbers")
            hosts.append(host)
            values.append([number for number in numbers if number is not None])
        if not hosts:
            self._empty(number, title)
        self.matrices[name] = matrix_of(hosts, nodes, values)

    def _empty(self, number: int, title: str) -> NoReturn:
        self._fail(number, f"found no row after {title!r}", "a table with at least one row")

    def _fail(self, number: int, found: str, allowed: str) -> NoReturn:
        raise ResultError(f"{self.path}:{number}: {found}; allowed: {allowed}")


def _cell(text: str) -> float | None:
    """A number of a matrix; NaN for MLC's ``-``, and None for anything else."""
    if text == "-":
        return math.nan
    return float(text) if re.fullmatch(_NUMBER, text) else None
