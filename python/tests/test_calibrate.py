"""Calibration: parameters of simulated devices, logs of real hosts, and refusals."""

import math
import random
from dataclasses import replace

import pandas as pd
import pytest
from test_mlc_log import CASCADE_LAKE, SKYLAKE

import cxlab
from cxlab import Scenario
from cxlab._calibrate import surrogate
from cxlab._calibrate.confirm import Bench
from cxlab._calibrate.observations import BELOW, of, split
from cxlab._command import main

#: Idle latency in ns; rates of reads, writes and the medium in GB/s; requests in flight.
TRUTH = (300.0, 18.0, 14.0, 22.0, 400)
NOISE = 0.02


@pytest.fixture(scope="module")
def bench():
    return Bench("vistara", "sapphire-rapids", {"progress": False, "cache": False})


@pytest.fixture(scope="module")
def clean(bench):
    """What `cxlab mlc` measures of a device with known parameters."""
    scenario = Scenario.from_dict(
        {
            "name": "truth",
            "fabric": {"topology": {"kind": "direct"}, "link": {"preset": "gen5-x8"}},
            "hosts": [
                {
                    "name": "host",
                    "issue": {"preset": "sapphire-rapids", "outstanding": TRUTH[4]},
                    "workload": {"kind": "uniform"},
                }
            ],
            "devices": [
                {
                    "name": "device",
                    "preset": "vistara",
                    **bench.device(TRUTH, bench.controller_ns(TRUTH[0])),
                }
            ],
        }
    )
    measures = ["idle", "peak", "loaded"]
    return cxlab.mlc(scenario, only=measures, pattern="random", progress=False, cache=False)


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
    made = cxlab.calibrate(noisy(clean, seed), "vistara", noise=NOISE, progress=False, cache=False)
    rows = made.parameters
    assert rows.told.all()
    true = pd.Series(TRUTH)
    inside = (rows.low <= true) & (rows.high >= true)
    return list(rows.parameter[~inside])


def test_parameters_of_a_simulated_device_are_within_their_intervals(clean):
    assert [misses(clean, seed) for seed in range(3)] == [[], [], []]


@pytest.mark.slow
def test_intervals_hold_the_parameters_in_95_of_100_seeds(clean):
    missed = [one for one in (misses(clean, seed) for seed in range(100)) if one]
    assert len(missed) <= 5, missed


def test_without_noise_the_fit_is_exact_and_the_rest_is_predicted(clean):
    made = cxlab.calibrate(clean, "vistara", progress=False, cache=False)
    assert made.error("fit") < 0.1
    assert made.error("held out") < 1.5
    for value, true in zip(made.fit.values, TRUTH, strict=True):
        assert value == pytest.approx(true, rel=0.02)
    assert made.host == "sapphire-rapids"
    assert "hosts[].issue.outstanding = 400" in made.toml()


def test_the_table_that_is_written_is_the_device_that_was_fitted(clean, tmp_path):
    import tomllib

    made = cxlab.calibrate(clean, "vistara", progress=False, cache=False)
    table = tomllib.loads(made.toml())
    scenario = Scenario.from_dict(
        {
            "name": "fitted",
            "fabric": {"topology": {"kind": "direct"}},
            "hosts": [
                {
                    "name": "host",
                    "issue": {"preset": "sapphire-rapids", "outstanding": 400},
                    "workload": {"kind": "uniform", "read_ratio": 1.0},
                }
            ],
            **table,
        }
    )
    found = cxlab.run(scenario.set("measure.requests", 20_000)).report
    assert found["bandwidth_gb_per_s"]["total"] == pytest.approx(18.0, rel=0.01)
    made.write(tmp_path / "tables")
    numbers = pd.read_csv(tmp_path / "tables" / "numbers.csv")
    assert set(numbers.part) == {"fit", "held out"}
    assert len(numbers) == len(made.found)


