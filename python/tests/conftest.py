import os
import signal
from pathlib import Path

import matplotlib
import pytest

import cxlab

# A process in the background of a shell ignores SIGINT, and tests of it would then wait for ever.
signal.signal(signal.SIGINT, signal.default_int_handler)

matplotlib.use("Agg")

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """Isolates each test from the caches of other tests and of the user."""
    folder = tmp_path / "cache"
    monkeypatch.setenv("CXLAB_CACHE", str(folder))
    monkeypatch.delenv("CXLAB_TRACES", raising=False)
    return folder


@pytest.fixture(scope="session")
def root():
    return ROOT


@pytest.fixture
def pool():
    """A small system whose runs take milliseconds."""
    return (
        cxlab.Scenario("pool")
        .fabric(topology=cxlab.topology("spine-leaf", leaves=2, spines=2))
        .hosts("host", count=2, workload=cxlab.workload("uniform", read_ratio=0.7))
        .devices("mem", count=2, memory=cxlab.memory("fixed", latency="46 ns"))
        .measure(requests=2_000)
    )


@pytest.fixture
def endless(pool):
    """A system whose run would take hours."""
    return pool.measure(requests=10**12)


@pytest.fixture
def command_environment():
    """Environment of a command: without a terminal, and with this test's cache."""
    return {**os.environ, "NO_COLOR": "1"}
