"""Results of runs."""

from __future__ import annotations

import json
import re
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

from cxlab import _files, _native
from cxlab._scenario import PathLike
from cxlab._svg import sanitised
from cxlab._types import Note, Report, ReportCi95, notes_of

if TYPE_CHECKING:
    from collections.abc import Callable

    import pandas
    import polars
    import pyarrow

#: Names of the tables of a result.
TableName = Literal[
    "hosts", "devices", "links", "stages", "by_hops", "latency_histogram", "time_series", "requests"
]

#: A column of the request log: name, numpy type, and values as bytes.
Column = tuple[str, str, bytes]


#: Files that a run and `cxlab run --seeds` write into a folder.
NAMES = ["report.json", "topology.svg", "requests.parquet", "seeds.json", "seeds.svg"]
#: The ID of a run in its picture, and the key of the ID in a request log.
_STAMP = re.compile(r"\n*<!-- cxlab run ([0-9a-f]{16}) -->\n*")
_RUN = "cxlab.run"

#: Largest report and picture that are read, in bytes.
_MOST_BYTES = 1 << 30


def stamped(svg: str, run: str) -> str:
    """A picture with the ID of its run."""
    return f"{_STAMP.sub('', svg).rstrip()}\n<!-- cxlab run {run} -->\n"


class ResultError(ValueError):
    """A folder whose files were not written by a run."""


