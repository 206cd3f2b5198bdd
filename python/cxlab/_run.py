"""Plans and runs in this process."""

from __future__ import annotations

import json
import operator
import os
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from cxlab import _native
from cxlab._kernel import Kernel, Offer
from cxlab._result import Result
from cxlab._scenario import PathLike, Scenario, scenario_of
from cxlab._types import Note, Threads

if TYPE_CHECKING:
    from numpy.typing import ArrayLike
    from tqdm import tqdm

#: Addresses, whether each access writes, and optionally the earliest issue of each in picoseconds.
Batch: TypeAlias = "tuple[ArrayLike, ArrayLike] | tuple[ArrayLike, ArrayLike, ArrayLike]"
#: Operations that a workload returns.
Batches: TypeAlias = "Iterable[Batch]"
#: Called with requests completed, requests expected (or None) and simulated nanoseconds.
Progress: TypeAlias = Callable[[int, int | None, float], object]


@dataclass(frozen=True)
class Requester:
    """The host for which a workload's function generates operations.

    Args:
        number: number of the host in its group, from 0.
        count: number of hosts in the group.
        span: bytes of memory that the host can access: addresses go from 0 to below this.

    """

    number: int
    count: int
    span: int


#: A workload in Python: a function that returns batches of operations for a requester.
Workload: TypeAlias = "Callable[[Requester], Batches]"


#: Largest seed, and largest number of threads.
MOST_SEED = 2**64 - 1
MOST_THREADS = 256


def checked_seed(seed: int | None) -> int | None:
    """Checks a seed, or None for the scenario's. Raises ValueError for anything else."""
    if seed is None:
        return None
    if isinstance(seed, bool) or not hasattr(seed, "__index__") or not 0 <= seed <= MOST_SEED:
        raise ValueError(f"seed: found {seed!r}; allowed: 0 to {MOST_SEED}")
    return operator.index(seed)


def checked_threads(threads: Threads | None) -> Threads | None:
    """Checks a thread limit, or None for the scenario's. Raises ValueError for anything else."""
    if threads is None or threads == "auto":
        return threads
    whole = not isinstance(threads, (bool, str)) and hasattr(threads, "__index__")
    if not whole or not 1 <= threads <= MOST_THREADS:
        raise ValueError(f'threads: found {threads!r}; allowed: 1 to {MOST_THREADS}, or "auto"')
    return operator.index(threads)


class Interrupted(KeyboardInterrupt):
    """A run that Ctrl-C stopped. ``result`` has the measurements so far, marked partial.

    It is a :class:`KeyboardInterrupt`, so it ends a script or a loop as Ctrl-C always does.
    """

    def __init__(self, result: Result) -> None:
        super().__init__(
            f"interrupted at {result.report['sim_time_ns'] / 1e3:.1f} us of simulated time"
        )
        self.result = result


class PluginError(RuntimeError):
    """A memory backend in a shared library that crashed, hangs, or broke its interface.

    ``result`` has the measurements so far, marked partial. It is None in a sweep.
    """

    def __init__(self, fault: str, result: Result | None = None) -> None:
        super().__init__(fault)
        self.result = result


