"""Calibration: parameters of simulated devices, logs of real hosts, and refusals."""

import math
import random
from dataclasses import replace

import pandas as pd
import pytest

import cxlab
from cxlab import Scenario
from cxlab._calibrate import surrogate
from cxlab._calibrate.confirm import Bench
from cxlab._calibrate.observations import BELOW, of, split
from cxlab._command import main

#: Idle latency in ns; rates of reads, writes and the medium in GB/s; time of a bank in ns, with
#: which the medium has 55 banks; requests in flight.
TRUTH = (300.0, 18.0, 14.0, 22.0, 160.0, 400)
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
                    "issue": {"preset": "sapphire-rapids", "outstanding": TRUTH[5]},
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
    # The interval of a limit that no number shows has no upper end.
    assert rows.told.sum() >= 4
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
    assert made.error("fit") < 0.5
    assert made.error("held out") < 1.5
    for value, true in zip(made.fit.values, TRUTH, strict=True):
        assert value == pytest.approx(true, rel=0.03)
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
        "bank_ns": False,
        "outstanding": False,
    }
    assert 18.0 < rows.low["read_gb_per_s"] < 20.0
    assert "nothing shows this limit" in made.table()
    assert "read_bandwidth" not in made.toml()


#: Inject delays of MLC's loaded latencies.
DELAYS = (0, 2, 8, 15, 50, 100, 200, 300, 400, 500, 700, 1000, 1300, 1700, 2500, 3500, 5000)
DELAYS += (9000, 20000)
#: Local DRAM of public logs: idle latency, peaks by mix, latency and bandwidth by delay; and the
#: error in percent that the held-out numbers may have.
LOGS = {
    # From github.com/gjbex/Code-optimization, info/cascadelake_mlc.txt: MLC 3.10.
    "Cascade Lake": (
        80.8,
        (225630.8, 208349.9, 206510.3, 200031.8),
        (
            (155.6, 226127.7),
            (156.23, 226129.4),
            (155.32, 226082.8),
            (155.9, 226627.2),
            (157.25, 221318.3),
            (119.65, 181499.4),
            (103.11, 120242.4),
            (97.46, 87252.6),
            (94.4, 67737.9),
            (94.95, 55202.5),
            (90.12, 40541.6),
            (88.52, 29035.8),
            (87.39, 22709.1),
            (88.36, 17635.5),
            (85.5, 12323.4),
            (84.0, 9059.1),
            (83.91, 6582.9),
            (86.54, 3975.8),
            (82.21, 2240.7),
        ),
        5,
    ),
    # From the calibration data of FD.io CSIT for Xeon Skylake: MLC 3.5.
    "Skylake": (
        80.8,
        (216875.73, 182615.14, 178745.67, 149485.27),
        (
            (282.66, 215712.8),
            (282.14, 215757.4),
            (280.21, 215868.1),
            (279.2, 216313.2),
            (275.25, 216643.0),
            (227.05, 215075.0),
            (121.92, 160242.9),
            (101.21, 111587.4),
            (95.48, 85019.7),
            (94.46, 68717.3),
            (92.27, 49742.2),
            (91.03, 35264.8),
            (90.11, 27396.3),
            (89.34, 21178.7),
            (90.15, 14672.8),
            (89.0, 10715.7),
            (82.0, 7788.2),
            (81.46, 4684.0),
            (81.4, 2541.9),
        ),
        6,
    ),
    # From community.intel.com, "Intel Memory Latency Checker v3.5 test": Xeon Silver 4110.
    "Silver 4110": (
        81.96,
        (),
        (
            (130.31, 135655.9),
            (130.34, 135653.8),
            (130.37, 135599.5),
            (129.67, 135267.3),
            (123.71, 131282.0),
            (98.94, 68357.8),
            (94.56, 42695.4),
            (92.29, 29473.3),
            (90.85, 22580.9),
            (90.16, 18355.0),
            (88.79, 13463.5),
            (87.81, 9723.8),
            (87.24, 7680.3),
            (86.54, 6068.3),
            (85.56, 4383.3),
            (84.99, 3354.4),
            (84.2, 2583.5),
            (83.0, 1785.2),
            (81.96, 1237.6),
        ),
        3,
    ),
}


def log_of(idle, peaks, loaded):
    """The numbers as MLC prints them."""
    head = "Intel(R) Memory Latency Checker - v3.10"
    lines = [head, "", f"Each iteration took 202.0 core clocks ( {idle}\tns)", ""]
    if peaks:
        lines += [
            "Measuring Peak Injection Memory Bandwidths for the system",
            "Bandwidths are in MB/sec (1 MB/sec = 1,000,000 Bytes/sec)",
            "Using traffic with the following read-write ratios",
        ]
        names = ("ALL Reads", "3:1 Reads-Writes", "2:1 Reads-Writes", "1:1 Reads-Writes")
        lines += [f"{name} :\t{peak}" for name, peak in zip(names, peaks, strict=True)]
    lines += [
        "",
        "Measuring Loaded Latencies for the system",
        "Using Read-only traffic type",
        "Inject\tLatency\tBandwidth",
        "Delay\t(ns)\tMB/sec",
        "==========================",
    ]
    rows = zip(DELAYS, loaded, strict=True)
    lines += [f" {delay:05}\t{latency}\t {rate}" for delay, (latency, rate) in rows]
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("name", LOGS)
def test_public_logs_are_predicted_by_half_of_their_numbers(tmp_path, name):
    *numbers, bound = LOGS[name]
    path = tmp_path / "mlc.txt"
    path.write_text(log_of(*numbers))
    made = cxlab.calibrate(path, "none", progress=False, cache=False)
    assert (made.numbers.part == "held out").sum() >= 6
    assert 1 < made.error("held out") < bound
    # No x8 link carries what the DRAM of a host does.
    with pytest.raises(cxlab.CalibrateError, match="which the link of cachelib carries"):
        cxlab.calibrate(path, "cachelib", progress=False, cache=False)


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
    values = (100.0, 10.0, 5.0, 12.0, 0.01, 1000.0)
    assert surrogate.peak(values, 1.0, 20.0) == 10.0
    assert surrogate.peak(values, 0.0, 20.0) == 5.0
    assert surrogate.peak(values, 0.5, 20.0) == 10.0
    assert surrogate.peak(values, 0.7, 20.0) == 12.0
    assert surrogate.peak(values, 0.7, 11.0) == 11.0
    assert surrogate.peak((100.0, 10.0, 5.0, 12.0, 0.01, 10.0), 1.0, 20.0) == 6.4


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
