"""The command ``cxlab mlc``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from cxlab._mlc import MEASURES, Mlc, MlcError, MlcInterrupted, MlcStoppedError, mlc
from cxlab._mlc import settings as defaults
from cxlab._mlc.result import check_folder
from cxlab._mlc.system import bytes_of

_DESCRIPTION = """\
Measure what Intel MLC, Mess and cxlbench measure on hardware, on the system of a scenario: print
MLC's tables, and write CSV, JSON and pictures. Hosts get other workloads, another pace, and another
number of outstanding requests where a measure needs it. Fabric, devices, regions, caches, operating
systems, accelerators (idle), throttles and enumeration stay. [measure], hosts[].workload, .beside
and .requests are replaced, and [fleet] has no effect. Refused: events, failures.random, and regions
that hosts do not have from the beginning. Matrices tell devices apart by address_map.ways = 1."""


#: Options that are arguments of :func:`cxlab.mlc` with the same name.
_OPTIONS = (
    *("only", "mode", "writes", "pattern", "read_percents", "loads", "delays", "access_sizes"),
    *("threads", "thread_lines", "outstanding", "victim", "footprint", "precision", "requests"),
    *("seed", "workers", "scheduler"),
)


def parser(add_execution: Callable[[argparse.ArgumentParser], None]) -> argparse.ArgumentParser:
    """The options; ``add_execution`` adds those that all commands with runs have."""
    made = argparse.ArgumentParser("cxlab mlc", description=_DESCRIPTION)
    add = made.add_argument
    add("scenario", type=Path, help="scenario file (TOML)")
    add("--out", metavar="DIR", type=Path, help="where files go [default: out/mlc/NAME]")
    add(
        "--only",
        metavar="LIST",
        type=_words,
        help=f"measures to take, of {','.join(MEASURES)} [default: all that the scenario allows]",
    )
    add(
        "--mode",
        choices=("events", "analytic"),
        default="events",
        help="events, or the analytic form for a first look [default: events]",
    )
    add(
        "--writes",
        choices=("rfo", "nt"),
        help="rfo: a store first reads its line; nt: non-temporal stores, which do not [default: "
        "rfo for hosts whose stores go through a cache, else nt]. Ratios of mixes are always those "
        "of the traffic at the memory, as MLC's are",
    )
    add(
        "--pattern",
        choices=("sequential", "random"),
        default="sequential",
        help="order of the load's lines [default: sequential]; latency is that of random lines",
    )
    add(
        "--read-percents",
        metavar="LIST",
        type=_numbers,
        default=defaults.READ_PERCENTS,
        help="reads in percent of the traffic, one for each curve [default: 100,75,50,25,0]",
    )
    add(
        "--loads",
        metavar="LIST",
        type=_numbers,
        default=defaults.LOADS,
        help="loads in percent of the rate without a pace [default: 10,20,...,90,95,100]",
    )
    add(
        "--delays",
        metavar="LIST",
        type=_numbers,
        help="instead of loads: ns between two lines of a loading host, 0 for no pace",
    )
    _add_hosts(made)
    _add_runs(made)
    add_execution(made)
    return made


def _add_hosts(made: argparse.ArgumentParser) -> None:
    """Options of single measures, and of what hosts do in all of them."""
    add = made.add_argument
    add(
        "--access-sizes",
        metavar="LIST",
        type=_wholes,
        default=defaults.ACCESS_SIZES,
        help="bytes of an access, powers of two, 64 to 4096 [default: 64,256,1024,4096]",
    )
    add(
        "--threads",
        metavar="LIST",
        type=_wholes,
        default=defaults.THREADS,
        help="numbers of threads [default: 1,2,4,8,16,32,48]",
    )
    add(
        "--thread-lines",
        metavar="N",
        type=int,
        default=defaults.THREAD_LINES,
        help="outstanding lines of a thread [default: 16]",
    )
    add(
        "--outstanding",
        metavar="N",
        type=int,
        help="requests in flight of each loading requester [default: the scenario's]",
    )
    add("--victim", metavar="HOST", help="host beside noisy neighbours")
    add("--footprint", metavar="SIZE", type=_size, help="bytes accessed, e.g. '256 MiB'")


def _add_runs(made: argparse.ArgumentParser) -> None:
    """Options of runs."""
    add = made.add_argument
    add(
        "--precision",
        metavar="PERCENT",
        type=_percent,
        default=0.005,
        help="a run stops when the 95 %% intervals of bandwidth and latency are this part of their "
        "value to each side [default: 0.5]",
    )
    add(
        "--requests",
        metavar="N",
        type=int,
        default=200_000,
        help="most requests of a run [default: 200000]; of one with a probe 16 times as many",
    )
    add(
        "--set",
        metavar="PATH=VALUE",
        action="append",
        default=[],
        help="change a value of the scenario (repeatable)",
    )
    add("--seed", type=_seed, help="seed of all runs, instead of the scenario's")
    add("--quiet", "-q", action="store_true", help="print nothing but errors")
    add(
        "--trust-plugins",
        action="store_true",
        help="run the shared libraries that the scenario names (docs/guide/plugins.md)",
    )


def main(
    arguments: Sequence[str],
    add_execution: Callable[[argparse.ArgumentParser], None],
    cache: Callable[[argparse.Namespace], Path | bool],
) -> int:
    """Runs the command and returns its exit code."""
    from cxlab._run import trust_plugins
    from cxlab._scenario import Scenario

    options = parser(add_execution).parse_args(arguments)
    if options.trust_plugins:
        trust_plugins()
    if not options.scenario.is_file():
        return _mistake(f"{options.scenario}: is no scenario file")
    try:
        scenario = Scenario.from_file(options.scenario)
        scenario._set = list(options.set)
        if options.out is None:
            options.out = Path("out/mlc") / str(scenario.to_dict().get("name", "scenario"))
        # A folder that cannot be written is found before the runs, and not after them.
        check_folder(options.out)
        result = mlc(
            scenario,
            cache=cache(options),
            progress=False if options.quiet else None,
            **{name: getattr(options, name) for name in _OPTIONS},
        )
    except MlcInterrupted as error:
        _show(error.result, options)
        print("interrupted; what was measured is kept, marked partial", file=sys.stderr)
        return 130
    except MlcStoppedError as error:
        _show(error.result, options)
        print(f"error: {error}", file=sys.stderr)
        return 1
    except MlcError as error:
        return _mistake(f"{options.scenario}: {error}")
    _show(result, options)
    return 0


def _show(result: Mlc, options: argparse.Namespace) -> None:
    """Prints the tables, and writes the files."""
    if not options.quiet:
        print(result.table())
    written = result.write(options.out)
    if not options.quiet:
        print("written: " + ", ".join(map(str, written)))


def _mistake(text: str) -> int:
    print(f"error: {text}", file=sys.stderr)
    return 2


def _words(text: str) -> tuple[str, ...]:
    return tuple(word.strip() for word in text.split(",") if word.strip())


def _list(text: str, make: Callable[[str], Any]) -> tuple[Any, ...]:
    try:
        return tuple(make(word) for word in _words(text))
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"found {text!r}; allowed: numbers between commas"
        ) from None


def _numbers(text: str) -> tuple[float, ...]:
    return _list(text, float)


def _wholes(text: str) -> tuple[int, ...]:
    return _list(text, int)


def _percent(text: str) -> float:
    try:
        return float(text.removesuffix("%")) / 100
    except ValueError:
        raise argparse.ArgumentTypeError(f"found {text!r}; allowed: 0.01 to 50") from None


def _seed(text: str) -> int | None:
    from cxlab._run import checked_seed

    try:
        return checked_seed(int(text))
    except ValueError:
        raise argparse.ArgumentTypeError(f"found {text}; allowed: 0 to {2**64 - 1}") from None


def _size(text: str) -> int:
    try:
        return bytes_of(text)
    except MlcError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
