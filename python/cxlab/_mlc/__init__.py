"""``cxlab mlc``: what Intel MLC, Mess and cxlbench measure on hardware, of a simulated system.

What is measured: idle latency (a chain of dependent reads), peak bandwidth by mix, loaded latency
by injection rate, curve families by mix, sweeps of access size and threads, matrices of hosts and
memories, and a victim beside noisy neighbours.

The hosts of the scenario get other workloads, another pace, and another number of outstanding
requests where the measure needs it. Fabric, devices, regions and the address map stay as they are,
but for matrices, which tell devices apart by ``address_map.ways = 1``.

What is left out: transitions (`events` and random failures are refused), memory that hosts do not
have from the beginning, and the local memory of a host with a `core`, which patterns do not reach.
"""

from __future__ import annotations

from collections.abc import Sequence

from cxlab._mlc.measure import Campaign, MlcInterrupted, MlcStoppedError
from cxlab._mlc.result import Mlc
from cxlab._mlc.settings import (
    ACCESS_SIZES,
    LOADS,
    MEASURES,
    READ_PERCENTS,
    THREAD_LINES,
    THREADS,
    Mode,
    Settings,
)
from cxlab._mlc.system import MlcError, Pattern, System, Writes
from cxlab._scenario import PathLike, Scenario
from cxlab._sweep import SweepError

__all__ = ["MEASURES", "Mlc", "MlcError", "MlcInterrupted", "MlcStoppedError", "mlc"]


def mlc(
    scenario: Scenario | PathLike,
    *,
    only: Sequence[str] | None = None,
    mode: Mode = "events",
    writes: Writes | None = None,
    pattern: Pattern = "sequential",
    read_percents: Sequence[float] = READ_PERCENTS,
    loads: Sequence[float] = LOADS,
    delays: Sequence[float] | None = None,
    access_sizes: Sequence[int] = ACCESS_SIZES,
    threads: Sequence[int] = THREADS,
    thread_lines: int = THREAD_LINES,
    outstanding: int | None = None,
    victim: str | None = None,
    footprint: int | None = None,
    precision: float = 0.005,
    requests: int = 200_000,
    seed: int | None = None,
    workers: int | None = None,
    scheduler: str | None = None,
    cache: PathLike | bool = True,
    progress: bool | None = None,
) -> Mlc:
    """Measures latency and bandwidth of a scenario's system as MLC does on hardware.

    Args:
        scenario: the scenario, or its file. Its workloads and its `[measure]` are replaced.
        only: measures to take, of ``"idle"``, ``"matrix"``, ``"peak"``, ``"loaded"``,
            ``"curves"``, ``"sizes"`` and ``"noisy"``. With None, all are taken that the scenario
            allows, and ``notes`` of the result says what was left out.
        mode: ``"events"``, or ``"analytic"`` for the analytic form: a first look.
        writes: ``"rfo"`` if a store first reads its line (read for ownership), so that the traffic
            has a read for each write; ``"nt"`` for non-temporal stores, which do not. None means
            what the hosts do: ``"rfo"`` if their stores go through a cache, else ``"nt"``.
        pattern: order of the load's lines. The latency is always that of random lines.
        read_percents: reads in percent of the traffic, 0 to 100, one for each curve.
        loads: loads in percent of the rate without a pace, 0.1 to 100; that rate is measured too.
        delays: instead of ``loads``, times in ns between two lines of a loading host; 0 for none.
        access_sizes: sizes of an access in bytes, powers of two from 64 to 4096.
        threads: numbers of threads, 1 to 1024.
        thread_lines: outstanding lines of a thread, 1 to 1024.
        outstanding: requests in flight of each loading requester, 1 to 1048576; the scenario's if
            None.
        victim: name of the host beside noisy neighbours; if None, the one with least outstanding
            requests.
        footprint: bytes that each access pattern covers. None means all memory, but for hosts with
            an operating system 4 MiB, or four times their caches if that is more, whose pages are
            touched before they are measured.
        precision: half-width of the 95 % confidence intervals of bandwidth and latency, as a part
            of the value, at which a run stops. 0.0001 to 0.5.
        requests: most requests of a run, 1000 or more. The run of a probe may be 16 times as long.
        seed: seed of all runs, instead of the scenario's.
        workers: number of local processes.
        scheduler: address of a Dask scheduler that runs the points instead.
        cache: whether, or where, to keep finished runs, as in :func:`cxlab.run_many`.
        progress: False for no progress bar; None for one if standard error is a terminal.

    Raises:
        ScenarioError: the scenario has mistakes, or parts that the analytic form does not cover.
        MlcError: a setting is not allowed, or a measure of ``only`` cannot be taken.
        MlcInterrupted: Ctrl-C was pressed. Its ``result`` has what was measured.
        SweepError: workers died repeatedly. Its ``result`` has what was measured.

    """
    if not isinstance(scenario, Scenario):
        scenario = Scenario.from_file(scenario)
    settings = Settings(
        only=None if only is None else tuple(only),
        mode=mode,
        writes=writes,
        pattern=pattern,
        read_percents=tuple(map(float, read_percents)),
        loads=tuple(map(float, loads)),
        delays=None if delays is None else tuple(map(float, delays)),
        access_sizes=tuple(access_sizes),
        threads=tuple(threads),
        thread_lines=thread_lines,
        outstanding=outstanding,
        victim=victim,
        footprint=footprint,
        precision=precision,
        requests=requests,
    )
    system = System(scenario, footprint)
    campaign = Campaign(
        system,
        settings,
        seed=seed,
        workers=workers,
        scheduler=scheduler,
        cache=cache,
        progress=progress,
    )
    try:
        campaign.measure()
    except KeyboardInterrupt:
        raise MlcInterrupted(campaign.result(partial=True)) from None
    except SweepError as error:
        raise MlcStoppedError(str(error), campaign.result(partial=True)) from error
    return campaign.result(partial=False)
