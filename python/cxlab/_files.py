"""Files that appear under their name only when they are whole."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path


def write_whole(path: Path, write: Callable[[Path], object]) -> None:
    """Lets ``write`` write beside ``path``, and then gives the file its name.

    A process that is killed leaves nothing under that name, or what was there before.
    """
    partial = path.with_name(f"{path.name}.partial-{os.getpid()}")
    try:
        write(partial)
        with partial.open("rb") as file:
            os.fsync(file.fileno())
        partial.replace(path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise


def write_text(path: Path, text: str) -> None:
    """Writes a text file whole or not at all."""
    write_whole(path, lambda partial: partial.write_text(text, encoding="utf-8"))