class Result:
    """Result of a run: a report, and its tables as Arrow, pandas or polars."""

    def __init__(
        self,
        report: str,
        *,
        table: str | None = None,
        svg: str | None = None,
        columns: list[Column] | None = None,
        requests: Path | None = None,
        threads_note: str | None = None,
    ) -> None:
        """Use :func:`cxlab.run` or :meth:`load` to get a result."""
        self._json = report
        self._table = table
        self._columns = columns
        self._requests = requests
        self._threads_note = threads_note
        #: The system as an SVG with links coloured by utilization, or None if it was not kept.
        self.svg = svg

    @classmethod
    def load(cls, folder: PathLike) -> Result:
        """Loads the result from a folder that ``cxlab run`` or :meth:`save` wrote.

        Raises:
            ResultError: the report was not written by a run, or is damaged.

        """
        folder = Path(folder)
        report = folder / "report.json"
        svg, requests = folder / "topology.svg", folder / "requests.parquet"
        try:
            text = _files.read_text(report, _MOST_BYTES)
            picture = _files.read_text(svg, _MOST_BYTES) if svg.is_file() else None
        except ValueError as error:
            raise ResultError(str(error)) from None
        stamp = None if picture is None else _STAMP.search(picture)
        if picture is not None and (picture := sanitised(picture)) is None:
            raise ResultError(f"{svg}: found no picture; allowed: what `cxlab run` writes")
        try:
            text = _native.read_report(text)
        except ValueError as error:
            raise ResultError(
                f"{report}: found {error}; allowed: what `cxlab run` writes"
            ) from None
        result = cls(text, svg=picture, requests=requests if requests.is_file() else None)
        run = result.report.get("run", "")
        if run and picture is not None and (stamp is None or stamp[1] != run):
            raise ResultError(
                f"{svg}: found the picture of another run than {report}; allowed: files of one run"
            )
        return result

    def save(self, folder: PathLike) -> None:
        """Writes what ``cxlab run --out`` writes, in place of an earlier run's files.

        Raises:
            OSError: the folder is not writable, another process writes there, or a file with the
                name of a result is none. Existing files are then unchanged.

        """
        run = self.report.get("run", "")
        report = self._json.rstrip("\n") + "\n"
        files: dict[str, str | Callable[[Path], object]] = {"report.json": report}
        if self.svg is not None:
            files["topology.svg"] = stamped(self.svg, run)
        if self.has_requests:
            import pyarrow.parquet

            table = self.to_arrow("requests")
            table = table.replace_schema_metadata({**(table.schema.metadata or {}), _RUN: run})
            files["requests.parquet"] = lambda path: pyarrow.parquet.write_table(table, path)
        _files.replace(Path(folder), files, NAMES)

    @cached_property
    def report(self) -> Report:
        """The whole report: the contents of `report.json`."""
        return cast("Report", json.loads(self._json))

    @property
    def json(self) -> str:
        """The report as JSON text."""
        return self._json

    @property
    def notes(self) -> list[Note]:
        """Assumptions and limits of the scenario and of this run that users should know."""
        notes = notes_of(self.report)
        if self._threads_note is not None:
            notes.append(Note("execution.threads", None, self._threads_note))
        return notes

    @property
    def partial(self) -> bool:
        """Whether the run was interrupted before its window ended."""
        return self.report["partial"]

    @property
    def ci95(self) -> ReportCi95:
        """Half-widths of the 95 % confidence intervals of the report's rates and means.

        None is a value without an interval, and ``reason`` says why. Hosts, devices, links and
        ``by_hops`` in the report have a ``ci95`` of their own.
        """
        return self.report["ci95"]

    @property
    def metrics(self) -> dict[str, object]:
        """The main values by name, such as ``p99_ns``: the columns of :func:`cxlab.sweep`."""
        from ._sweep import METRICS

        return {name: compute(self.report) for name, compute in METRICS.items()}

    @property
    def has_requests(self) -> bool:
        """Whether the request log was kept."""
        return self._columns is not None or self._requests is not None

    def table(self) -> str:
        """The table that the command prints, or a few lines if the system is not known any more."""
        if self._table is not None:
            return self._table
        report = self.report
        latency, bandwidth = report["latency_ns"], report["bandwidth_gb_per_s"]
        return (
            f"{report['scenario']}{' (PARTIAL)' if report['partial'] else ''}\n"
            f"  {report['requests']['completed']} requests in {report['window_ns'] / 1e3:.3f} us\n"
            f"  bandwidth {bandwidth['total']:.3f} GB/s\n"
            f"  latency {latency['mean']:.1f} ns, p99 {latency['p99']:.1f} ns\n"
        )

    def to_arrow(self, table: TableName = "hosts") -> pyarrow.Table:
        """A table of the result.

        ``"requests"`` has a row for each request of the run, warm-up
        included, and needs ``requests=True`` of :func:`cxlab.run`.
        Measured requests completed after ``report["warmup_ns"]``.
        """
        import pyarrow

        if table == "requests":
            return self._request_table()
        return pyarrow.table(self._columns_of(table))

    def to_pandas(self, table: TableName = "hosts") -> pandas.DataFrame:
        """A table of the result as a pandas frame."""
        return cast("pandas.DataFrame", self.to_arrow(table).to_pandas())

    def to_polars(self, table: TableName = "hosts") -> polars.DataFrame:
        """A table of the result as a polars frame (needs polars: ``pip install cxlab[polars]``)."""
        import polars

        return cast("polars.DataFrame", polars.from_arrow(self.to_arrow(table)))

    def _request_table(self) -> pyarrow.Table:
        import numpy
        import pyarrow
        import pyarrow.parquet

        if self._columns is not None:
            arrays = {
                name: pyarrow.array(numpy.frombuffer(values, dtype=kind))
                for name, kind, values in self._columns
            }
            return pyarrow.table(arrays)
        if self._requests is not None:
            try:
                return self._checked(pyarrow.parquet.read_table(self._requests))
            except (pyarrow.ArrowException, OSError) as error:
                first = str(error).partition("\n")[0]
                raise ResultError(
                    f"{self._requests}: found a damaged file ({first}); allowed: what "
                    "`cxlab run --requests` writes"
                ) from None
        raise ValueError("the request log was not kept; allowed: with requests=True in cxlab.run")

    def _checked(self, table: pyarrow.Table) -> pyarrow.Table:
        """Checks that a request log belongs to the report."""
        import pyarrow.compute

        run = self.report.get("run", "")
        found = (table.schema.metadata or {}).get(_RUN.encode(), b"").decode(errors="replace")
        if run and found != run:
            raise ResultError(
                f"{self._requests}: found the log of another run than the report's; allowed: "
                "files of one run"
            )
        stages = [f"{stage}_ps" for stage in self.report["stages_ns"]]
        names = ["host", "device", "hpa", "write", "issued_ps", "completed_ps", *stages]
        missing = [name for name in names if name not in table.column_names]
        if missing:
            raise ResultError(
                f"{self._requests}: found no column {missing[0]!r}; allowed: what "
                "`cxlab run --requests` writes"
            )
        for name, of in (("host", self.report["hosts"]), ("device", self.report["devices"])):
            most = pyarrow.compute.max(table[name]).as_py()
            if most is not None and most >= len(of):
                raise ResultError(
                    f"{self._requests}: found {name} {most}, and the report has {len(of)} of them; "
                    "allowed: files of one run"
                )
        return table

    def _columns_of(self, table: TableName) -> dict[str, list[Any]]:
        report = self.report
        match table:
            case "hosts":
                return _flat(cast("list[dict[str, Any]]", report["hosts"]))
            case "devices":
                return _flat(cast("list[dict[str, Any]]", report["devices"]))
            case "links":
                return _flat(cast("list[dict[str, Any]]", report["links"]))
            case "by_hops":
                return _flat(cast("list[dict[str, Any]]", report["by_hops"]))
            case "stages":
                stages = report["stages_ns"]
                widths = report["ci95"]["stages_ns"]
                return {
                    "stage": list(stages),
                    "mean_ns": list(stages.values()),
                    "ci95_ns": [widths.get(stage) for stage in stages],
                }
            case "latency_histogram":
                bins = report["latency_histogram"]
                return {
                    "upper_ns": [upper for upper, _ in bins],
                    "requests": [count for _, count in bins],
                }
            case "time_series":
                return _series(report)
        raise ValueError(f"found table {table!r}; allowed: {', '.join(TableName.__args__)}")  # type: ignore[attr-defined]

    def __repr__(self) -> str:
        report = self.report
        return (
            f"<cxlab.Result {report['scenario']!r}: {report['requests']['completed']} requests, "
            f"{report['bandwidth_gb_per_s']['total']:.3f} GB/s, "
            f"mean latency {report['latency_ns']['mean']:.1f} ns"
            f"{', partial' if report['partial'] else ''}>"
        )

    def _repr_html_(self) -> str:
        """The HTML that a notebook shows."""
        from cxlab._html import result_html

        return result_html(self.report, self.svg, self.table())


