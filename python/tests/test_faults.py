"""Failing calls and killed commands: one error, and no incomplete file under a final name."""

import hashlib
import os
import random
import re
import signal
import subprocess
import sys
import time

import pytest

CALLS = {"write": 5, "read": 5, "open": 10, "rename": 4, "fsync": 5, "mkdir": 2}
COMMAND = "from cxlab._command import main; raise SystemExit(main())"
GRID = ["--grid", "hosts[0].issue.outstanding=1,2,3", "--workers", "1"]


@pytest.fixture
def failing(root, tmp_path_factory):
    """A library for LD_PRELOAD that lets calls fail."""
    library = tmp_path_factory.mktemp("fail") / "fail.so"
    source = root / "crates/cxlab-cli/tests/faults/fail.c"
    compiler = os.environ.get("CC", "cc")
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", library, source, "-ldl"], check=True)
    return library


class Work:
    """A folder with a scenario, its results, a cache, and the output of commands."""

    def __init__(self, folder, pool, environment):
        self.folder = folder
        self.cache = folder / "cache"
        pool.save(folder / "s.toml")
        self.environment = {**environment, "CXLAB_CACHE": str(self.cache)}
        assert self.done(["run", "s.toml", "--out", "run"]).returncode == 0

    def begin(self, arguments, **more):
        return subprocess.Popen(
            [sys.executable, "-c", COMMAND, *arguments],
            cwd=self.folder,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            env={**self.environment, **more},
            start_new_session=True,
        )

    def done(self, arguments, **more):
        process = self.begin(arguments, **more)
        _, said = process.communicate(timeout=120)
        return subprocess.CompletedProcess(arguments, process.returncode, None, said)

    def forget(self):
        for entry in self.entries():
            entry.unlink()

    def entries(self):
        files = self.cache.rglob("*.json") if self.cache.exists() else ()
        return [file for file in files if not file.name.startswith(".")]

    def assert_entries_are_whole(self):
        for entry in self.entries():
            first, _, rest = entry.read_bytes().partition(b"\n")
            kind, name, digest = first.decode().split()
            assert (kind, name) == ("cxlab-report", entry.stem)
            assert digest == hashlib.sha256(rest).hexdigest()

    def left(self):
        return [file.name for file in self.folder.rglob(".cxlab*")]


@pytest.fixture
def work(tmp_path, pool, command_environment):
    return Work(tmp_path, pool, command_environment)


def commands(work):
    """Commands that write one file each, with that file."""
    return [
        (["sweep", "s.toml", *GRID, "--out", "all.csv"], work.folder / "all.csv"),
        (["report", "run", "--out", "run/report.html"], work.folder / "run/report.html"),
    ]


@pytest.mark.slow
@pytest.mark.parametrize("which", [0, 1])
def test_calls_that_fail_leave_what_was_there_or_what_is_new(work, failing, which):
    arguments, file = commands(work)[which]
    assert work.done(arguments).returncode == 0
    new = file.read_bytes()
    drawn = random.Random(1)
    failed = 0
    for _ in range(60):
        call = drawn.choice(list(CALLS))
        failure = f"{call}:{drawn.randint(1, CALLS[call])}{drawn.choice(['', '+'])}"
        mark = work.folder / "mark"
        mark.unlink(missing_ok=True)
        file.write_bytes(b"before")
        work.forget()
        done = work.done(
            arguments,
            LD_PRELOAD=str(failing),
            CXLAB_FAIL=failure,
            CXLAB_FAIL_IN=str(work.folder),
            CXLAB_FAIL_MARK=str(mark),
        )
        what = f"{failure}: {done.returncode} {done.stderr}"
        failed += mark.exists()
        assert done.returncode in (0, 1, 2), what
        assert "Traceback" not in done.stderr, what
        # A folder that cannot be synced to disk is an error too, with the new file in it.
        found = file.read_bytes()
        assert found == new or (done.returncode != 0 and found == b"before"), what
        assert done.returncode == 0 or re.search(r"s\.toml|run/|all\.csv|/cache", done.stderr), what
        work.assert_entries_are_whole()
    assert failed >= 10
    assert work.done(arguments).returncode == 0
    assert file.read_bytes() == new
    assert not work.left()


@pytest.mark.slow
@pytest.mark.parametrize("which", [0, 1])
def test_a_command_that_is_killed_leaves_what_was_there_or_what_is_new(work, which):
    arguments, file = commands(work)[which]
    begun = time.monotonic()
    assert work.done(arguments).returncode == 0
    longest = time.monotonic() - begun
    new = file.read_bytes()
    drawn = random.Random(1)
    for kill in range(40):
        file.write_bytes(b"before")
        if kill % 3 == 0:
            work.forget()
        process = work.begin(arguments)
        time.sleep(drawn.uniform(0, 1.1 * longest))
        # Its workers are killed too, or live on for a moment.
        (os.killpg if kill % 2 else os.kill)(process.pid, signal.SIGKILL)
        process.communicate()
        assert file.read_bytes() in (b"before", new)
        time.sleep(0.1)
        work.assert_entries_are_whole()
    assert work.done(arguments).returncode == 0
    assert file.read_bytes() == new
    assert not work.left()
