#!/usr/bin/env python3
"""Runs every shipped scenario for the gallery of the site: ``site/gallery.py CXLAB OUT``.

Writes OUT/NAME.svg, and OUT/index.json with the table, the text and the lab's fragment of each.
"""

from __future__ import annotations

import base64
import json
import re
import subprocess
import sys
import tempfile
import tomllib
import zlib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent


def fragment(text: str) -> str:
    """What the lab reads a scenario from: raw deflate, in the alphabet of URLs without padding."""
    pack = zlib.compressobj(9, zlib.DEFLATED, -15)
    packed = pack.compress(text.encode()) + pack.flush()
    return "s=" + base64.urlsafe_b64encode(packed).decode().rstrip("=")


def why_not(text: str) -> str | None:
    """Why a scenario does not run in a browser; none where it does."""
    return "it reads a file beside it" if re.search(r'\b(file|path) = "', text) else None


def entry(cxlab: Path, path: Path, out: Path) -> dict[str, Any]:
    """Runs a scenario and says what its page shows."""
    text = path.read_text(encoding="utf-8")
    name = path.stem
    command = [str(cxlab), "run", f"scenarios/{path.name}"]
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [*command, "--out", folder], cwd=ROOT, capture_output=True, text=True, check=False
        )
        if done.returncode:
            sys.exit(f"error: {' '.join(command)}: exit code {done.returncode}\n{done.stderr}")
        picture = (Path(folder) / "topology.svg").read_text(encoding="utf-8")
    (out / f"{name}.svg").write_text(picture, encoding="utf-8")
    reason = why_not(text)
    return {
        "name": name,
        "description": tomllib.loads(text)["description"],
        "command": f"cxlab run scenarios/{path.name}",
        "table": done.stdout,
        "text": text,
        "fragment": None if reason else fragment(text),
        "why_not": reason,
    }


def main(cxlab: Path, out: Path) -> None:
    """Runs them all, in the order of their names."""
    out.mkdir(parents=True, exist_ok=True)
    entries = []
    for path in sorted((ROOT / "scenarios").glob("*.toml")):
        print(f"  {path.name}", file=sys.stderr, flush=True)
        entries.append(entry(cxlab, path, out))
    (out / "index.json").write_text(json.dumps(entries, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve())