def test_a_limit_that_nothing_shows_is_said_to_be_at_least_as_high(clean):
    # Reads fill the link, and all mixes the medium: no path of the controller shows.
    quiet = replace(clean, loaded=clean.loaded.iloc[0:0])
    peak = quiet.peak.copy()
    peak["bandwidth_mb_per_s"] = [20_000.0] * len(peak)
    made = cxlab.calibrate(replace(quiet, peak=peak), "vistara", progress=False, cache=False)
    rows = made.parameters.set_index("parameter")
    assert rows.told.to_dict() == {
        "idle_ns": True,
        "read_gb_per_s": False,
        "write_gb_per_s": False,
        "medium_gb_per_s": True,
        "outstanding": False,
    }
    assert rows.low["read_gb_per_s"] == pytest.approx(20.0)
    assert "nothing shows this limit" in made.table()
    assert "read_bandwidth" not in made.toml()


@pytest.mark.parametrize(("log", "held"), [(CASCADE_LAKE, 2), (SKYLAKE, 1)])
def test_logs_of_hosts_are_fitted_without_a_link(tmp_path, log, held):
    """Public logs of local DRAM, which have no CXL link."""
    path = tmp_path / "mlc.txt"
    path.write_text(log)
    made = cxlab.calibrate(path, "none", progress=False, cache=False)
    assert (made.numbers.part == "held out").sum() >= held - 1
    assert made.error("fit") < 10
    assert made.parameters.told.iloc[0]


def test_observations_are_below_the_knee_or_saturated(clean):
    found = of(clean)
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


def test_the_form_is_the_least_of_its_limits():
    values = (100.0, 10.0, 5.0, 12.0, 1000.0)
    assert surrogate.peak(values, 1.0, 20.0) == 10.0
    assert surrogate.peak(values, 0.0, 20.0) == 5.0
    assert surrogate.peak(values, 0.5, 20.0) == 10.0
    assert surrogate.peak(values, 0.7, 20.0) == 12.0
    assert surrogate.peak(values, 0.7, 11.0) == 11.0
    assert surrogate.peak((100.0, 10.0, 5.0, 12.0, 10.0), 1.0, 20.0) == 6.4


def test_what_cannot_be_fitted_is_refused(clean, tmp_path, capsys):
    with pytest.raises(cxlab.CalibrateError, match="without peak bandwidths"):
        bare = replace(clean, peak=clean.peak.iloc[0:0], loaded=clean.loaded.iloc[0:0])
        cxlab.calibrate(bare, "vistara")
    near = clean.idle.assign(latency_ns=90.0)
    with pytest.raises(cxlab.CalibrateError, match=r"idle latency: found 90.0 ns; allowed: at le"):
        cxlab.calibrate(replace(clean, idle=near), "vistara", progress=False, cache=False)
    fast = clean.peak.assign(bandwidth_mb_per_s=99_000.0)
    with pytest.raises(cxlab.CalibrateError, match=r"ALL Reads: found 99.00 GB/s; allowed: at mo"):
        cxlab.calibrate(replace(clean, peak=fast), "vistara", progress=False, cache=False)
    with pytest.raises(cxlab.CalibrateError, match="hold-out: found 7:1; allowed: idle latency"):
        cxlab.calibrate(clean, "vistara", hold_out=["7:1"])
    with pytest.raises(cxlab.CalibrateError, match="noise: found 0; allowed"):
        cxlab.calibrate(clean, "vistara", noise=0)
    with pytest.raises(cxlab.ScenarioError, match="did you mean"):
        cxlab.calibrate(clean, "vistra", progress=False)
    assert main(["calibrate", str(tmp_path / "none.txt"), "--from", "vistara"]) == 2
    assert "is no file and no folder" in capsys.readouterr().err
    (tmp_path / "empty.txt").write_text("nothing\n")
    assert main(["calibrate", str(tmp_path / "empty.txt"), "--from", "vistara"]) == 2
    assert capsys.readouterr().err.startswith("error: ")
