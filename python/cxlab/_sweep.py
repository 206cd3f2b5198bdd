"""Many runs: in local processes or on a Dask cluster, with a cache of results on disk.

A finished point never runs again. Its report is stored in the cache under the hash of its plan,
its seed and this build of cxlab, and gets its name only when it is complete. So a killed sweep
can be resumed, and a worker that dies costs only its current point.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast, overload

from cxlab import _files, _native
from cxlab._native import ScenarioError
from cxlab._result import NAMES, Result, stamped
from cxlab._run import MOST_SEED, PluginError, checked_seed, checked_threads
from cxlab._scenario import PathLike, Scenario, scenario_of
from cxlab._types import Quantity, Report, SeedsReport, Threads, Value, notes_of

if TYPE_CHECKING:
    import pandas
    import polars

#: Changes of a scenario: values by path.
Changes: TypeAlias = Mapping[str, Value]
#: Called with the number and the report of each finished point.
Arrived: TypeAlias = Callable[[int, str], None]

#: Pools that may die one after the other without finishing a point in between.
_MOST_DEATHS = 3
#: Seconds after which an idle worker ends, and between two checks whether its parent is alive.
_IDLE_SECONDS = 10
_WATCH_SECONDS = 0.5


class SweepError(RuntimeError):
    """A sweep that cannot continue. Finished points are in the cache."""


@dataclass(frozen=True)
class _Point:
    """The data of a point that a worker needs: text only, no objects.

    ``threads`` is a limit, and 0 means only the number of processors.
    """

    name: str
    text: str
    set: tuple[str, ...]
    folder: str
    seed: int | None
    threads: int
    #: Added to the seed if a point runs with several seeds.
    offset: int = 0


def _simulate(point: _Point, side_by_side: int) -> str:
    """Runs a point in one of ``side_by_side`` workers on a machine; returns its report as JSON."""
    plan = _native.Plan(point.name, point.text, point.set, point.folder, {})
    threads = _share(point.threads, side_by_side)
    done = plan.run(_seed(point, plan), threads, None, False)
    if done.stopped is not None:
        raise done.stopped
    if done.fault is not None:
        raise PluginError(done.fault)
    return done.report


def _seed(point: _Point, plan: _native.Plan) -> int:
    return (plan.seed if point.seed is None else point.seed) + point.offset


def _share(threads: int, side_by_side: int) -> int:
    """Threads of each of ``side_by_side`` runs, so that all together have one per processor."""
    share = max(1, _native.processors() // max(1, side_by_side))
    return min(threads, share) if threads else share


@cache
def _build() -> str:
    """Identifies this build of cxlab, so that results are computed anew after a change."""
    return hashlib.sha256(Path(_native.__file__).read_bytes()).hexdigest()[:16]


def default_cache() -> Path:
    """Default folder of the cache: ``$CXLAB_CACHE``, or a folder in the user's cache."""
    given = os.environ.get("CXLAB_CACHE")
    if given:
        return Path(given)
    home = os.environ.get("XDG_CACHE_HOME")
    return (Path(home) if home else Path.home() / ".cache") / "cxlab"


class _Cache:
    """Reports on disk, by plan, seed and build.

    An entry begins with a line with its key and the SHA-256 of the rest. A damaged or copied
    entry is therefore detected, removed and computed anew.
    """

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
            _native.sweep(folder)

    def _path(self, key: str) -> Path | None:
        return self._folder / f"{key}.json" if self._folder is not None else None

    def get(self, key: str) -> str | None:
        path = self._path(key)
        try:
            found = _files.read_bytes(path) if path is not None else b""
        except FileNotFoundError:
            return None
        if path is None:
            return None
        first, _, report = found.partition(b"\n")
        if first != _first_line(key, report):
            warnings.warn(
                f"{path}: is damaged, or not what it is named; it is removed and the run made anew",
                stacklevel=2,
            )
            path.unlink(missing_ok=True)
            return None
        return report.decode("utf-8")

    def put(self, key: str, report: str) -> None:
        path = self._path(key)
        if path is not None:
            first = _first_line(key, report.encode("utf-8")).decode("ascii")
            text = f"{first}\n{report}"
            _files.write_entry(path, lambda partial: partial.write_text(text, encoding="utf-8"))


