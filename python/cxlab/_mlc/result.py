"""What is measured: one type for simulated systems, for folders of results, and for logs of MLC."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast

from cxlab import _files, _native
from cxlab._result import ResultError
from cxlab._scenario import PathLike

if TYPE_CHECKING:
    import pandas

#: Unit of the column ``inject``: nanoseconds between two lines that a host issues, clock cycles
#: between requests of a thread (MLC), or outstanding lines of a core.
InjectUnit: TypeAlias = Literal["ns", "cycles", "lines"]

_LOAD = (
    "read_percent",
    "inject",
    "latency_ns",
    "bandwidth_mb_per_s",
    "read_mb_per_s",
    "write_mb_per_s",
    "latency_of",
    "within",
)
#: Columns of each table.
COLUMNS: dict[str, tuple[str, ...]] = {
    "idle": ("host", "memory", "latency_ns", "within"),
    "peak": (
        "label",
        "read_percent",
        "writes",
        "bandwidth_mb_per_s",
        "read_mb_per_s",
        "write_mb_per_s",
        "within",
    ),
    "loaded": _LOAD,
    "curves": _LOAD,
    "sizes": (
        "access_bytes",
        "threads",
        "order",
        "operation",
        "latency_ns",
        "bandwidth_mb_per_s",
        "read_mb_per_s",
        "write_mb_per_s",
        "within",
    ),
    "noisy": (
        "neighbours_percent",
        "neighbours_mb_per_s",
        "victim_latency_ns",
        "victim_bandwidth_mb_per_s",
        "within",
    ),
}
#: Names of the matrices: a row for each host, a column for each memory.
MATRICES = ("latency_matrix", "bandwidth_matrix")
#: Columns that hold text. All others hold numbers.
_TEXTS = {"host", "memory", "label", "writes", "latency_of", "order", "operation", "within"}
#: Columns of `curves.csv`, which are those of Mess.
MESS = ("read_percent", "bandwidth_mb_per_s", "latency_ns")

#: Files of a result. `mlc.json` has all of it, and is the only one that is read again.
NAMES = [
    "mlc.json",
    "mlc.txt",
    *(f"{name}.csv" for name in (*COLUMNS, *MATRICES)),
    *(f"{name}.{kind}" for name in ("curves", "noisy") for kind in ("svg", "png")),
]
#: Files that the extension tells from those of others. It does not know Matplotlib's pictures.
_NOT_DRAWN = [name for name in NAMES if not name.endswith(".svg")]
#: Name of the program in the head of each picture, and number of bytes of that head.
CREATOR = "cxlab mlc"
_HEAD_BYTES = 4096
#: Version of the names in `mlc.json`.
FORMAT = 1
_MOST_BYTES = 1 << 26


def check_folder(folder: Path) -> None:
    """Makes sure that results can be written into a folder, which is made if it is missing.

    Raises:
        OSError: it is not writable, another process writes there, or it has a file of a result's
            name that cxlab has not written.

    """
    for name in NAMES:
        path = folder / name
        if path.suffix != ".svg" or not path.is_file() or not path.stat().st_size:
            continue
        if CREATOR.encode() not in _files.read_bytes(path, _HEAD_BYTES):
            raise OSError(
                f"{folder}: found `{name}`, which cxlab did not write; allowed: a folder "
                "without, or another one"
            )
    _native.ResultFolder(folder, _NOT_DRAWN).close()


def table_of(name: str, rows: Iterable[Mapping[str, Any]]) -> pandas.DataFrame:
    """A table with the columns of its name; a row lacks what it was not measured for."""
    import pandas

    rows = list(rows)
    columns = {
        column: pandas.Series(
            [row.get(column, "" if column in _TEXTS else math.nan) for row in rows],
            dtype=object if column in _TEXTS else float,
        )
        for column in COLUMNS[name]
    }
    return pandas.DataFrame(columns)


def matrix_of(
    rows: Sequence[str], columns: Sequence[str], values: Sequence[Sequence[float]]
) -> pandas.DataFrame:
    """A matrix with a row for each host and a column for each memory."""
    import pandas

    return pandas.DataFrame(
        [list(map(float, row)) for row in values],
        index=pandas.Index(list(rows), dtype=object),
        columns=pandas.Index(list(columns), dtype=object),
        dtype=float,
    )


@dataclass
class Mlc:
    """Idle and loaded latency, bandwidth by mix, matrices and sweeps of one system.

    Latencies are in nanoseconds. Bandwidths are traffic at the memory in MB/s (10^6 bytes per
    second), as MLC prints them. A measure that was not taken is an empty frame with its columns. A
    number that is not known is NaN, and a text that is not known is empty.

    ``within`` says how far a number can be from the true value: the half-width of its 95 %
    confidence interval in percent (``"0.4 %"``), or the error class of the analytic form
    (``"10 %"``, ``"do not use"``). It is empty if nothing is known of it.
    """

    #: Name of the scenario, or of the log's file.
    name: str
    #: ``"events"`` or ``"analytic"`` for a simulated system, ``"measured"`` for a log of MLC.
    mode: str
    #: Version of what measured: of cxlab, or of MLC.
    version: str = ""
    #: Whether the measurement was interrupted, so that points are missing.
    partial: bool = False
    #: Unit of the column ``inject``.
    inject_unit: InjectUnit = "ns"
    #: Settings of the measurement by their names in :func:`cxlab.mlc`.
    settings: dict[str, Any] = field(default_factory=dict)
    #: What was left out and why, and what readers of the numbers should know.
    notes: list[str] = field(default_factory=list)
    #: Idle latency: ``host``, ``memory``, ``latency_ns``, ``within``. The memory is ``"cxl"``,
    #: ``"local"`` or ``"all"`` (`hosts[].span`), ``"os"`` for the heap that an operating system
    #: places, or a node of MLC.
    idle: pandas.DataFrame = field(default_factory=lambda: table_of("idle", []))
    #: Peak bandwidth by mix in MLC's order: ``label``, ``read_percent`` (of the traffic),
    #: ``writes`` (``"rfo"``, ``"nt"``, or empty for reads alone), ``bandwidth_mb_per_s``,
    #: ``read_mb_per_s``, ``write_mb_per_s``, ``within``.
    peak: pandas.DataFrame = field(default_factory=lambda: table_of("peak", []))
    #: Loaded latency by injection rate: ``read_percent``, ``inject`` (in ``inject_unit``),
    #: ``latency_ns``, ``bandwidth_mb_per_s``, ``read_mb_per_s``, ``write_mb_per_s``,
    #: ``latency_of`` (the host of the probe, or ``"load"`` for the load's own reads), ``within``.
    loaded: pandas.DataFrame = field(default_factory=lambda: table_of("loaded", []))
    #: Curve family by mix, with the columns of ``loaded``, by rising ``read_percent`` and load.
    curves: pandas.DataFrame = field(default_factory=lambda: table_of("curves", []))
    #: Sweep of access size and threads: ``access_bytes``, ``threads``, ``order``
    #: (``"sequential"``, ``"random"``), ``operation`` (``"read"``, ``"write"``), ``latency_ns`` of
    #: a whole access, ``bandwidth_mb_per_s``, ``read_mb_per_s``, ``write_mb_per_s``, ``within``.
    sizes: pandas.DataFrame = field(default_factory=lambda: table_of("sizes", []))
    #: Idle latency in ns; the index has hosts, and columns are devices, regions or NUMA nodes.
    latency_matrix: pandas.DataFrame = field(default_factory=lambda: matrix_of([], [], []))
    #: Read bandwidth in MB/s, as ``latency_matrix``.
    bandwidth_matrix: pandas.DataFrame = field(default_factory=lambda: matrix_of([], [], []))
    #: A victim beside neighbours: ``neighbours_percent`` (of their own peak),
    #: ``neighbours_mb_per_s``, ``victim_latency_ns`` (one dependent read outstanding),
    #: ``victim_bandwidth_mb_per_s`` (at its full rate), ``within`` (of the latency).
    noisy: pandas.DataFrame = field(default_factory=lambda: table_of("noisy", []))

    @property
    def idle_ns(self) -> float | None:
        """Idle latency of the first host, or of MLC's ``--idle_latency``; None if not measured.

        Without an idle latency of its own, a log has that of the matrix's first node for itself.
        """
        if len(self.idle):
            return float(self.idle["latency_ns"].iloc[0])
        if self.latency_matrix.size:
            return float(self.latency_matrix.to_numpy()[0, 0])
        return None

    def table(self) -> str:
        """The tables as MLC prints them."""
        from cxlab._mlc.tables import text

        return text(self)

    def write(self, folder: PathLike) -> list[Path]:
        """Writes `mlc.json`, MLC's tables, a CSV file for each measure, and pictures.

        Files of an earlier measurement in the folder are replaced together. `curves.csv` has the
        columns of Mess: ``read_percent,bandwidth_mb_per_s,latency_ns``.

        Raises:
            OSError: the folder is not writable, or another process writes there.

        """
        folder = Path(folder)
        files: dict[str, str | Callable[[Path], object]] = {
            "mlc.json": json.dumps(self._values(), indent=1, allow_nan=False) + "\n",
            "mlc.txt": self.table(),
        }
        for name in COLUMNS:
            frame: pandas.DataFrame = getattr(self, name)
            if len(frame):
                shown = frame[list(MESS)] if name == "curves" else frame
                files[f"{name}.csv"] = shown.to_csv(index=False, lineterminator="\n")
        for name in MATRICES:
            frame = getattr(self, name)
            if len(frame):
                files[f"{name}.csv"] = frame.to_csv(index_label="host", lineterminator="\n")
        from cxlab._mlc.picture import pictures

        with pictures(self) as drawn:
            files.update(drawn)
            check_folder(folder)
            _files.replace(folder, files, NAMES, checked=_NOT_DRAWN)
        return [folder / name for name in NAMES if name in files]

    def _values(self) -> dict[str, Any]:
        """What `mlc.json` holds; null stands for a number that is not known."""
        tables = {name: _rows(getattr(self, name)) for name in COLUMNS}
        matrices = {
            name: {
                "hosts": list(getattr(self, name).index),
                "memories": list(getattr(self, name).columns),
                "values": _rows(getattr(self, name)),
            }
            for name in MATRICES
        }
        return {
            "format": FORMAT,
            "name": self.name,
            "mode": self.mode,
            "version": self.version,
            "partial": self.partial,
            "inject_unit": self.inject_unit,
            "settings": self.settings,
            "notes": self.notes,
            "columns": {name: list(columns) for name, columns in COLUMNS.items()},
            "tables": tables,
            "matrices": matrices,
        }

    @classmethod
    def read(cls, folder: PathLike) -> Mlc:
        """Reads what :meth:`write` or ``cxlab mlc --out`` has written into a folder.

        Raises:
            ResultError: `mlc.json` is damaged, or of another version.
            OSError: it cannot be read.

        """
        path = Path(folder) / "mlc.json"
        try:
            values = json.loads(_files.read_text(path, _MOST_BYTES))
        except ValueError as error:
            reason = str(error) if str(path) in str(error) else f"{path}: found no JSON ({error})"
            raise ResultError(f"{reason}; allowed: what `cxlab mlc --out` writes") from None
        found = values.get("format") if isinstance(values, dict) else None
        if found != FORMAT:
            raise ResultError(f"{path}: found format {found!r}; allowed: {FORMAT}")
        try:
            return cls._of(values)
        except (KeyError, TypeError, ValueError) as error:
            raise ResultError(
                f"{path}: found damaged contents ({type(error).__name__}: {error}); "
                "allowed: what `cxlab mlc --out` writes"
            ) from None

    @classmethod
    def _of(cls, values: Mapping[str, Any]) -> Mlc:
        made = cls(
            name=str(values["name"]),
            mode=str(values["mode"]),
            version=str(values["version"]),
            partial=bool(values["partial"]),
            inject_unit=cast("InjectUnit", values["inject_unit"]),
            settings=dict(values["settings"]),
            notes=[str(note) for note in values["notes"]],
        )
        for name in COLUMNS:
            columns = values["columns"][name]
            rows = [dict(zip(columns, row, strict=True)) for row in values["tables"][name]]
            known = [{k: v for k, v in row.items() if v is not None} for row in rows]
            setattr(made, name, table_of(name, known))
        for name in MATRICES:
            one = values["matrices"][name]
            numbers = [
                [math.nan if value is None else value for value in row] for row in one["values"]
            ]
            setattr(made, name, matrix_of(one["hosts"], one["memories"], numbers))
        return made

    @classmethod
    def from_log(cls, path: PathLike) -> Mlc:
        """Reads what Intel MLC (3.5 to 3.12) printed into a file.

        Raises:
            ResultError: the file is no output of MLC, with the file, the line and what is allowed.
            OSError: it cannot be read.

        """
        from cxlab._mlc.log import read_log

        return read_log(Path(path))

    def __repr__(self) -> str:
        taken = [name for name in (*COLUMNS, *MATRICES) if len(getattr(self, name))]
        partial = ", partial" if self.partial else ""
        return f"<cxlab.Mlc {self.name!r} ({self.mode}{partial}): {', '.join(taken) or 'nothing'}>"


def _rows(frame: pandas.DataFrame) -> list[list[Any]]:
    """The rows of a frame as JSON has them."""

    def plain(value: Any) -> Any:
        if isinstance(value, str):
            return value
        number = float(value)
        return number if math.isfinite(number) else None

    return [[plain(value) for value in row] for row in frame.itertuples(index=False, name=None)]
