#!/usr/bin/env python3
"""Compares the results of two commits, bit for bit.

    tests/compare.py BEFORE AFTER [--only NAME...] [--rename OLD=NEW...] [--leave-out KEY...]

Builds the command of both commits and runs every scenario of ``scenarios/`` that both have.
Compares all files that runs write (reports with the digest of all requests, series, pictures),
exit codes, plans, analytic reports, and the tables in ``figures/``. Leaves out times of the machine
and the identity of a run. Keys of a report that end differently are named with ``--rename``, such
as ``_gbps=_gb_per_s``, and those that are meant to differ with ``--leave-out``. A command that is
built stays in ``target/compare`` for the next comparison.
Exit code 0: nothing differs; 1: something differs, and each difference is a line.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# What a machine or a moment decides, and not the scenario.
LEFT_OUT = {
    *("wall_seconds", "events_per_second", "per_wall_second"),
    *("run", "version", "build", "provenance"),
}
# The identity of a run in its pictures and pages.
MARK = re.compile(rb"<!-- cxlab run [0-9a-f]+ -->")
# A fully optimised build takes three times as long and computes the same.
QUICK = {"CARGO_PROFILE_RELEASE_LTO": "off", "CARGO_PROFILE_RELEASE_CODEGEN_UNITS": "16"}


def git(*arguments: str) -> str:
    """What git prints."""
    done = subprocess.run(
        ["git", "-C", str(ROOT), *arguments], capture_output=True, text=True, check=False
    )
    if done.returncode:
        sys.exit(f"error: git {' '.join(arguments)}: {done.stderr.strip()}")
    return done.stdout


def build(commit: str, folder: Path) -> Path:
    """Checks a commit out and builds its command, where no earlier comparison did."""
    tree = folder / commit
    git("worktree", "add", "--detach", "--force", str(tree), commit)
    target = ROOT / "target" / "compare"
    binary = target / f"cxlab-{commit}"
    if binary.exists():
        return binary
    environment = {**os.environ, **QUICK, "CARGO_TARGET_DIR": str(target)}
    command = ["cargo", "build", "--release", "--locked", "--quiet", "--bin", "cxlab"]
    if subprocess.run(command, cwd=tree, env=environment, check=False).returncode:
        sys.exit(f"error: {commit} does not build")
    binary.write_bytes((target / "release" / "cxlab").read_bytes())
    binary.chmod(0o755)
    return binary


def present(key: str, renamed: dict[str, str]) -> str:
    """A key of a report under its present name."""
    for old, new in renamed.items():
        if key.endswith(old):
            return key.removesuffix(old) + new
    return key


def plain(value: object, renamed: dict[str, str]) -> object:
    """A report without what a machine decides, under its present names."""
    if isinstance(value, dict):
        items = ((present(key, renamed), one) for key, one in value.items() if key not in LEFT_OUT)
        return {key: plain(one, renamed) for key, one in items}
    if isinstance(value, list):
        return [plain(one, renamed) for one in value]
    return value


def results(binary: Path, scenario: Path, renamed: dict[str, str]) -> dict[str, object]:
    """What the command says of a scenario: each file that it writes, and how it ends."""
    is_fleet = "[fleet]" in scenario.read_text(encoding="utf-8")
    modes = (
        {"fleet": ["fleet"]}
        if is_fleet
        else {
            "run": ["run", "--seed", "1"],
            "plan": ["plan", "--format", "json"],
            "analytic": ["run", "--mode", "analytic"],
        }
    )
    found: dict[str, object] = {}
    for mode, words in modes.items():
        with tempfile.TemporaryDirectory() as out:
            to = [] if mode == "plan" else ["--out", out]
            trust = ["--trust-plugins"] if mode != "fleet" else []
            command = [str(binary), *words, f"scenarios/{scenario.name}", *trust, *to]
            done = subprocess.run(
                command, cwd=scenario.parent.parent, capture_output=True, check=False
            )
            found[f"{mode}: exit code"] = done.returncode
            if mode == "plan" or done.returncode:
                said = done.stdout + done.stderr.replace(out.encode(), b"OUT")
                if mode == "plan" and not done.returncode:
                    said = json.dumps(plain(json.loads(done.stdout), renamed)).encode()
                found[f"{mode}: output"] = hashlib.sha256(said).hexdigest()
            for path in sorted(Path(out).rglob("*")):
                if not path.is_file():
                    continue
                content = path.read_bytes()
                if path.suffix == ".json":
                    content = json.dumps(plain(json.loads(content), renamed)).encode()
                digest = hashlib.sha256(MARK.sub(b"", content)).hexdigest()
                found[f"{mode}: {path.relative_to(out)}"] = digest
    return found


def tables(commit: str) -> dict[str, object]:
    """The tables in ``figures/``, by the hash of their content."""
    lines = git("ls-tree", "-r", commit, "figures").splitlines()
    rows = (line.split(maxsplit=3) for line in lines)
    return {path: identity for _, _, identity, path in rows if path.endswith(".csv")}


def differing(before: dict[str, object], after: dict[str, object]) -> list[str]:
    """Names whose values differ, or that only one side has."""
    return [name for name in sorted({*before, *after}) if before.get(name) != after.get(name)]


def main() -> int:
    """Compares two commits, as the arguments say."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("before")
    parser.add_argument("after")
    parser.add_argument("--only", nargs="*", metavar="NAME", help="scenarios, by name")
    parser.add_argument(
        "--rename", nargs="*", default=[], metavar="OLD=NEW", help="ends of keys of reports"
    )
    parser.add_argument("--leave-out", nargs="*", default=[], metavar="KEY", help="keys of reports")
    args = parser.parse_args()
    renamed = dict(one.split("=", 1) for one in args.rename)
    LEFT_OUT.update(args.leave_out)
    commits = [
        git("rev-parse", "--short=12", f"{name}^{{commit}}").strip()
        for name in (args.before, args.after)
    ]
    wrong = [f"figures: {name}" for name in differing(*map(tables, commits))]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        try:
            binaries = [build(commit, folder) for commit in dict.fromkeys(commits)]
            trees = [folder / commit / "scenarios" for commit in commits]
            shipped = [{path.stem for path in tree.glob("*.toml")} for tree in trees]
            names = sorted(shipped[0] & shipped[1])
            for number, scenario in enumerate(names, 1):
                if args.only and scenario not in args.only:
                    continue
                path = Path("scenarios") / f"{scenario}.toml"
                before = results(binaries[0], folder / commits[0] / path, renamed)
                after = results(binaries[-1], folder / commits[-1] / path, {})
                lines = [f"{scenario}: {one}" for one in differing(before, after)]
                wrong += lines
                count = f"{len(before)} results, {len(lines)} differ"
                print(f"{number}/{len(names)} {scenario}: {count}", flush=True)
        finally:
            for tree in folder.glob("*/"):
                git("worktree", "remove", "--force", str(tree))
    print("\n".join(wrong) or "nothing differs")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