def _flat(rows: list[dict[str, Any]]) -> dict[str, list[Any]]:
    """Converts rows to columns. A nested table's key becomes table_key; missing values are None."""
    flat = [_flat_row(row) for row in rows]
    names = dict.fromkeys(name for row in flat for name in row)
    return {name: [row.get(name) for row in flat] for name in names}


def _flat_row(row: dict[str, Any]) -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in row.items():
        if isinstance(value, dict):
            flat.update({f"{key}_{inner}": item for inner, item in _flat_row(value).items()})
        else:
            flat[key] = value
    return flat


def _series(report: Report) -> dict[str, list[Any]]:
    """The time series as rates. The last bin ends with the measurement."""
    series = report["time_series"]
    starts = [at * series["bin_ns"] for at in range(len(series["reads"]))]
    spans = [min(series["bin_ns"], max(report["window_ns"] - start, 1e-3)) for start in starts]

    def rate(counts: list[int]) -> list[float]:
        return [count * 64.0 / span for count, span in zip(counts, spans, strict=True)]

    return {
        "start_ns": starts,
        "reads": series["reads"],
        "writes": series["writes"],
        "read_gb_per_s": rate(series["reads"]),
        "write_gb_per_s": rate(series["writes"]),
        "latency_ns": series["latency_ns"],
    }
