"""Cohet's figures at a small scale."""

import pytest

from cxlab.reproduce import Settings
from cxlab.reproduce.cohet import calibration, common, fig4, fig14, fig16, fig17, fig18
from cxlab.reproduce.cohet.common import ASIC, FPGA, HMC, LLC, MEMORY

#: Cycles of the FPGA and the ASIC, in ns.
CYCLES = {FPGA: 2.5, ASIC: 0.667}


@pytest.fixture
def settings(tmp_path):
    return Settings(out=tmp_path, workers=1, cache=False)


@pytest.fixture(autouse=True)
def short(monkeypatch):
    monkeypatch.setattr(common, "LATENCY_REPEATS", 3)
    monkeypatch.setattr(common, "BANDWIDTH_REPEATS", 1)
    from_host = (4096, 16_384)
    lines = {HMC: (512, 1024), LLC: from_host, MEMORY: from_host}
    monkeypatch.setattr(common, "STEADY_LINES", lines)
    monkeypatch.setattr(common, "DMA_MESSAGES", 5)
    monkeypatch.setattr(common, "DMA_BYTES", 1 << 20)
    monkeypatch.setattr(common, "DMA_BOUNDS", (4, 1000))


def test_the_scenario_is_that_in_the_scenarios_folder(root):
    shipped = (common.DATA / "cohet-fpga.toml").read_bytes()
    assert shipped == (root / "scenarios" / "cohet-fpga.toml").read_bytes()


def test_the_clock_alone_makes_an_asic(settings):
    """The device's part of a load scales with the clock, and the host's part does not."""
    cases = [
        ({"clock": clock, "path": tier}, common.latency(clock, tier))
        for clock in (FPGA, ASIC)
        for tier in (HMC, LLC, MEMORY)
    ]
    # The fastest load of each, which meets neither a refresh nor a closed row.
    table = common.collect(settings, "test", cases).set_index(["clock", "path"]).min_ns
    faster = CYCLES[FPGA] - CYCLES[ASIC]
    assert table[FPGA, HMC] / table[ASIC, HMC] == pytest.approx(2.5 / 0.667, rel=1e-3)
    for tier in (LLC, MEMORY):
        cycles = (table[FPGA, tier] - table[ASIC, tier]) / faster
        assert cycles == pytest.approx(86 + 86, rel=0.02)


def test_short_measurements_come_near_the_testbed(settings, monkeypatch):
    kept = {"HMC hit", "LLC hit", "node 7", "node 3", "DMA, 64 B"}
    cases = [
        case for case in calibration._cases() if case[1] in kept and "bandwidth" not in case[0]
    ]
    monkeypatch.setattr(calibration, "_cases", lambda: cases)
    table = calibration.collect(settings)
    assert len(table) == 5 + len(common.TIERS)
    assert (table.error_percent.abs() < 3).all()


def test_transfer_dominates_the_latency_of_large_messages(settings, monkeypatch):
    monkeypatch.setattr(fig14, "SIZES", (64, 1024, 256 << 10))
    table = fig14.collect(settings)
    latency = table[(table.clock == FPGA) & (table.path == "DMA")].set_index("bytes").p50_ns
    assert latency[1024] < 1.05 * latency[64]
    # 256 KiB at 64 B a cycle.
    assert latency[256 << 10] > 4096 * CYCLES[FPGA]


def test_dma_reaches_its_bandwidth_with_large_messages_only(settings, monkeypatch):
    monkeypatch.setattr(fig16, "SIZES", (64, 256 << 10))
    table = fig16.collect(settings)
    curve = table[(table.clock == FPGA) & (table.path == "DMA")].set_index("bytes")
    assert 0.7 < curve.bandwidth_gb_per_s[64] < 0.96
    assert 18 < curve.bandwidth_gb_per_s[256 << 10] < 64 / CYCLES[FPGA]


def test_atomics_gain_by_locality(settings, monkeypatch):
    monkeypatch.setattr(fig17, "ITERATIONS", 200)
    monkeypatch.setattr(fig17, "ELEMENTS", {1: "black"})
    monkeypatch.setattr(fig17, "ARRAYS", ())
    speedup = fig17.collect(settings).set_index("pattern").speedup
    assert speedup["central"] > speedup["stride1"] > speedup["rand"] > 3
    for pattern in fig17.MODERATE:
        assert speedup["rand"] < speedup[pattern] < speedup["stride1"]


def test_messages_take_time_both_ways(settings, monkeypatch):
    monkeypatch.setattr(fig18, "BENCHES", (1,))
    table = fig18.collect(settings)
    assert len(table) == 2 + 1 + 4 + 2
    assert (table.time_ns > 0).all()
    own = table[table.method == fig18.RPC_NIC]
    assert (own.speedup == 1).all()
    by = table[table.direction == "serialize"].set_index("method").speedup
    # Chains of loads over CXL.cache take longer than one DMA read of the whole message.
    assert by[fig18.CXL_MEM] > 1 > by[fig18.PREFETCH] > by[fig18.CXL_CACHE]
    assert by["RpcNIC, a copy at a time"] < 1


def test_unified_memory_pays_for_every_page(settings, monkeypatch):
    monkeypatch.setattr(fig4, "SIZES", (16_384,))
    table = fig4.collect(settings).set_index("model").time_us
    # Two vectors are fetched and one is written back, each of two pages of 64 KiB. A
    # fault takes the driver 10 us.
    assert table["unified"] - table["explicit"] > 0.8 * 6 * 10
    assert table["cohet"] < table["unified"]
