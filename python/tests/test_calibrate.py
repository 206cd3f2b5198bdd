"""Calibration: parameters of simulated devices, logs of real hosts, and refusals."""

import json
import math
import random
import tomllib
from dataclasses import replace

import mlc_logs
import pandas as pd
import pytest

import cxlab
from cxlab import Scenario
from cxlab._calibrate import surrogate
from cxlab._calibrate.bench import Bench
from cxlab._calibrate.fit import Problem, _intervals, _solve, used
from cxlab._calibrate.judge import judge
from cxlab._calibrate.observations import BELOW, of, split
from cxlab._calibrate.result import FILES
from cxlab._command import main

#: Idle latency in ns; rates of reads, writes and the medium in GB/s; time of a bank in ns; requests
#: in flight. The medium has 14 banks.
TRUTH = (300.0, 18.0, 14.0, 22.4, 40.0, 400.0)
NOISE = 0.02
QUIET = {"progress": False, "cache": False}


@pytest.fixture(scope="module")
def bench():
    return Bench("vistara", "sapphire-rapids", QUIET)


@pytest.fixture(scope="module")
def clean(bench):
    """What `cxlab mlc` measures of a device with known parameters."""
    table = bench.table(TRUTH, bench.controller_ns(TRUTH[0]))
    scenario = Scenario.from_dict(
        {
            "name": "truth",
            "fabric": {"topology": {"kind": "direct"}},
            "hosts": [
                {
                    "name": "host",
                    "issue": {**bench.issue(), "outstanding": 400},
                    "workload": {"kind": "uniform"},
                }
            ],
            "devices": [{"name": "device", **table}],
        }
    )
    return cxlab.mlc(scenario, only=["idle", "peak", "loaded"], pattern="random", **QUIET)


def noisy(found, seed):
    """The measurement with an error of each number, which is a part of it."""
    draw = random.Random(seed)

    def frame(table, names):
        table = table.copy()
        for name in names:
            table[name] = [value * math.exp(draw.gauss(0, NOISE)) for value in table[name]]
        return table

    return replace(
        found,
        idle=frame(found.idle, ["latency_ns"]),
        peak=frame(found.peak, ["bandwidth_mb_per_s"]),
        loaded=frame(found.loaded, ["latency_ns", "bandwidth_mb_per_s"]),
    )


def misses(clean, seed):
    """Parameters whose interval does not hold the true value."""
    made = cxlab.calibrate(noisy(clean, seed), "vistara", noise=NOISE, **QUIET)
    return [
        row.parameter
        for row, true in zip(made.parameters.itertuples(), TRUTH, strict=True)
        if not row.low <= true <= row.high
    ]


def test_parameters_of_a_simulated_device_are_within_their_intervals(clean):
    assert [misses(clean, seed) for seed in range(2)] == [[], []]


@pytest.mark.slow
def test_intervals_hold_all_parameters_in_95_of_100_seeds(clean):
    missed = {seed: found for seed in range(100) if (found := misses(clean, seed))}
    assert len(missed) <= 5, missed


def test_without_noise_the_fit_is_exact_and_the_rest_is_predicted(clean):
    made = cxlab.calibrate(clean, "vistara", **QUIET)
    assert made.error("fit") < 0.5
    assert made.error("held out") < 1.5
    for value, true in zip(made.fit.values, TRUTH, strict=True):
        assert value == pytest.approx(true, rel=0.04)
    assert made.outstanding == pytest.approx(400, rel=0.01)
    assert f"hosts[].issue.outstanding = {made.outstanding}" in made.toml()