class Plan:
    """A resolved and checked scenario, with all defaults filled in.

    Its text, as ``print`` shows it, is that of ``cxlab plan``.
    """

    def __init__(self, native: _native.Plan) -> None:
        """Use :func:`plan` to make a plan."""
        self._native = native

    @property
    def hash(self) -> str:
        """Hash of everything that can change a result, except the seed and Python workloads."""
        return self._native.hash

    def describe(self) -> dict[str, Any]:
        """The system as values, as ``cxlab plan --format json`` prints it."""
        return cast("dict[str, Any]", json.loads(self._native.describe()))

    @property
    def svg(self) -> str:
        """The system as an SVG picture."""
        return self._native.svg()

    def __str__(self) -> str:
        return self._native.summary()

    def __repr__(self) -> str:
        system = self.describe()
        parts = (f"{len(system[part])} {part}" for part in ("hosts", "devices", "links"))
        return f"Plan({', '.join(parts)})"

    def _repr_html_(self) -> str:
        """The HTML that a notebook shows."""
        from cxlab._html import plan_html

        system = {**self.describe(), "hash": self.hash}
        return plan_html(system, self.svg, [str(note) for note in self.notes])

    @property
    def notes(self) -> list[Note]:
        """Assumptions and limits of the scenario that users should know."""
        return [Note(*note) for note in self._native.notes()]

    def run(
        self,
        *,
        seed: int | None = None,
        threads: Threads | None = None,
        progress: Progress | bool | None = None,
        requests: bool = False,
        checkpoint: PathLike | None = None,
        checkpoint_every: str | None = None,
        restore: PathLike | None = None,
    ) -> Result:
        """Runs the plan, as :func:`run` does."""
        if checkpoint_every is not None and checkpoint is None:
            raise ValueError("checkpoint_every: found without checkpoint, the file to write")
        if requests and restore is not None:
            raise ValueError(
                "requests: found with restore, where the log would lack what completed before; "
                "allowed: in a run from its beginning"
            )
        seed, threads = checked_seed(seed), checked_threads(threads)
        written = None if checkpoint is None else (os.fspath(checkpoint), checkpoint_every)
        resumed = None if restore is None else os.fspath(restore)
        with _progress(progress, self._native.name) as tell:
            most = 0 if threads == "auto" else threads
            done = self._native.run(seed, most, tell, requests, written, resumed)
        result = Result(
            done.report,
            table=done.table,
            svg=done.svg,
            columns=done.columns,
            threads_note=done.threads_note,
        )
        if done.checkpoints_note is not None:
            warnings.warn(f"checkpoint: {done.checkpoints_note}", RuntimeWarning, stacklevel=3)
        if done.fault is not None:
            raise PluginError(done.fault, result)
        if isinstance(done.stopped, KeyboardInterrupt):
            raise Interrupted(result) from None
        if done.stopped is not None:
            raise done.stopped
        return result


def plan(
    scenario: Scenario | PathLike,
    *,
    workloads: Mapping[str, Workload | Kernel] | None = None,
) -> Plan:
    """Resolves a scenario (or a scenario file).

    Raises :class:`cxlab.ScenarioError` with every mistake in it.
    """
    scenario = scenario_of(scenario)
    factories: dict[str, Callable[[int, int, int], _native.Batches]] = {}
    kernels: dict[str, Offer] = {}
    for name, made in (workloads or {}).items():
        if isinstance(made, Kernel):
            kernels[name] = Offer(made)
        else:
            factories[name] = _factory(made)
    resolved = Plan(scenario._plan(factories, kernels))
    if workloads:
        _check_names(scenario, workloads)
    return resolved


def _check_names(scenario: Scenario, workloads: Iterable[str]) -> None:
    """Refuses a workload that the scenario does not name."""
    asked = set(_externals(scenario.to_dict()))
    for name in workloads:
        if name not in asked:
            known = ", ".join(sorted(asked)) or 'none, since no workload has kind = "external"'
            raise ValueError(
                f"workloads: found {name!r}, which the scenario does not name; allowed: {known}"
            )


