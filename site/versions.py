#!/usr/bin/env python3
"""Lists the versions below a folder of sites, for the theme's menu: ``site/versions.py FOLDER``.

Writes ``versions.json`` in the form of mike, and an ``index.html`` that leads to the newest
version.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path


def order(version: str) -> tuple[int, ...]:
    """Numbers that versions are sorted by."""
    return tuple(int(part) for part in version.split("."))


def main(folder: Path) -> None:
    """Writes both files."""
    names = [path.name for path in folder.iterdir() if (path / "sitemap.xml").is_file()]
    newest, *older = sorted(names, key=order, reverse=True)
    listed = [{"version": newest, "title": newest, "aliases": ["latest"]}]
    listed += [{"version": name, "title": name, "aliases": []} for name in older]
    (folder / "versions.json").write_text(json.dumps(listed), encoding="utf-8")
    (folder / "index.html").write_text(
        '<!doctype html><html lang="en"><meta charset="utf-8"><title>cxlab</title>'
        f'<meta http-equiv="refresh" content="0; url={newest}/">'
        f'<a href="{newest}/">cxlab {newest}</a></html>\n',
        encoding="utf-8",
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]))