@pytest.mark.slow
def test_joint_intervals_cover_as_often_as_they_say():
    """Coverage over many draws, of the closed form, whose truth is known exactly."""
    from cxlab._calibrate.observations import Observation

    peaks = [Observation("peak", str(at), at, 1.0, held=at == 75) for at in (100, 75, 50, 0)]
    loads = [Observation("loaded", f"l{at}", 100, 1.0, at) for at in (2, 4, 6, 8, 10, 12, 14)]
    found = [Observation("idle", "idle", 100, 1.0), *peaks, *loads]
    found.append(Observation("saturated", "full", 100, 1.0, 18))
    links = {one.read_percent: 40.0 for one in found}
    names = used(TRUTH)
    held, draws = 0, 200
    for seed in range(draws):
        draw = random.Random(seed)
        some = [
            replace(one, value=surrogate.value(TRUTH, one, links) * math.exp(draw.gauss(0, NOISE)))
            for one in found
        ]
        problem = Problem(some, links, NOISE, [1.0] * len(some))
        values = _solve(problem, TRUTH)
        judged = judge(problem.residuals, values, names, NOISE)
        ends = _intervals(problem, values, judged)
        held += all(
            ends[name][0] <= true <= ends[name][1]
            for name, true in zip(surrogate.NAMES, TRUTH, strict=True)
        )
    # Bonferroni's bound: at least 95 %, less three standard deviations of 200 draws.
    assert held / draws > 0.95 - 3 * math.sqrt(0.95 * 0.05 / draws)


def test_the_table_that_is_written_is_the_device_that_was_fitted(clean, tmp_path):
    made = cxlab.calibrate(clean, "vistara", **QUIET)
    table = tomllib.loads(made.toml())
    scenario = Scenario.from_dict(
        {
            "name": "fitted",
            "fabric": {"topology": {"kind": "direct"}},
            "hosts": [
                {
                    "name": "host",
                    "issue": {"preset": "sapphire-rapids", "outstanding": made.outstanding},
                    "workload": {"kind": "uniform", "read_ratio": 1.0},
                }
            ],
            **table,
        }
    )
    found = cxlab.run(scenario.set("measure.requests", 20_000)).report
    reads = made.numbers.set_index("number").simulated["ALL Reads"]
    assert found["bandwidth_gb_per_s"]["total"] == pytest.approx(reads, rel=0.01)
    written = made.write(tmp_path / "report")
    assert [path.name for path in written] == FILES
    assert all(path.stat().st_size for path in written)
    numbers = pd.read_csv(tmp_path / "report" / "numbers.csv")
    assert set(numbers.part) == {"fit", "held out"}
    assert len(numbers) == len(made.found)
    plain = json.loads((tmp_path / "report" / "calibrate.json").read_text())
    assert plain["device"] == table["devices"][0]
    assert plain["error_percent"]["fit"] == pytest.approx(made.error("fit"))
    again = tmp_path / "again"
    made.write(again)
    for path in written:
        assert path.read_bytes() == (again / path.name).read_bytes()


def test_a_limit_that_nothing_shows_is_said_to_be_at_least_as_high(clean):
    # All mixes fill the medium, so no path of the controller shows.
    quiet = replace(clean, loaded=clean.loaded.iloc[0:0])
    peak = quiet.peak.assign(bandwidth_mb_per_s=20_000.0)
    made = cxlab.calibrate(replace(quiet, peak=peak), "vistara", **QUIET)
    rows = made.parameters.set_index("parameter")
    assert rows.status.to_dict() == {
        "idle_ns": "fitted",
        "read_gb_per_s": "no limit seen",
        "write_gb_per_s": "no limit seen",
        "medium_gb_per_s": "one of",
        "bank_ns": "no limit seen",
        "outstanding": "no limit seen",
    }
    # As many requests in flight limit all mixes alike, so the host may be what limits.
    assert made.fit.others == (("idle_ns", "outstanding"),)
    assert rows.low["read_gb_per_s"] == pytest.approx(20.0)
    assert "fits as well: outstanding instead of medium_gb_per_s" in made.table()
    assert 'read_bandwidth = "100 TB/s"' in made.toml()


@pytest.mark.parametrize("name", ["cascade-lake", "ice-lake", "skylake"])
def test_logs_of_hosts_with_local_memory_are_fitted_without_a_link(tmp_path, name):
    path = tmp_path / "mlc.txt"
    path.write_text(mlc_logs.LOGS[name])
    made = cxlab.calibrate(path, "none", **QUIET)
    rows = made.parameters.set_index("parameter")
    assert rows.status["idle_ns"] == "fitted"
    assert rows.low["idle_ns"] < made.found[0].value < rows.high["idle_ns"]
    assert made.error("fit") < 8
    assert made.error("held out") < 15
    assert "stand-in for local memory" in made.table()
    with pytest.raises(cxlab.CalibrateError, match=r"idle latency: found .* allowed: at least"):
        cxlab.calibrate(path, "vistara", **QUIET)


