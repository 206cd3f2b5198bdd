"""CXL-ClusterSim's figures at a small scale."""

import pytest

from cxlab.reproduce import Settings
from cxlab.reproduce.cxl_clustersim import (
    common,
    fig5,
    fig6,
    fig7,
    fig9,
    fig10,
    fig11,
    fig12,
    sharing,
)
from cxlab.reproduce.cxl_clustersim.common import INTERLEAVE, LOCAL, REMOTE


@pytest.fixture
def settings(tmp_path):
    return Settings(out=tmp_path, workers=1, cache=False)


@pytest.fixture(autouse=True)
def one_loop(monkeypatch):
    for module in (fig5, fig6, fig7):
        monkeypatch.setattr(module, "LOOPS", ("triad",))


@pytest.mark.parametrize(
    ("name", "shipped"),
    [
        ("cluster", "cluster-stream"),
        ("graph", "graph-sharing"),
        ("mixed", "mixed-nodes"),
        ("nas", "nas-pooling"),
    ],
)
def test_the_scenarios_are_those_in_the_scenarios_folder(root, name, shipped):
    ours = (common.DATA / f"{name}.toml").read_bytes()
    assert ours == (root / "scenarios" / f"{shipped}.toml").read_bytes()


def test_what_crosses_the_link_reaches_the_memory(settings):
    table = fig5.collect(settings)
    assert table.remote_gibps.min() > 5
    # At each end of the window, about one of 350,000 lines is in flight.
    assert table.off_percent.max() < 0.99


def test_pages_decide_which_memory_is_used(settings, monkeypatch):
    monkeypatch.setattr(fig6, "NODES", 2)
    monkeypatch.setattr(fig6, "GEM5_LINES", 8)
    both = fig6.collect(settings).set_index("placement")
    table, fewer = (both[both.lines == lines] for lines in (fig6.LINES, 8))
    assert (fewer.remote_gibps[REMOTE] < table.remote_gibps[REMOTE]).all()
    local, remote = table.local_gibps_per_node, table.remote_gibps / 2
    assert remote[LOCAL] == 0
    assert local[REMOTE] < 0.02 * remote[REMOTE]
    assert local[INTERLEAVE] == pytest.approx(remote[INTERLEAVE], rel=0.1)


def test_nodes_of_two_instruction_sets_share_the_pool(settings, monkeypatch):
    monkeypatch.setattr(fig9, "LOOPS", ("triad",))
    table = fig9.collect(settings)
    assert table.riscv_over_arm.iloc[0] == pytest.approx(1, abs=0.1)
    assert table.arm_gibps.iloc[0] > 10


def test_latency_takes_bandwidth(settings, monkeypatch):
    monkeypatch.setattr(fig7, "NODES", 1)
    monkeypatch.setattr(fig7, "LATENCIES", (0, 500))
    monkeypatch.setattr(fig7, "WINDOWS", (fig7.LINES,))
    table = fig7.collect(settings)
    assert table.change_percent.iloc[0] == 0
    # A single node is limited by its window of lines, not by the pool.
    assert table.change_percent.iloc[1] < -50


def test_programs_whose_pages_lie_in_the_pool_are_slower_than_those_that_fit(settings, monkeypatch):
    monkeypatch.setattr(fig10, "SHRINK", 32)
    # An eighth of the working sets, and of the memories except for a node's minimum.
    monkeypatch.setattr(fig10, "PREFERRED", 64)
    monkeypatch.setattr(fig10, "CHANNELS", (1,))
    monkeypatch.setattr(fig10, "LATENCIES", (0,))
    monkeypatch.setattr(fig10, "WINDOWS", (fig10.LINES,))
    monkeypatch.setattr(fig10, "DURATION", "100 us")
    table = fig10.collect(settings).set_index("program")
    assert table.pages_remote_percent["ft"] > 10
    assert table.pages_remote_percent["ep"] == 0
    assert table.relative_ipc["ep"] == pytest.approx(1)


def test_a_graph_in_the_blade_costs_and_part_of_the_accesses_are_on_it(settings, monkeypatch):
    monkeypatch.setattr(sharing, "SCALE", 8)
    monkeypatch.setattr(sharing, "LATENCIES", (250,))
    shares = fig11.collect(settings).set_index("kernel").on_graph_percent
    assert shares.drop("tc").between(10, 60).all()
    # Triangle counting uses hardly any memory but the graph.
    assert shares.idxmax() == "tc"
    table = fig12.collect(settings).set_index("kernel")
    assert table.relative_ipc["geomean"] < 1
    assert (table.relative_time > 1).all()
