"""The command ``cxlab calibrate``."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path

from cxlab import _files
from cxlab._calibrate import CalibrateError, calibrate
from cxlab._calibrate.bench import FIXED


def run(
    arguments: Sequence[str],
    add_execution: Callable[[argparse.ArgumentParser], None],
    cache: Callable[[argparse.Namespace], Path | bool],
    mistake: Callable[[str], int],
) -> int:
    """Runs the command and returns its exit code."""
    parser = argparse.ArgumentParser(
        "cxlab calibrate",
        description="Fit a device to what Intel MLC, or `cxlab mlc`, measured: print parameters "
        "with intervals, and errors of fitted and of held-out numbers.",
    )
    parser.add_argument(
        "sources", nargs="+", type=Path, help="logs of MLC, or folders that `cxlab mlc` wrote"
    )
    parser.add_argument(
        "--from",
        dest="preset",
        metavar="PRESET",
        required=True,
        help="the device's preset, whose link is kept (cxlab list presets); none: a memory without "
        "a CXL link",
    )
    parser.add_argument(
        "--host",
        metavar="PRESET",
        default="sapphire-rapids",
        help="preset of the host [default: sapphire-rapids]",
    )
    parser.add_argument("--out", metavar="FILE", type=Path, help="write the device's table there")
    parser.add_argument(
        "--report", metavar="DIR", type=Path, help="write JSON, CSV and a picture there"
    )
    parser.add_argument(
        "--memory",
        metavar="NODE",
        help="node of MLC's matrices whose idle latency and read bandwidth are fitted",
    )
    parser.add_argument(
        "--medium",
        metavar="MEDIUM",
        action="append",
        help="fixed, whose rate and banks are fitted, or DRAM as GRADE:CHANNELS:RANKS, as in "
        "DDR5-4800BN:2:2 (repeatable: the one that fits best is taken) [default: fixed]",
    )
    parser.add_argument(
        "--hold-out",
        metavar="LABEL",
        action="append",
        default=[],
        help="hold out numbers whose label begins so (repeatable)",
    )
    parser.add_argument(
        "--noise",
        metavar="PERCENT",
        type=float,
        default=2.0,
        help="least standard deviation of a measured number [default: 2]",
    )
    add_execution(parser)
    options = parser.parse_args(arguments)
    for path in options.sources:
        if not path.exists():
            return mistake(f"{path}: is no file and no folder")
    try:
        found = calibrate(
            options.sources,
            options.preset,
            host=options.host,
            memory=options.memory,
            medium=options.medium or FIXED,
            hold_out=options.hold_out,
            noise=options.noise / 100,
            workers=options.workers,
            cache=cache(options),
        )
    except CalibrateError as error:
        return mistake(str(error))
    if options.out is not None:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        _files.write_text(options.out, found.toml())
    if options.report is not None:
        found.write(options.report)
    print(found.table(), end="")
    written = [str(path) for path in (options.out, options.report) if path is not None]
    if written:
        print(f"written: {', '.join(written)}")
    return 0