def _first_line(key: str, report: bytes) -> bytes:
    return f"cxlab-report {key} {hashlib.sha256(report).hexdigest()}".encode("ascii")


def run_many(
    scenarios: Sequence[Scenario | PathLike],
    *,
    seed: int | None = None,
    threads: Threads = "auto",
    workers: int | None = None,
    scheduler: str | None = None,
    cache: PathLike | bool = True,
    progress: bool | None = None,
    description: str = "runs",
    arrived: Callable[[int, Result], object] | None = None,
) -> list[Result]:
    """Runs scenarios in parallel, and returns their results in order.

    Args:
        scenarios: the scenarios to run, or their files.
        seed: seed of all runs, instead of each scenario's.
        threads: most threads of each run. Workers times threads never exceed the processors, so
            ``"auto"`` gives threads only to the runs of short sweeps.
        workers: number of local processes, limited by the number of processors. None means as many
            as there are points or processors (given ``threads``).
        scheduler: address of a Dask scheduler to use instead (needs ``cxlab[dask]``). Its workers
            need this version of cxlab, and the traces under the same paths.
        cache: whether to keep finished runs, or the folder to keep them in instead of
            ``$CXLAB_CACHE`` or the user's cache folder.
        progress: False for no progress bar; None for one if standard error is a terminal.
        description: name of the progress bar.
        arrived: called with the number and the result of each scenario as soon as it is known, so
            that an interrupted caller has what was finished.

    Raises:
        ScenarioError: a scenario has mistakes. All are checked before the first run.
        SweepError: workers die repeatedly.

    """
    return _run_points(
        _points([scenario_of(scenario) for scenario in scenarios], seed, threads),
        threads=threads,
        workers=workers,
        scheduler=scheduler,
        cache=cache,
        progress=progress,
        description=description,
        tell=arrived,
    )


def _points(
    scenarios: Sequence[Scenario], seed: int | None, threads: Threads, seeds: int = 1
) -> list[_Point]:
    """The runs of each scenario, one after the other, with consecutive seeds."""
    seed, threads = checked_seed(seed), checked_threads(threads) or "auto"
    most = 0 if threads == "auto" else threads
    return [
        _Point(name, text, tuple(changes), folder, seed, most, offset)
        for name, text, changes, folder in (scenario._parts() for scenario in scenarios)
        for offset in range(seeds)
    ]


def _run_points(
    points: Sequence[_Point],
    *,
    threads: Threads,
    workers: int | None,
    scheduler: str | None,
    cache: PathLike | bool,
    progress: bool | None,
    description: str,
    tell: Callable[[int, Result], object] | None = None,
) -> list[Result]:
    folder = None if cache is False else default_cache() if cache is True else Path(cache)
    store = _Cache(folder)
    plans = _plan_all(points)
    reports: list[str | None] = [store.get(key) for key, _ in plans]
    # Equal points run once.
    waiting: dict[str, list[int]] = {}
    for number, (key, _) in enumerate(plans):
        if reports[number] is None:
            waiting.setdefault(key, []).append(number)
    with _bar(len(points), description, progress) as advance:
        advance(len(points) - sum(map(len, waiting.values())))
        if tell is not None:
            for number, known in enumerate(reports):
                if known is not None:
                    tell(number, Result(_renamed(known, plans[number][1])))

        def arrived(number: int, report: str) -> None:
            key = plans[number][0]
            store.put(key, report)
            for equal in waiting[key]:
                reports[equal] = report
                if tell is not None:
                    tell(equal, Result(_renamed(report, plans[equal][1])))
            advance(len(waiting[key]))

        todo = {numbers[0]: points[numbers[0]] for numbers in waiting.values()}
        if todo and scheduler is not None:
            _run_on_dask(todo, scheduler, arrived)
        elif todo:
            _run_locally(todo, _workers(workers, threads), arrived)
    return [
        Result(_renamed(cast("str", report), name))
        for report, (_, name) in zip(reports, plans, strict=True)
    ]


