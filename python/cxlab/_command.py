"""The `cxlab` command. Report, sweep, mlc, calibrate, reproduce and serve are in Python."""

from __future__ import annotations

import argparse
import signal
import sys
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path

from cxlab import _files, _native
from cxlab._result import ResultError
from cxlab._run import PluginError, trust_plugins


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command and returns its exit code, which is that of the Rust command.

    0 means success, 1 that output cannot be written, 2 a mistake of the user, 70 an error of
    cxlab, 71 an error of a plug-in, and 130 an interruption.
    """
    arguments = sys.argv[1:] if arguments is None else arguments
    command = _COMMANDS.get(arguments[0]) if arguments else None
    # Rust has its own handler if there is a partial result to keep.
    if command is None:
        handler = signal.signal(signal.SIGINT, signal.SIG_DFL)
        try:
            return _native.main(["cxlab", *arguments])
        finally:
            signal.signal(signal.SIGINT, handler or signal.SIG_DFL)
    try:
        return command(arguments[1:])
    except KeyboardInterrupt:
        print("interrupted; what has finished is kept", file=sys.stderr)
        return 130
    except ResultError as error:
        return _mistake(str(error))
    except PluginError as error:
        print(f"error: {error}", file=sys.stderr)
        return 71
    except _native.ScenarioError as error:
        print("\n".join([str(error), *getattr(error, "__notes__", [])]), file=sys.stderr)
        return 2
    except BrokenPipeError:
        return 0
    except OSError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except Exception as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        print(
            "error: internal error, please report it with the command and its files: "
            f"{type(error).__name__}: {error} ({Path(last.filename).name}:{last.lineno})",
            file=sys.stderr,
        )
        return 70


def _mistake(text: str) -> int:
    print(f"error: {text}", file=sys.stderr)
    return 2


def _report(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        "cxlab report", description="Make an HTML page of the results in a folder."
    )
    parser.add_argument("folder", metavar="DIR", type=Path, help="what `cxlab run --out DIR` wrote")
    parser.add_argument(
        "--compare",
        metavar="OTHER",
        type=Path,
        action="append",
        default=[],
        help="folder of another run to compare it with (repeatable)",
    )
    parser.add_argument(
        "--out", metavar="FILE", type=Path, help="the page [default: DIR/report.html]"
    )
    options = parser.parse_args(arguments)
    for folder in (options.folder, *options.compare):
        if not (folder / "report.json").is_file():
            return _mistake(
                f"{folder}: has no report.json; allowed: a folder that `cxlab run --out` wrote"
            )
    from cxlab.report import write_page

    out = options.out or options.folder / "report.html"
    write_page(options.folder, out, options.compare)
    print(f"written: {out}")
    return 0


def _add_execution(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--workers", metavar="N", type=_positive, help="processes [default: as many as cores]"
    )
    parser.add_argument(
        "--scheduler", metavar="ADDRESS", help="Dask scheduler that runs it instead, tcp://..."
    )
    parser.add_argument(
        "--cache",
        metavar="DIR",
        type=Path,
        help="where finished runs are kept [default: $CXLAB_CACHE or the user's cache folder]",
    )
    parser.add_argument("--no-cache", action="store_true", help="run all, and keep nothing")


def _seed(text: str) -> int:
    from cxlab._run import MOST_SEED

    if not text.isascii() or not text.isdigit() or int(text) > MOST_SEED:
        raise argparse.ArgumentTypeError(f"found {text}; allowed: 0 to {MOST_SEED}")
    return int(text)


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"found {text}; allowed: 1 and more")
    return number


def _seeds(text: str) -> int:
    least, most = _native.seeds()
    if not text.isdecimal() or not least <= int(text) <= most:
        allowed = f"a whole number from {least} to {most}"
        raise argparse.ArgumentTypeError(f"found {text}; allowed: {allowed}")
    return int(text)


def _cache(options: argparse.Namespace) -> Path | bool:
    return False if options.no_cache else options.cache or True


def _sweep(arguments: Sequence[str]) -> int:
    from cxlab._scenario import Scenario, parse_values
    from cxlab._sweep import SweepError, sweep

    parser = argparse.ArgumentParser(
        "cxlab sweep", description="Run a scenario over a grid of changes; print a table."
    )
    parser.add_argument("scenario", type=Path, help="scenario file (TOML)")
    parser.add_argument(
        "--grid",
        metavar="PATH=VALUES",
        action="append",
        required=True,
        help="values of one path, e.g. --grid hosts[0].count=1,2,4 (repeatable: all combinations)",
    )
    parser.add_argument(
        "--set",
        metavar="PATH=VALUE",
        action="append",
        default=[],
        help="change a value of all points (repeatable)",
    )
    parser.add_argument("--seed", type=_seed, help="seed of all points")
    parser.add_argument(
        "--seeds",
        metavar="N",
        type=_seeds,
        help="run each point with N seeds, from its own on: means and their 95 %% intervals",
    )
    parser.add_argument("--out", metavar="FILE", type=Path, help="also write FILE (.csv, .parquet)")
    parser.add_argument(
        "--trust-plugins",
        action="store_true",
        help="run the shared libraries that the scenario names (docs/guide/plugins.md)",
    )
    _add_execution(parser)
    options = parser.parse_args(arguments)
    if options.trust_plugins:
        trust_plugins()
    if options.out is not None and options.out.suffix not in (".csv", ".parquet"):
        return _mistake(f"{options.out}: allowed as --out: a file named .csv or .parquet")
    grid = {}
    for axis in options.grid:
        path, equals, values = axis.partition("=")
        if not equals or not values:
            return _mistake(f"--grid {axis}: allowed: PATH=VALUE,VALUE,...")
        grid[path] = parse_values(values)
    if not options.scenario.is_file():
        return _mistake(f"{options.scenario}: is no scenario file")
    try:
        scenario = Scenario.from_file(options.scenario)
    except ValueError as error:
        return _mistake(str(error))
    scenario._set = list(options.set)
    try:
        frame = sweep(
            scenario,
            grid,
            seed=options.seed,
            seeds=options.seeds,
            workers=options.workers,
            scheduler=options.scheduler,
            cache=_cache(options),
        )
    except SweepError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except ValueError as error:
        if options.seeds is None or isinstance(error, _native.ScenarioError):
            raise
        return _mistake(str(error))
    if options.out is not None:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        write = frame.to_csv if options.out.suffix == ".csv" else frame.to_parquet
        _files.write_whole(options.out, lambda path: write(path, index=False))
    print(frame.drop(columns=["digest", "plan_hash", "notes"]).to_string(index=False))
    # Points of a grid share most of their notes, apart from numbers.
    noted = sum(bool(notes) for notes in frame["notes"])
    if noted:
        where = f"the column `notes` of {options.out}" if options.out else "`--out FILE`"
        print(f"note: {noted} of {len(frame)} points have notes: {where} has them", file=sys.stderr)
    return 0


def _reproduce(arguments: Sequence[str]) -> int:
    from cxlab._sweep import SweepError
    from cxlab.reproduce import PAPERS, Settings, reproduce

    parser = argparse.ArgumentParser(
        "cxlab reproduce",
        description="Reproduce a paper's figures: CSV, PNG and SVG files, and a table of the "
        "paper's claims beside what was found. A claim that is missed is shown, and no failure.",
    )
    parser.add_argument("paper", nargs="?", choices=sorted(PAPERS))
    parser.add_argument("figures", nargs="*", metavar="FIGURE", help="e.g. fig10 [default: all]")
    parser.add_argument(
        "--out", type=Path, metavar="DIR", help="where files go [default: out/reproduce/PAPER]"
    )
    parser.add_argument(
        "--traces",
        type=Path,
        metavar="DIR",
        help="the paper's traces, *.trace.gz [default: $CXLAB_TRACES]; figures that need them are "
        "left out without",
    )
    parser.add_argument("--list", action="store_true", help="list the figures")
    parser.add_argument(
        "--docs",
        nargs="?",
        const=Path(),
        type=Path,
        metavar="DIR",
        help="run nothing: write the claims and the documents of a source tree again, from the "
        "tables in its figures/ [default: here]",
    )
    _add_execution(parser)
    options = parser.parse_args(arguments)
    if options.docs is not None:
        return _ledger(options.docs)
    if options.paper is None:
        return _mistake(f"found no paper; allowed: {', '.join(sorted(PAPERS))}, or --docs")
    known = PAPERS[options.paper]()
    if options.list:
        for figure in known:
            print(f"{figure.name:<18} {figure.title}")
        return 0
    names = [figure.name for figure in known]
    unknown = [name for name in options.figures if name not in names]
    if unknown:
        return _mistake(f"found figure {', '.join(unknown)}; allowed: {', '.join(names)}")
    settings = Settings(
        out=options.out or Path("out/reproduce") / options.paper,
        traces=options.traces,
        workers=options.workers,
        scheduler=options.scheduler,
        cache=_cache(options),
    )
    chosen = [figure for figure in known if not options.figures or figure.name in options.figures]
    try:
        reproduce(chosen, settings)
    except SweepError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


def _ledger(root: Path) -> int:
    from cxlab.reproduce import docs

    if not (root / "figures").is_dir() or not (root / "docs").is_dir():
        return _mistake(f"{root}: has no figures/ and docs/; allowed: a source tree of cxlab")
    try:
        for path in docs.write(root):
            print(f"written: {path}")
    except docs.LedgerError as error:
        return _mistake(str(error))
    return 0


def _calibrate(arguments: Sequence[str]) -> int:
    from cxlab._calibrate.command import run

    return run(arguments, _add_execution, _cache, _mistake)


def _mlc(arguments: Sequence[str]) -> int:
    from cxlab._mlc.command import main as measure

    return measure(arguments, _add_execution, _cache)


def _serve(arguments: Sequence[str]) -> int:
    from cxlab._serve.command import main as serve

    return serve(arguments)


_COMMANDS: dict[str, Callable[[Sequence[str]], int]] = {
    "report": _report,
    "sweep": _sweep,
    "mlc": _mlc,
    "calibrate": _calibrate,
    "reproduce": _reproduce,
    "serve": _serve,
}
