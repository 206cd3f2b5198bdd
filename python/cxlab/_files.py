"""Files that get their name only when they are complete."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from cxlab import _native


def write_whole(path: Path, write: Callable[[Path], object]) -> None:
    """Lets ``write`` fill a file beside ``path``, and then gives the file its name.

    After a kill or with a full disk, ``path`` is absent or unchanged. A link is replaced
    and its target stays; a device or a FIFO is refused. Unfinished files of killed
    processes in the folder are removed.
    """
    _native.sweep(path.parent)
    write_entry(path, write)


def write_entry(path: Path, write: Callable[[Path], object]) -> None:
    """Like :func:`write_whole`, in a folder of many files, which is swept elsewhere."""
    whole = _native.WholeFile(path)
    try:
        with _naming(path):
            write(Path(whole.path))
        whole.publish()
    finally:
        whole.discard()


def replace(
    folder: Path,
    files: Mapping[str, str | Callable[[Path], object]],
    names: Sequence[str],
    *,
    checked: Sequence[str] | None = None,
) -> None:
    """Writes ``files`` and then replaces all files of ``names`` by them at once.

    Each of ``files`` is a text, or a function that fills a file. A missing folder is made. A
    killed process leaves either the old files or the new ones. A file of ``checked`` (``names`` if
    None) that no run has written is refused, and nothing is written then.
    """
    opened = _native.ResultFolder(folder, names if checked is None else checked)
    made: list[_native.WholeFile] = []
    try:
        for name, content in files.items():
            whole = _native.WholeFile(folder / name)
            made.append(whole)
            path = Path(whole.path)
            with _naming(folder / name):
                if isinstance(content, str):
                    path.write_text(content, encoding="utf-8")
                else:
                    content(path)
        opened.replace(made, names)
    finally:
        for whole in made:
            whole.discard()
        opened.close()


def write_text(path: Path, text: str) -> None:
    """Writes a text file completely or not at all."""
    write_whole(path, lambda partial: partial.write_text(text, encoding="utf-8"))


def read_bytes(path: Path, most: int = -1) -> bytes:
    """Reads the first ``most`` bytes of a file, or all.

    Raises:
        OSError: with the file's name, which Python omits if reading itself fails.

    """
    with _naming(path), path.open("rb") as file:
        return file.read(most)


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Adds the file's name to errors of reading and writing."""
    try:
        yield
    except OSError as error:
        error.filename = error.filename or str(path)
        raise


def read_text(path: Path, most: int) -> str:
    """Reads a text file of at most ``most`` bytes.

    Raises:
        ValueError: the file is larger, or not UTF-8.

    """
    found = read_bytes(path, most + 1)
    if len(found) > most:
        raise ValueError(f"{path}: found more than {most} bytes; allowed: at most as many")
    try:
        return found.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{path}: found no text: byte {error.start} is not UTF-8; allowed: UTF-8"
        ) from None