def _renamed(report: str, name: str) -> str:
    """The report with the scenario's name, because the cache stores none."""
    values = json.loads(report)
    if values["scenario"] == name:
        return report
    values["scenario"] = name
    return json.dumps(values, indent=2)


def _workers(workers: int | None, threads: Threads) -> int:
    """Number of local processes."""
    processors = _native.processors()
    if workers is not None:
        return min(workers, processors)
    return processors if threads == "auto" else max(1, processors // threads)


def _plan_all(points: Sequence[_Point]) -> list[tuple[str, str]]:
    """Cache key and scenario name of each point. Finds mistakes before the first run."""

    def one(point: _Point) -> tuple[str, str]:
        plan = _native.Plan(point.name, point.text, point.set, point.folder, {})
        seed = _seed(point, plan)
        if seed > MOST_SEED:
            raise ValueError(f"seeds: found seed {seed}; allowed: at most {MOST_SEED}")
        return f"{plan.hash}-{seed}-{_native.VERSION}-{_build()}", plan.name

    with ThreadPoolExecutor(_native.processors()) as pool:
        futures = [pool.submit(one, point) for point in points]
        for future, point in zip(futures, points, strict=True):
            error = future.exception()
            if isinstance(error, ScenarioError) and point.set:
                error.add_note(f"in the point with {', '.join(point.set)}")
            if error is not None:
                pool.shutdown(cancel_futures=True)
                raise error
        return [future.result() for future in futures]


def _run_locally(todo: dict[int, _Point], workers: int, arrived: Arrived) -> None:
    """Runs points in local processes. A process that dies is replaced."""
    from loky import ProcessPoolExecutor

    left = dict(todo)
    deaths = 0
    while left:
        side_by_side = min(workers, len(left))
        pool = ProcessPoolExecutor(
            side_by_side,
            timeout=_IDLE_SECONDS,
            initializer=_in_worker,
            initargs=(os.getpid(),),
        )
        try:
            futures = {
                pool.submit(_simulate, point, side_by_side): number
                for number, point in left.items()
            }
            for future in as_completed(futures):
                number = futures[future]
                arrived(number, future.result())
                del left[number]
                deaths = 0
            pool.shutdown()
        except BrokenProcessPool as error:
            pool.shutdown(kill_workers=True)
            deaths += 1
            if deaths == _MOST_DEATHS:
                raise SweepError(
                    f"{_MOST_DEATHS} times a worker died before a point had finished; {len(left)} "
                    "points are left, and what has finished is in the cache (memory may be short: "
                    "try fewer workers)"
                ) from error
        except BaseException:
            pool.shutdown(wait=False, kill_workers=True)
            raise


def _in_worker(parent: int) -> None:
    """Leaves Ctrl-C to the parent, which ends its workers, and exits when the parent has died."""
    import signal
    import threading

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(_WATCH_SECONDS)
        os._exit(1)

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=watch, daemon=True).start()


def _simulate_on_dask(point: _Point, tasks: Mapping[str, int]) -> str:
    """Runs a point on a Dask worker. ``tasks`` is the number of parallel runs on each machine."""
    from distributed import get_worker

    return _simulate(point, tasks.get(_machine(get_worker().address), 1))


def _machine(address: str) -> str:
    """The machine of a Dask worker's address, such as ``tcp://10.0.0.7:34567``."""
    return address.rpartition(":")[0]