def test_an_expander_in_a_log_is_fitted_by_its_node(tmp_path):
    path = tmp_path / "mlc.txt"
    path.write_text(mlc_logs.LOGS["expander"])
    with pytest.raises(cxlab.CalibrateError, match=r"without processors \(node 1\).*--memory"):
        cxlab.calibrate(path, "cxl-dmsim-fpga", **QUIET)
    with pytest.raises(cxlab.CalibrateError, match="memory: found 2; allowed: 0, 1"):
        cxlab.calibrate(path, "cxl-dmsim-fpga", memory="2", **QUIET)
    made = cxlab.calibrate(path, "cxl-dmsim-fpga", memory="1", **QUIET)
    assert [one.value for one in made.found] == [564.5, pytest.approx(4.7953)]
    assert made.fit.events == pytest.approx([564.5, 4.7953], rel=0.01)
    assert math.isnan(made.error("held out"))
    assert "nothing judges this fit" in made.table()
    # One bandwidth cannot say what limits it.
    assert made.fit.others == (("idle_ns", "outstanding"), ("idle_ns", "read_gb_per_s"))


def test_dram_is_chosen_by_what_it_predicts_of_the_fitted_numbers():
    dram = {"kind": "dram", "grade": "DDR5-4800BN", "channels": 2, "ranks": 2}
    scenario = Scenario.from_dict(
        {
            "name": "dram",
            "fabric": {"topology": {"kind": "direct"}},
            "hosts": [
                {
                    "name": "host",
                    "issue": {"preset": "sapphire-rapids", "outstanding": 400},
                    "workload": {"kind": "uniform"},
                }
            ],
            "devices": [{"name": "device", "preset": "micro23-b", "memory": dram}],
        }
    )
    found = cxlab.mlc(scenario, only=["idle", "peak", "loaded"], pattern="random", **QUIET)
    media = ["DDR4-2400T:1:2", "fixed", "DDR5-4800BN:2:2"]
    made = cxlab.calibrate(found, "micro23-b", medium=media, **QUIET)
    assert made.media[0]["medium"] == made.medium == "DDR5-4800BN:2:2"
    # A channel of DDR4-2400 carries less than was measured.
    assert len(made.media) == 2
    assert "a medium that was tried is left out" in made.notes[-1]
    assert made.error("held out") < 1
    assert "medium_gb_per_s" not in list(made.parameters.parameter)
    assert made.device["memory"]["medium"] == dram
    # The preset's process time is 181 ns.
    rows = made.parameters.set_index("parameter")
    assert rows.low["idle_ns"] < 181 + made.rest_ns < rows.high["idle_ns"]
    assert "  taken: DDR5-4800BN:2:2" in made.table()
    with pytest.raises(cxlab.CalibrateError, match=r"medium: found DDR5:x; allowed: fixed, or GR"):
        cxlab.calibrate(found, "micro23-b", medium="DDR5:x", **QUIET)
    with pytest.raises(cxlab.ScenarioError, match="DDR5-4801"):
        cxlab.calibrate(found, "micro23-b", medium="DDR5-4801:2", **QUIET)


def test_observations_are_below_the_knee_or_saturated(clean):
    found, notes = of(clean, None)
    assert notes == []
    top = max(one.value for one in found if one.kind == "peak" and one.reads == 1)
    loaded = [one for one in found if one.kind == "loaded"]
    assert loaded and all(one.offered <= BELOW * top for one in loaded)
    assert sum(one.kind == "saturated" for one in found) == 1
    parts = split(found, [])
    assert {one.label for one in parts if one.kind == "peak" and not one.held} == {
        "ALL Reads",
        "2:1 Reads-Writes",
        "All NT writes",
    }
    assert [one.held for one in parts if one.kind == "loaded"][:4] == [False, True, False, True]
    more = split(found, ["All NT"])
    assert {one.label for one in more if one.kind == "peak" and not one.held} == {
        "ALL Reads",
        "2:1 Reads-Writes",
        "1:1 Reads-Writes",
    }


