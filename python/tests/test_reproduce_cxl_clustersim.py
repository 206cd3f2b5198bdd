"""CXL-ClusterSim's figures, in small."""

import pytest

from cxlab.reproduce import Settings
from cxlab.reproduce.cxl_clustersim import common, fig5, fig6, fig7
from cxlab.reproduce.cxl_clustersim.common import INTERLEAVE, LOCAL, REMOTE


@pytest.fixture
def settings(tmp_path):
    return Settings(out=tmp_path, workers=1, cache=False)


@pytest.fixture(autouse=True)
def one_loop(monkeypatch):
    for module in (fig5, fig6, fig7):
        monkeypatch.setattr(module, "LOOPS", ("triad",))


def test_the_scenario_is_that_in_the_scenarios_folder(root):
    shipped = (common.DATA / "cluster.toml").read_bytes()
    assert shipped == (root / "scenarios" / "cluster-stream.toml").read_bytes()


def test_what_crosses_the_link_reaches_the_memory(settings):
    table = fig5.collect(settings)
    assert table.remote_gibps.min() > 5
    # A line of 350,000 is under way at either end of the window.
    assert table.off_percent.max() < 0.99


def test_pages_decide_which_memory_is_used(settings, monkeypatch):
    monkeypatch.setattr(fig6, "NODES", 2)
    table = fig6.collect(settings).set_index("placement")
    local, remote = table.local_gibps_per_node, table.remote_gibps / 2
    assert remote[LOCAL] == 0
    assert local[REMOTE] < 0.02 * remote[REMOTE]
    assert local[INTERLEAVE] == pytest.approx(remote[INTERLEAVE], rel=0.1)


def test_latency_takes_bandwidth(settings, monkeypatch):
    monkeypatch.setattr(fig7, "NODES", 1)
    monkeypatch.setattr(fig7, "LATENCIES", (0, 500))
    monkeypatch.setattr(fig7, "MISSES", (8,))
    table = fig7.collect(settings)
    assert table.change_percent.iloc[0] == 0
    # A node by itself is held back by its window of lines, not by the pool.
    assert table.change_percent.iloc[1] < -50