def _run_on_dask(todo: dict[int, _Point], scheduler: str, arrived: Arrived) -> None:
    """Runs points on a Dask cluster, which replaces dead workers itself."""
    try:
        from distributed import Client
        from distributed import as_completed as completed
    except ImportError:
        raise SweepError(
            "a scheduler needs Dask distributed; install it with: pip install 'cxlab[dask]'"
        ) from None
    with Client(scheduler) as client:
        tasks: dict[str, int] = {}
        for address, threads in client.nthreads().items():
            tasks[_machine(address)] = tasks.get(_machine(address), 0) + threads
        futures = {
            client.submit(_simulate_on_dask, point, tasks, pure=False, retries=_MOST_DEATHS): number
            for number, point in todo.items()
        }
        for future, report in completed(futures, with_results=True):
            arrived(futures[future], report)


@contextmanager
def _bar(total: int, description: str, progress: bool | None) -> Iterator[Callable[[int], object]]:
    from tqdm import tqdm

    # None shows the bar only on a terminal.
    disable = None if progress is None else not progress
    with tqdm(total=total, desc=description, unit=" runs", disable=disable) as bar:
        yield bar.update


def points_of(changes: Mapping[str, Sequence[Value]] | Sequence[Changes]) -> list[dict[str, Value]]:
    """The points of a grid, with the last path varying fastest, or those of a list."""
    if isinstance(changes, Mapping):
        for path, values in changes.items():
            if isinstance(values, str) or not isinstance(values, Iterable):
                raise ValueError(f"{path}: found {values!r}; allowed: a list of values")
        axes = [list(values) for values in changes.values()]
        points = [dict(zip(changes, values, strict=True)) for values in itertools.product(*axes)]
    else:
        points = [dict(point) for point in changes]
    if not points:
        raise ValueError("changes: found no points; allowed: one or more")
    return points


class Seeds:
    """The runs of one scenario with several seeds."""

    def __init__(self, results: list[Result]) -> None:
        """Use :func:`run_seeds` to get the runs."""
        #: The result of each run, by seed.
        self.results = results
        self._json, self._svg = _native.seeds_report([result.json for result in results])
        #: The contents of `seeds.json`.
        self.report: SeedsReport = json.loads(self._json)

    def quantity(self, name: str) -> Quantity:
        """A number by its path in a report, such as ``hosts[0].latency_ns.p99``."""
        for quantity in self.report["quantities"]:
            if quantity["name"] == name:
                return quantity
        allowed = ", ".join(one["name"] for one in self.report["quantities"][:8])
        raise KeyError(f"{name}; allowed: {allowed}, ...")

    @property
    def svg(self) -> str:
        """Bandwidth and latency of each run, with their means and intervals."""
        return self._svg

    def to_pandas(self) -> pandas.DataFrame:
        """A row for each quantity: name, mean, ci95, min, max."""
        return cast("pandas.DataFrame", _frame(self._rows(), "pandas"))

    def to_polars(self) -> polars.DataFrame:
        """A row for each quantity, as a polars frame."""
        return cast("polars.DataFrame", _frame(self._rows(), "polars"))

    def _rows(self) -> list[dict[str, Any]]:
        return [
            {
                "name": one["name"],
                "mean": one["mean"],
                "ci95": one["ci95"],
                "min": one["min"],
                "max": one["max"],
            }
            for one in self.report["quantities"]
        ]

    def save(self, folder: PathLike) -> None:
        """Writes ``seeds.json`` and ``seeds.svg``, as ``cxlab run --seeds --out`` does."""
        picture = stamped(self._svg, self.report["run"])
        files = {"seeds.svg": picture, "seeds.json": self._json + "\n"}
        _files.replace(Path(folder), files, NAMES)


def check_seeds(seeds: int) -> int:
    """Checks a number of seeds."""
    least, most = _native.seeds()
    if not least <= seeds <= most:
        raise ValueError(f"seeds: found {seeds}; allowed: a whole number from {least} to {most}")
    return seeds


