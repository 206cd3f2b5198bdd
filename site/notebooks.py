"""Runs the notebooks of examples/ for the site, and keeps them with their outputs.

    python site/notebooks.py FOLDER

It runs in the environment that has the package, nbclient and ipykernel (`make python`).
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

import nbclient
import nbformat

NOTEBOOKS = Path(__file__).resolve().parent.parent / "examples" / "notebooks"
#: Longest time of a cell, in seconds.
TIMEOUT = 600


def main() -> None:
    """Writes each notebook into a folder, run from the first cell to the last."""
    out = Path(sys.argv[1])
    out.mkdir(parents=True, exist_ok=True)
    # The runs leave nothing in the cache of whoever builds the site.
    with tempfile.TemporaryDirectory() as cache:
        os.environ["CXLAB_CACHE"] = cache
        for path in sorted(NOTEBOOKS.glob("*.ipynb")):
            notebook = nbformat.read(path, as_version=4)
            with tempfile.TemporaryDirectory() as folder:
                resources = {"metadata": {"path": folder}}
                nbclient.NotebookClient(
                    notebook, timeout=TIMEOUT, kernel_name="python3", resources=resources
                ).execute()
            nbformat.write(notebook, out / path.name)


if __name__ == "__main__":
    main()
