"""Settings of a measurement, with their checks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, TypeAlias

from cxlab._mlc.system import MlcError, Pattern, Writes

Mode: TypeAlias = Literal["events", "analytic"]

#: Measures in the order in which they are printed.
MEASURES = ("idle", "matrix", "peak", "loaded", "curves", "sizes", "noisy")
#: Most runs of matrices that are made without being asked for by name.
MOST_PAIRS = 256

#: Reads in percent of the traffic of each curve; Mess has 50 to 100, and non-temporal writes below.
READ_PERCENTS = (100.0, 75.0, 50.0, 25.0, 0.0)
#: Loads in percent of the rate without a pace.
LOADS = (10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 80.0, 90.0, 95.0, 100.0)
#: Loads of neighbours in percent of their rate without a pace.
NEIGHBOURS = (0.0, 20.0, 40.0, 60.0, 80.0, 100.0)
#: Access sizes in bytes, and numbers of threads (cxlbench: 64 B to 4 KiB, 1 to 48 threads).
ACCESS_SIZES = (64, 256, 1024, 4096)
THREADS = (1, 2, 4, 8, 16, 32, 48)
#: Outstanding lines of a thread: the fill buffers of a core's first cache (Intel Golden Cove: 16).
THREAD_LINES = 16


@dataclass(frozen=True)
class Settings:
    """What :func:`cxlab.mlc` was told; its documentation has the units."""

    only: tuple[str, ...] | None = None
    mode: Mode = "events"
    writes: Writes | None = None
    pattern: Pattern = "sequential"
    read_percents: tuple[float, ...] = READ_PERCENTS
    loads: tuple[float, ...] = LOADS
    delays: tuple[float, ...] | None = None
    access_sizes: tuple[int, ...] = ACCESS_SIZES
    threads: tuple[int, ...] = THREADS
    thread_lines: int = THREAD_LINES
    outstanding: int | None = None
    victim: str | None = None
    footprint: int | None = None
    precision: float = 0.005
    requests: int = 200_000

    def __post_init__(self) -> None:
        """Checks each value. Raises MlcError for the first that is not allowed."""
        if self.only is not None:
            _choice("only", self.only, MEASURES)
        if self.only is not None and not self.only:
            raise MlcError(f"only: found no measure; allowed: {', '.join(MEASURES)}")
        _choice("mode", [self.mode], ("events", "analytic"))
        _choice("writes", [] if self.writes is None else [self.writes], ("rfo", "nt"))
        _choice("pattern", [self.pattern], ("sequential", "random"))
        _range("read_percents", self.read_percents, 0, 100)
        _range("loads", self.loads, 0.1, 100)
        if self.delays is not None:
            _range("delays", self.delays, 0, 1e6)
        for size in self.access_sizes:
            if size < 64 or size > 4096 or size & (size - 1):
                raise MlcError(
                    f"access_sizes: found {size}; allowed: powers of two from 64 to 4096 bytes"
                )
        _range("access_sizes", self.access_sizes, 64, 4096)
        _range("threads", self.threads, 1, 1024)
        _range("thread_lines", [self.thread_lines], 1, 1024)
        _range("outstanding", [64 if self.outstanding is None else self.outstanding], 1, 1 << 20)
        _range("footprint", [64 if self.footprint is None else self.footprint], 64, 1 << 60)
        _range("precision", [self.precision], 0.0001, 0.5)
        _range("requests", [self.requests], 1000, 10**12)

    def plain(self) -> dict[str, Any]:
        """The settings as JSON has them."""
        return {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in asdict(self).items()
        }


def _choice(name: str, found: Sequence[str], allowed: Sequence[str]) -> None:
    for one in found:
        if one not in allowed:
            raise MlcError(f"{name}: found {one!r}; allowed: {', '.join(allowed)}")


def _range(name: str, found: Sequence[float], least: float, most: float) -> None:
    if not found:
        raise MlcError(f"{name}: found no value; allowed: at least one")
    for one in found:
        if not math.isfinite(one) or not least <= one <= most:
            raise MlcError(f"{name}: found {one:g}; allowed: {least:g} to {most:g}")
    if len(set(found)) != len(found):
        raise MlcError(f"{name}: found a value twice; allowed: different values")
