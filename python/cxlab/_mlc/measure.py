"""Measuring: two rounds of runs in parallel processes, and the frames made from their rows."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import replace
from typing import Any

from cxlab import _native
from cxlab._mlc import points as of
from cxlab._mlc.points import AnyReport, Point, Roles, Row
from cxlab._mlc.result import COLUMNS, MATRICES, Mlc, matrix_of, table_of
from cxlab._mlc.settings import MEASURES, MOST_PAIRS, Settings
from cxlab._mlc.system import Host, Memory, MlcError, System, Use, misses_of
from cxlab._run import checked_seed
from cxlab._scenario import PathLike, Scenario
from cxlab._sweep import SweepError, _bar, run_many

#: Rounds in which a run whose probe is not precise enough is made four times as long.
_ROUNDS = 3
_LONGER = 4
#: Utilization from which on a link counts as full.
_FULL = 0.95


class MlcInterrupted(KeyboardInterrupt):
    """A measurement that Ctrl-C stopped. ``result`` has what was measured, marked partial."""

    def __init__(self, result: Mlc) -> None:
        super().__init__("interrupted; what was measured is kept")
        self.result = result


class MlcStoppedError(SweepError):
    """A measurement whose workers died. ``result`` has what was measured, marked partial."""

    def __init__(self, reason: str, result: Mlc) -> None:
        super().__init__(reason)
        self.result = result


class Campaign:
    """The runs of one measurement and their rows."""

    def __init__(
        self,
        system: System,
        settings: Settings,
        *,
        seed: int | None,
        workers: int | None,
        scheduler: str | None,
        cache: PathLike | bool,
        progress: bool | None,
    ) -> None:
        self.system = system
        self.settings = settings
        self.seed = checked_seed(seed)
        if scheduler is not None and settings.mode == "analytic":
            raise MlcError("scheduler: found with mode 'analytic'; allowed: with mode 'events'")
        self._run = {
            "workers": workers,
            "scheduler": scheduler,
            "cache": cache,
            "progress": progress,
        }
        self.notes: list[str] = []
        self.rows: dict[Point, Row] = {}
        self.order: list[Point] = []
        self.reports: dict[Point, AnyReport] = {}
        self.memories: dict[str, list[Memory]] = {}
        self.misses = misses_of(system)

    # The rounds.

    def measure(self) -> None:
        """Takes all measures that were asked for."""
        first: list[Point] = []
        second: list[Callable[[], Iterable[Point]]] = []
        wanted = self.settings.only or MEASURES
        self._check_outstanding()
        for name in MEASURES:
            if name not in wanted:
                continue
            try:
                begin, rest = getattr(self, f"_{name}")()
            except MlcError as error:
                if self.settings.only:
                    raise
                self.notes.append(f"{name}: left out, because of {error}")
                continue
            first += begin
            if rest is not None:
                second.append(rest)
        self.run(first, "mlc, without a pace" if second else "mlc")
        self.run([point for more in second for point in more()], "mlc, paced")

    def _check_outstanding(self) -> None:
        cores = next((host for host in self.system.hosts if host.kind != "issue"), None)
        if self.settings.outstanding is not None and cores is not None:
            raise MlcError(
                f"outstanding: found with host {cores.name}, which has a `{cores.kind}`; allowed: "
                f"--set hosts[{cores.group}].{cores.kind}.misses=N"
            )

    def run(self, points: Sequence[Point], description: str) -> None:
        """Runs points; a run whose probe is not precise enough is made again, longer."""
        self.order += points
        todo, factor = list(points), 1
        for _ in range(_ROUNDS if self.settings.mode == "events" else 1):
            if not todo:
                return
            self._run_once(todo, description, factor)
            todo = [point for point in todo if self._is_loose(point)]
            factor *= _LONGER
            description = "mlc, longer for the probe"

    def _is_loose(self, point: Point) -> bool:
        """Whether the latency of the point's probe is not as precise as was asked for."""
        if point.probe is None or self.settings.mode == "analytic":
            return False
        spread = of.spread(self.reports[point], point.probe)
        return spread is None or spread > self.settings.precision

    def _run_once(self, todo: Sequence[Point], description: str, factor: int) -> None:
        scenarios = [self._scenario(point, factor) for point in todo]

        def arrived(number: int, report: AnyReport) -> None:
            point = todo[number]
            if report.get("requests", {}).get("denied"):
                raise MlcError(
                    f"{point.measure}: found requests that devices denied; allowed: memory that "
                    "hosts have from the beginning"
                )
            self.reports[point] = report
            self.rows[point] = point.row(report)

        if self.settings.mode == "analytic":
            self._analyze(scenarios, arrived, description)
            return
        run_many(
            scenarios,
            seed=self.seed,
            threads=1,
            description=description,
            arrived=lambda number, result: arrived(number, result.report),
            **self._run,  # type: ignore[arg-type]
        )

    def _analyze(
        self,
        scenarios: Sequence[Scenario],
        arrived: Callable[[int, AnyReport], None],
        description: str,
    ) -> None:
        """Computes the analytic form of each scenario, in threads of this process."""
        import json

        def one(scenario: Scenario) -> AnyReport:
            return json.loads(scenario._plan().analytic(self.seed))  # type: ignore[no-any-return]

        with ThreadPoolExecutor(_native.processors()) as pool:
            futures = {pool.submit(one, scenario): at for at, scenario in enumerate(scenarios)}
            try:
                progress = self._run["progress"]
                with _bar(len(scenarios), description, progress) as advance:  # type: ignore[arg-type]
                    for future in as_completed(futures):
                        arrived(futures[future], future.result())
                        advance(1)
            except BaseException:
                pool.shutdown(cancel_futures=True)
                raise

    def _scenario(self, point: Point, factor: int) -> Scenario:
        loading = [host for host in self.system.hosts if host.name in point.uses]
        lines = [self._fill(host, point) for host in loading]
        fill = max(lines, default=0) * len(lines)
        window = of.window(point, self.settings, factor, fill)
        return self.system.build(point.uses, window, apart=point.apart)

    def _fill(self, host: Host, point: Point) -> int:
        """Requests of a host before it is measured, beside those that the run finds it needs."""
        # Full caches evict a line for each that they read. Random lines leave some sets short.
        share = 1.25 if self.settings.pattern == "sequential" else 2.0
        full = math.ceil(share * self.system.cached_lines[host.name])
        if host.paged:
            # Every page is touched when every line is. Zeroed lines are then written back.
            return self.system.paged(host.group) // 64 + full
        loads = point.uses[host.name].work == "load"
        return full if point.writes and loads else 0

    # The measures: runs without a pace, and those that depend on them.

    def _idle(self) -> tuple[list[Point], None]:
        return of.idle_points(self.system), None

    def _peak(self) -> tuple[list[Point], None]:
        return of.peak_points(self.system, self.settings), None

    def _sizes(self) -> tuple[list[Point], None]:
        sizes = [size for size in self.settings.access_sizes if size > 64]
        if self.settings.mode == "analytic" and sizes:
            raise MlcError(
                "access_sizes: found more than a line with mode 'analytic', which models single "
                "lines; allowed: 64, or mode 'events'"
            )
        made = of.size_points(self.system, self.settings)
        largest = made[len(self.settings.access_sizes) * len(self.settings.threads) - 1]
        try:
            self._scenario(largest, 1).check()
        except _native.ScenarioError as error:
            reason = str(error).partition("\n")[0].removeprefix("error: ")
            raise MlcError(f"access_sizes: found with {reason}") from None
        return made, None

    def _matrix(self) -> tuple[list[Point], None]:
        self.memories = self.system.memories()
        pairs = sum(len(found) for found in self.memories.values())
        if pairs > MOST_PAIRS and not self.settings.only:
            raise MlcError(
                f"its {pairs} pairs of host and memory; allowed: {MOST_PAIRS} where it is not "
                "named in `only`"
            )
        if not pairs:
            raise MlcError("matrix: found no memory; allowed: a scenario with devices or nodes")
        return of.matrix_points(self.system, self.settings, self.memories), None

    def _loaded(self) -> tuple[list[Point], Callable[[], list[Point]] | None]:
        return self._family("loaded", [100.0])

    def _curves(self) -> tuple[list[Point], Callable[[], list[Point]] | None]:
        percents, notes = of.curve_percents(self.settings, self.system.hosts)
        if not percents:
            raise MlcError(
                "read_percents: found less than 50 alone, and a store whose line is read for "
                "ownership gives a read for each write; allowed: 50 to 100, or writes 'nt'"
            )
        self.notes += notes
        return self._family("curves", percents)

    def _family(
        self, measure: str, percents: Sequence[float]
    ) -> tuple[list[Point], Callable[[], list[Point]] | None]:
        """A curve for each mix: without a pace first, since the paces follow from that rate."""
        roles = of.loaded_roles(self.system)
        if self.settings.delays is not None:
            return self._delayed(measure, roles, percents, self.settings.delays), None
        unpaced: dict[float, tuple[Point, dict[str, Use]]] = {}
        for percent in percents:
            use = of.load_of(self.settings, percent)
            uses, inject = of.paced(roles.loading, None, self.misses, use, 100)
            unpaced[percent] = of.load_point(measure, roles, uses, percent, inject), uses

        def rest() -> list[Point]:
            made: list[Point] = []
            for percent, (full, all_uses) in unpaced.items():
                use = of.load_of(self.settings, percent)
                found: dict[float, dict[str, Use]] = {}
                for load in self.settings.loads:
                    uses, inject = of.paced(
                        roles.loading, self.reports[full], self.misses, use, load
                    )
                    if uses != all_uses:
                        found.setdefault(inject, uses)
                made += [
                    of.load_point(measure, roles, uses, percent, inject)
                    for inject, uses in found.items()
                ]
            return made

        return [point for point, _ in unpaced.values()], rest

    def _delayed(
        self, measure: str, roles: Roles, percents: Sequence[float], delays: Sequence[float]
    ) -> list[Point]:
        """The points of curves with these delays in ns between two lines of a host."""
        slow = next((host for host in roles.loading if host.kind != "issue"), None)
        if slow is not None:
            raise MlcError(
                f"delays: found with host {slow.name}, whose `{slow.kind}` has no pace; "
                "allowed: loads, which are parts of its outstanding lines"
            )
        made = []
        for percent in percents:
            use = of.load_of(self.settings, percent)
            for delay in delays:
                one = replace(use, interval_ps=round(delay * 1000)) if delay else use
                uses = {host.name: one for host in roles.loading}
                made.append(of.load_point(measure, roles, uses, percent, delay))
        return made

    def _noisy(self) -> tuple[list[Point], Callable[[], list[Point]] | None]:
        roles = of.victim_roles(self.system, self.settings.victim)
        use = of.load_of(self.settings)
        uses, _ = of.paced(roles.loading, None, self.misses, use, 100)
        full = of.victim_points(roles, self.settings, uses, 100.0)

        def rest() -> list[Point]:
            made = of.victim_points(roles, self.settings, {}, 0.0)
            for load in of.NEIGHBOURS[1:-1]:
                uses, _ = of.paced(roles.loading, self.reports[full[0]], self.misses, use, load)
                made += of.victim_points(roles, self.settings, uses, load)
            return made

        return full, rest

    def _limits(self) -> list[str]:
        """A note if the hosts limit peak bandwidth, and not links or media."""
        for point, report in self.reports.items():
            bottleneck = report.get("bottleneck") or {}
            busiest = max((link["utilization"] for link in report["links"]), default=0.0)
            reads = all(use.read_percent == 100 for use in point.uses.values())
            limited = bottleneck.get("limit") == "outstanding" and busiest < _FULL
            if point.measure == "peak" and reads and limited:
                return [
                    "peak: the outstanding requests of the hosts limit the bandwidth of reads, and "
                    "no link is full. --outstanding N, or `misses` of cores, gives more of them"
                ]
        return []

    # The frames.

    def result(self, partial: bool) -> Mlc:
        """What was measured so far."""
        made = Mlc(
            name=self.system.name,
            mode=self.settings.mode,
            version=_native.VERSION,
            partial=partial,
            settings=self.settings.plain() | {"seed": self.seed},
            notes=[*self.notes, *self._limits()],
        )
        known = [point for point in self.order if point in self.rows]
        for name in COLUMNS:
            rows = [self.rows[point] for point in known if point.measure == name]
            setattr(made, name, table_of(name, _sorted(name, rows)))
        for name in MATRICES:
            rows = [self.rows[point] for point in known if point.measure == name]
            setattr(made, name, _matrix(rows))
        if all(host.kind != "issue" for host in of.loaded_roles(self.system).loading):
            made.inject_unit = "lines"
        return made


def _sorted(name: str, rows: list[Row]) -> list[Row]:
    """The rows in the order in which they are printed."""
    if name in ("loaded", "curves"):
        # MLC prints the highest load first; a curve rises with the load.
        sign = 1 if name == "loaded" else -1
        unit = 1 if all("inject" in row for row in rows) else 0
        return sorted(rows, key=lambda row: (row["read_percent"], sign * unit * row["inject"]))
    if name == "noisy":
        merged: dict[float, Row] = {}
        for row in rows:
            merged.setdefault(row["neighbours_percent"], {}).update(row)
        return [merged[percent] for percent in sorted(merged)]
    return rows


def _matrix(rows: Sequence[Row]) -> Any:
    hosts = list(dict.fromkeys(row["host"] for row in rows))
    memories = list(dict.fromkeys(row["memory"] for row in rows))
    known = {(row["host"], row["memory"]): row["value"] for row in rows}
    values = [[known.get((host, memory), math.nan) for memory in memories] for host in hosts]
    return matrix_of(hosts, memories, values)