def test_the_form_is_the_least_of_its_limits():
    values = (100.0, 10.0, 5.0, 12.0, surrogate.INSTANT, 1000.0)
    assert surrogate.peak(values, 1.0, 20.0) == 10.0
    assert surrogate.peak(values, 0.0, 20.0) == 5.0
    assert surrogate.peak(values, 0.5, 20.0) == 10.0
    assert surrogate.peak(values, 0.7, 20.0) == 12.0
    assert surrogate.peak(values, 0.7, 11.0) == 11.0
    assert surrogate.peak((*values[:5], 10.0), 1.0, 20.0) == 6.4
    # Little's law with the wait at busy banks: rate * (100 + 40 / 2 * u / (1 - u)) = 20 lines.
    rate = surrogate.peak((100.0, 1e5, 1e5, 12.0, 40.0, 20.0), 1.0, 100.0)
    busy = rate / 12
    assert rate * (100 + 20 * busy / (1 - busy)) == pytest.approx(20 * 64, rel=1e-6)


def test_what_cannot_be_fitted_is_refused(clean):
    def refused(found, match, **options):
        with pytest.raises(cxlab.CalibrateError, match=match):
            cxlab.calibrate(found, "vistara", **QUIET, **options)

    refused(replace(clean, peak=clean.peak.iloc[0:0]), "without peak bandwidths; allowed: an idle")
    near = clean.idle.assign(latency_ns=90.0)
    quiet = replace(clean, loaded=clean.loaded.iloc[0:0])
    refused(replace(quiet, idle=near), r"idle latency: found 90.0 ns; allowed: at le")
    fast = clean.peak.assign(bandwidth_mb_per_s=99_000.0)
    refused(replace(clean, peak=fast), r"ALL Reads: found 99.00 GB/s; allowed: at most .* carries")
    refused(clean, "hold-out: found 7:1; allowed: idle latency", hold_out=["7:1"])
    refused(clean, "hold-out: found idle, without which nothing", hold_out=["idle"])
    refused(clean, "noise: found 0; allowed", noise=0)
    refused([], "sources: found none")
    gigabytes = clean.peak.assign(bandwidth_mb_per_s=clean.peak.bandwidth_mb_per_s / 1e3)
    refused(replace(clean, peak=gigabytes), r"found 17.* MB/s; allowed: 100 to 1e\+07, bandwidths")
    micro = clean.idle.assign(latency_ns=0.3)
    refused(replace(clean, idle=micro), "found 0.3 ns; allowed: 20 to 1e.06, latencies in ns")
    slow = replace(clean, name="slow", peak=clean.peak.assign(bandwidth_mb_per_s=9000.0))
    refused([clean, slow], "slow: ALL Reads: found 9 GB/s, but truth has 17.* at most 25 % apart")
    low = clean.loaded.assign(latency_ns=100.0)
    refused(replace(clean, loaded=low), "found 100 ns, but the idle latency is 3")
    with pytest.raises(cxlab.ScenarioError, match="did you mean"):
        cxlab.calibrate(clean, "vistra", **QUIET)


def test_mistakes_at_the_command_end_with_2(tmp_path, capsys):
    assert main(["calibrate", str(tmp_path / "none.txt"), "--from", "vistara"]) == 2
    assert "is no file and no folder" in capsys.readouterr().err
    (tmp_path / "empty.txt").write_text("nothing\n")
    assert main(["calibrate", str(tmp_path / "empty.txt"), "--from", "vistara"]) == 2
    assert capsys.readouterr().err.startswith("error: ")
    log = tmp_path / "log.txt"
    log.write_text(mlc_logs.LOGS["expander"])
    assert main(["calibrate", str(log), "--from", "vistra", "--memory", "1"]) == 2
    error = capsys.readouterr().err
    assert error.startswith("error: ") and "did you mean" in error
