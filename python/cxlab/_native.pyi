"""The extension module (crates/cxlab-ffi)."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from os import PathLike

VERSION: str

class ScenarioError(ValueError):
    """A scenario with mistakes; the text is what ``cxlab check`` prints.

    ``diagnostics`` is the same as data, what ``cxlab check --json`` prints.
    """

    diagnostics: list[dict[str, str | int | None]]

Batches = Iterator[tuple[bytes, bytes, bytes | None]]

class Plan:
    """A resolved scenario."""

    def __init__(
        self,
        name: str,
        text: str,
        set: Sequence[str],
        folder: str,
        workloads: Mapping[str, Callable[[int, int, int], Batches]],
        kernels: Mapping[str, object] = ...,
    ) -> None: ...
    @property
    def hash(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def seed(self) -> int: ...
    def notes(self) -> list[tuple[str, int | None, str]]: ...
    def describe(self) -> str: ...
    def summary(self) -> str: ...
    def svg(self) -> str: ...
    def analytic(self, seed: int | None = ...) -> str: ...
    def run(
        self,
        seed: int | None,
        threads: int | None,
        progress: Callable[[int, int | None, float], object] | None,
        requests: bool,
        checkpoint: tuple[str, str | None] | None = ...,
        restore: str | None = ...,
    ) -> Run: ...

def read_report(text: str) -> str:
    """The text with the names of this version; ValueError with the reason if it is no report."""

class ResultFolder:
    """A folder of results that no other process writes to until it is closed."""

    def __init__(self, path: PathLike[str], names: Sequence[str]) -> None: ...
    def replace(self, files: Sequence[WholeFile], names: Sequence[str]) -> None:
        """Gives new files their names at once, and removes other files of these names."""
    def close(self) -> None: ...

def sweep(folder: PathLike[str]) -> None:
    """Removes unfinished files that killed processes have left in a folder."""

class WholeFile:
    """An unfinished file beside its destination. It is removed unless it is published."""

    def __init__(self, destination: PathLike[str]) -> None: ...
    @property
    def path(self) -> str: ...
    def publish(self) -> None:
        """Syncs the file to disk and gives it its name."""
    def discard(self) -> None:
        """Removes the file if it was not published."""

class CompiledProgram:
    """A module of compiled functions, in WebAssembly's binary format."""

    def __init__(self, module: bytes) -> None: ...
    def functions(self) -> list[tuple[str, list[str], bool]]:
        """Name, types of parameters, and whether the function returns nothing."""
    def call(
        self,
        name: str,
        arguments: Sequence[int],
        item: tuple[int, list[int], list[int], list[int], list[int], list[int], list[int]],
        pages: object | None = ...,
    ) -> CompiledCall: ...

class CompiledCall:
    """A call of a compiled function."""

class Memory:
    """The memory that a kernel's threads share, before they run or after all have ended."""

    def read(self, addr: int, count: int) -> bytes: ...
    def write(self, addr: int, data: bytes) -> None: ...

class Run:
    """Result of a run."""

    @property
    def report(self) -> str: ...
    @property
    def table(self) -> str: ...
    @property
    def svg(self) -> str: ...
    @property
    def threads_note(self) -> str | None: ...
    @property
    def checkpoints_note(self) -> str | None: ...
    @property
    def fault(self) -> str | None: ...
    @property
    def columns(self) -> list[tuple[str, str, bytes]] | None: ...
    @property
    def stopped(self) -> BaseException | None: ...

def main(arguments: Sequence[str]) -> int: ...
def plugin_host(program: str, arguments: Sequence[str]) -> None: ...
def serve_plugin(arguments: Sequence[str]) -> int: ...
def trust_plugins() -> None: ...
def confine(folder: PathLike[str]) -> None: ...
def schema() -> str: ...
def catalogs() -> list[tuple[str, list[tuple[str, str]]]]: ...
def processors() -> int: ...
def seeds() -> tuple[int, int]: ...
def interval(values: Sequence[float]) -> tuple[float, float | None]: ...
def seeds_report(reports: Sequence[str]) -> tuple[str, str]: ...
def merge(name: str, text: str, set: Sequence[str]) -> str: ...
def import_trace(source: str, destination: str, format: str | None) -> tuple[int, int]: ...