def run_seeds(
    scenario: Scenario | PathLike,
    seeds: int,
    *,
    seed: int | None = None,
    threads: Threads = "auto",
    workers: int | None = None,
    scheduler: str | None = None,
    cache: PathLike | bool = True,
    progress: bool | None = None,
) -> Seeds:
    """Runs a scenario with several seeds in parallel, as ``cxlab run --seeds`` does.

    Args:
        scenario: the scenario, or its file.
        seeds: number of seeds, 2 to 1,000.
        seed: the first seed, instead of the scenario's. The others are consecutive.
        threads: as in :func:`run_many`, like the following arguments.
        workers: number of local processes.
        scheduler: address of a Dask scheduler.
        cache: whether, or where, to keep finished runs.
        progress: False for no progress bar.

    Raises:
        ValueError: ``seeds`` is not allowed, or a seed is larger than 64 bits.

    """
    return Seeds(
        _run_points(
            _points([scenario_of(scenario)], seed, threads, check_seeds(seeds)),
            threads=threads,
            workers=workers,
            scheduler=scheduler,
            cache=cache,
            progress=progress,
            description="seeds",
        )
    )


def _busiest_link(report: Report) -> tuple[str, float]:
    """The direction whose wire is busy for longest, and for which part of the window.

    The first of several; no name and 0 in a system without links.
    """
    links = ((link["direction"], link["utilization"]) for link in report["links"])
    return max(links, key=lambda link: link[1], default=("", 0.0))


#: Computes a column of a sweep from a report.
Metric: TypeAlias = Callable[[Report], object]
#: Default columns of a sweep.
METRICS: dict[str, Metric] = {
    "completed": lambda report: report["requests"]["completed"],
    "bandwidth_gb_per_s": lambda report: report["bandwidth_gb_per_s"]["total"],
    "bandwidth_ci95": lambda report: report["ci95"]["total_gb_per_s"],
    "read_gb_per_s": lambda report: report["bandwidth_gb_per_s"]["read"],
    "write_gb_per_s": lambda report: report["bandwidth_gb_per_s"]["write"],
    "mean_ns": lambda report: report["latency_ns"]["mean"],
    "mean_ci95": lambda report: report["ci95"]["latency_ns"],
    "p50_ns": lambda report: report["latency_ns"]["p50"],
    "p90_ns": lambda report: report["latency_ns"]["p90"],
    "p99_ns": lambda report: report["latency_ns"]["p99"],
    "p999_ns": lambda report: report["latency_ns"]["p999"],
    "max_ns": lambda report: report["latency_ns"]["max"],
    "busiest_link": lambda report: _busiest_link(report)[0],
    "busiest_link_utilization": lambda report: _busiest_link(report)[1],
    "in_flight": lambda report: report["littles_law"]["in_flight"],
    "notes": lambda report: "; ".join(map(str, notes_of(report))),
    "digest": lambda report: report["digest"],
    "plan_hash": lambda report: report["plan_hash"],
}


@overload
def sweep(
    scenario: Scenario | PathLike,
    changes: Mapping[str, Sequence[Value]] | Sequence[Changes],
    *,
    metrics: Mapping[str, Callable[[Report], object]] | None = ...,
    frame: Literal["pandas"] = ...,
    seed: int | None = ...,
    seeds: int | None = ...,
    threads: Threads = ...,
    workers: int | None = ...,
    scheduler: str | None = ...,
    cache: PathLike | bool = ...,
    progress: bool | None = ...,
) -> pandas.DataFrame: ...


@overload
def sweep(
    scenario: Scenario | PathLike,
    changes: Mapping[str, Sequence[Value]] | Sequence[Changes],
    *,
    metrics: Mapping[str, Callable[[Report], object]] | None = ...,
    frame: Literal["polars"],
    seed: int | None = ...,
    seeds: int | None = ...,
    threads: Threads = ...,
    workers: int | None = ...,
    scheduler: str | None = ...,
    cache: PathLike | bool = ...,
    progress: bool | None = ...,
) -> polars.DataFrame: ...