def _externals(value: object) -> Iterator[str]:
    if isinstance(value, Mapping):
        if value.get("kind") == "external" and "name" in value:
            yield str(value["name"])
        for inner in value.values():
            yield from _externals(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _externals(inner)


def run(
    scenario: Scenario | PathLike,
    *,
    seed: int | None = None,
    threads: Threads | None = None,
    progress: Progress | bool | None = None,
    requests: bool = False,
    workloads: Mapping[str, Workload | Kernel] | None = None,
    checkpoint: PathLike | None = None,
    checkpoint_every: str | None = None,
    restore: PathLike | None = None,
) -> Result:
    """Runs a scenario (or a scenario file) in this process.

    Other Python threads continue meanwhile. Ctrl-C raises :class:`Interrupted`,
    which has the measurements so far.

    Args:
        scenario: the scenario, or its file.
        seed: seed of every random stream, instead of the scenario's.
        threads: most threads, instead of the scenario's limit, or ``"auto"`` for the number of
            processors. The run uses no more threads than make it faster, and the result is the same
            for every number.
        progress: False for no progress bar; True for one; None for one if standard error is a
            terminal; or a function that is called about ten times a second with requests completed,
            requests expected (or None) and simulated nanoseconds. An exception of it ends the run.
        requests: whether to keep a row for each request: ``result.to_pandas("requests")``.
        workloads: functions that generate operations, and kernels, by the name in the scenario's
            ``workload = { kind = "external", name = ... }``.
        checkpoint: a file to which the state of the run is written, so that it can be resumed.
        checkpoint_every: interval of checkpoints: a simulated time (``"10 ms"``), requests
            (``"100000 requests"``), a real time (``"30 s wall"``), or ``"warm-up"``;
            ``"60 s wall"`` if None.
        restore: a checkpoint to resume from; the result is that of the whole run.

    Raises:
        ScenarioError: the scenario has mistakes.
        ValueError: the checkpoint is not of this run, or ``checkpoint_every`` is no interval.
        OSError: the checkpoint cannot be written.
        Interrupted: Ctrl-C was pressed.
        PluginError: a memory backend in a shared library cannot continue.

    """
    return plan(scenario, workloads=workloads).run(
        seed=seed,
        threads=threads,
        progress=progress,
        requests=requests,
        checkpoint=checkpoint,
        checkpoint_every=checkpoint_every,
        restore=restore,
    )


def import_trace(
    source: PathLike,
    destination: PathLike,
    *,
    format: str | None = None,  # noqa: A002
) -> tuple[int, int]:
    """Converts a trace in any supported format to a `.cxlt` file; returns its reads and writes."""
    return _native.import_trace(os.fspath(source), os.fspath(destination), format)


def _factory(function: Workload) -> Callable[[int, int, int], _native.Batches]:
    def batches(number: int, count: int, span: int) -> _native.Batches:
        return map(_bytes, _checked(function, Requester(number, count, span)))

    return batches


def _checked(function: Workload, requester: Requester) -> Iterator[Any]:
    made = function(requester)
    try:
        return iter(made)
    except TypeError:
        raise TypeError(
            f"the workload's function gave {type(made).__name__}; allowed: an iterable of batches, "
            "each (addresses, writes) or (addresses, writes, times_ps)"
        ) from None


def _bytes(batch: Batch) -> tuple[bytes, bytes, bytes | None]:
    """Converts a batch to bytes: u64 addresses, u8 writes, u64 picoseconds."""
    import numpy

    addresses = _unsigned(batch[0], "addresses")
    writes = numpy.broadcast_to(numpy.asarray(batch[1], dtype=bool), addresses.shape)
    times = _unsigned(batch[2], "times") if len(batch) > 2 else None
    return addresses.tobytes(), writes.tobytes(), None if times is None else times.tobytes()


def _unsigned(values: ArrayLike, what: str) -> Any:
    import numpy

    array = numpy.asarray(values)
    if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
        raise TypeError(
            f"found {what} of type {array.dtype} in {array.ndim} dimensions; allowed: whole "
            "numbers in one dimension"
        )
    if array.size and array.dtype.kind == "i" and array.min() < 0:
        raise ValueError(f"found {array.min()} among {what}; allowed: 0 and more")
    return array.astype("<u8", copy=False)


def _progress(
    progress: Progress | bool | None, name: str
) -> AbstractContextManager[Progress | None]:
    if callable(progress):
        return nullcontext(progress)
    if progress is False or (progress is None and not sys.stderr.isatty()):
        return nullcontext(None)
    return _Bar(name)


class _Bar:
    """A progress bar on standard error."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._bar: tqdm[Any] | None = None

    def __enter__(self) -> Progress:
        return self._tell

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.close()

    def _tell(self, completed: int, expected: int | None, simulated_ns: float) -> None:
        if self._bar is None:
            from tqdm import tqdm

            self._bar = tqdm(
                desc=self._name, total=expected, unit=" requests", unit_scale=True, leave=False
            )
        self._bar.n = completed
        self._bar.set_postfix_str(f"{simulated_ns / 1e3:.1f} us simulated")


def trust_plugins() -> None:
    """Trusts the shared libraries that scenarios name from now on; they can do whatever you can.

    Workers of sweeps that begin later trust them too. See
    docs/guide/plugins.md for trusting single libraries.
    """
    os.environ["CXLAB_TRUST_PLUGINS"] = "1"
    _native.trust_plugins()


# Memory backends in shared libraries run in processes of their own, which are this interpreter.
if sys.executable:
    _SERVE = "import sys; from cxlab import _native; sys.exit(_native.serve_plugin(sys.argv[1:]))"
    _native.plugin_host(sys.executable, ["-P", "-c", _SERVE])