def sweep(
    scenario: Scenario | PathLike,
    changes: Mapping[str, Sequence[Value]] | Sequence[Changes],
    *,
    metrics: Mapping[str, Callable[[Report], object]] | None = None,
    frame: Literal["pandas", "polars"] = "pandas",
    seed: int | None = None,
    seeds: int | None = None,
    threads: Threads = "auto",
    workers: int | None = None,
    scheduler: str | None = None,
    cache: PathLike | bool = True,
    progress: bool | None = None,
) -> Any:
    """Runs a scenario with changes, and returns a frame with a row for each point.

    With ``seeds``, each point runs with this many seeds, from its own on. A column of numbers
    then has their mean. Another column has the half-width of the 95 % confidence interval of that
    mean (Student's t): ``bandwidth_ci95`` of ``bandwidth_gb_per_s``, ``p99_ci95`` of ``p99_ns``.
    Other columns list each distinct value once.

    Args:
        scenario: the scenario, or its file.
        changes: a grid, ``{"hosts[0].count": [1, 2, 4], "seed": [1, 2]}``, or a list of points,
            ``[{"hosts[0].count": 1}, ...]``.
        metrics: columns to compute from each report, by name; the default columns if None.
        frame: library of the returned frame.
        seed: as in :func:`run_many`, like the following arguments.
        seeds: number of seeds of each point, 2 to 1,000; one if None.
        threads: most threads of each run.
        workers: number of local processes.
        scheduler: address of a Dask scheduler.
        cache: whether, or where, to keep finished runs.
        progress: False for no progress bar.

    """
    scenario = scenario_of(scenario)
    points = points_of(changes)
    each = 1 if seeds is None else check_seeds(seeds)
    columns = metrics or METRICS
    if seeds is not None:
        columns = _of_seeds(columns)
    scenarios = [scenario.update(point) for point in points]
    results = _run_points(
        _points(scenarios, seed, threads, each),
        threads=threads,
        workers=workers,
        scheduler=scheduler,
        cache=cache,
        progress=progress,
        description="sweep",
    )
    rows = []
    for number, point in enumerate(points):
        reports = [result.report for result in results[number * each : (number + 1) * each]]
        values = {name: [metric(one) for one in reports] for name, metric in columns.items()}
        if seeds is None:
            rows.append(point | {name: column[0] for name, column in values.items()})
        else:
            rows.append(point | {"seeds": seeds} | _summary(values))
    return _frame(rows, frame)


def _interval_name(name: str) -> str:
    """Name of the interval's column of another column: without the unit, as for single runs."""
    return f"{name.removesuffix('_gb_per_s').removesuffix('_ns')}_ci95"


def _of_seeds(metrics: Mapping[str, Metric]) -> dict[str, Metric]:
    """Columns for several seeds. Their own intervals replace those of single runs."""
    if metrics is METRICS:
        return {name: of for name, of in metrics.items() if not name.endswith("_ci95")}
    taken = ["seeds", *(_interval_name(name) for name in metrics)]
    found = next((name for name in metrics if taken.count(name) > 0), None)
    twice = next((name for name in taken if taken.count(name) > 1), None)
    if found or twice:
        raise ValueError(
            f"metrics: found {found or twice} twice with seeds; allowed: names that differ from "
            "`seeds` and from the columns of intervals, NAME_ci95 without _gb_per_s or _ns"
        )
    return dict(metrics)


def _summary(values: Mapping[str, Sequence[object]]) -> dict[str, Any]:
    """One row for several seeds from the values of their runs, by column."""
    row: dict[str, Any] = {}
    for name, column in values.items():
        numbers = [value for value in column if isinstance(value, int | float)]
        if len(numbers) == len(column):
            row[name], row[_interval_name(name)] = _native.interval([float(n) for n in numbers])
        else:
            texts = [str(value) for value in column if value not in (None, "")]
            row[name] = "; ".join(dict.fromkeys(texts))
    return row


def _frame(
    rows: list[dict[str, Any]], frame: Literal["pandas", "polars"]
) -> pandas.DataFrame | polars.DataFrame:
    names = list(dict.fromkeys(name for row in rows for name in row))
    columns = {name: [row.get(name) for row in rows] for name in names}
    if frame == "polars":
        import polars

        return polars.DataFrame(columns, strict=False)
    import pandas

    return pandas.DataFrame(columns)
