import json

import pytest

import cxlab
from cxlab import _sweep
from cxlab._command import main
from cxlab._mlc.points import loaded_roles
from cxlab._mlc.system import CHASE, System, Use

# A link of packets, whose times are sums that can be written down.
LINK = {
    "transmission": "packet",
    "bandwidth": "64 GB/s",
    "port_delay": "10 ns",
    "propagation": "1 ns",
    "packet": {"header": "16 B", "data_header": "16 B"},
}
#: Process time; request of 16 B; device; medium; response of 80 B; two ports and a wire each way.
IDLE_NS = 84 + 16 / 64 + 25 + 46 + 80 / 64 + 2 * (10 + 1 + 10)


def direct(outstanding=256, memory=None, **issue):
    return (
        cxlab.Scenario("direct")
        .fabric(topology=cxlab.topology("direct"), link=LINK)
        .hosts(
            "host",
            issue={"outstanding": outstanding, **issue},
            workload=cxlab.workload("uniform"),
        )
        .devices("mem", memory=memory or cxlab.memory("fixed", latency="46 ns"))
    )


def shared(count=3, memory=None):
    """Hosts behind one switch that share one device."""
    return (
        cxlab.Scenario("shared")
        .fabric(topology=cxlab.topology("chain", switches=1), link=LINK)
        .hosts("host", count=count, workload=cxlab.workload("uniform"))
        .devices("mem", memory=memory or cxlab.memory("fixed", bandwidth="10 GB/s"))
    )


def mlc(scenario, *only, **settings):
    return cxlab.mlc(
        scenario, only=only or None, **{"progress": False, "requests": 20_000} | settings
    )


def test_idle_latency_is_the_sum_of_the_stages_to_the_picosecond():
    assert mlc(direct(), "idle").idle_ns == pytest.approx(IDLE_NS, abs=1e-4)


def test_the_analytic_form_has_the_same_idle_latency_without_a_run(monkeypatch):
    monkeypatch.setattr(_sweep, "_run_locally", refuse)
    found = mlc(direct(), "idle", mode="analytic")
    assert found.idle_ns == pytest.approx(IDLE_NS, abs=1e-4)
    assert found.idle["within"].tolist() == ["exact"]


def test_peak_reads_are_the_payload_of_the_link_or_the_rate_of_the_medium():
    peak = mlc(direct(), "peak").peak.set_index("label")
    assert peak.loc["ALL Reads", "bandwidth_mb_per_s"] == pytest.approx(64e3 * 64 / 80, rel=0.01)
    slow = mlc(direct(memory=cxlab.memory("fixed", bandwidth="10 GB/s")), "peak").peak
    assert slow["bandwidth_mb_per_s"].tolist() == pytest.approx([10e3] * len(slow), rel=0.01)


def test_labels_are_those_of_mlc_in_its_order_and_ratios_those_of_the_traffic():
    peak = mlc(direct(), "peak").peak
    assert peak["label"].tolist()[:5] == [
        "ALL Reads",
        "3:1 Reads-Writes",
        "2:1 Reads-Writes",
        "1:1 Reads-Writes",
        "Stream-triad like",
    ]
    shares = peak["read_mb_per_s"] / peak["bandwidth_mb_per_s"]
    assert (100 * shares).tolist() == pytest.approx(peak["read_percent"].tolist(), abs=0.5)


def test_stores_through_a_cache_read_their_line_and_keep_the_ratio_of_the_label():
    found = mlc(direct(64, cache={"size": "16 KiB"}), "peak").peak
    assert set(found["writes"]) == {"", "rfo"}
    shares = found["read_mb_per_s"] / found["bandwidth_mb_per_s"]
    assert (100 * shares).tolist() == pytest.approx(found["read_percent"].tolist(), abs=0.5)
    assert found["read_percent"].min() == 50


@pytest.mark.parametrize(("writes", "reads_per_write"), [("rfo", 1), ("nt", 0)])
def test_a_written_line_is_read_first_unless_the_store_is_non_temporal(writes, reads_per_write):
    found = mlc(direct(), "sizes", writes=writes, access_sizes=[256], threads=[2]).sizes
    wrote = found[found["operation"] == "write"]
    assert len(wrote) == 2
    ratio = wrote["read_mb_per_s"] / wrote["write_mb_per_s"]
    assert ratio.tolist() == pytest.approx([reads_per_write] * 2, abs=0.01)
    reads = found[found["operation"] == "read"]
    assert (reads["write_mb_per_s"] == 0).all()


def test_threads_are_outstanding_lines_by_littles_law():
    found = mlc(direct(), "sizes", access_sizes=[64], threads=[1, 2], thread_lines=8).sizes
    random_reads = found[(found["order"] == "random") & (found["operation"] == "read")]
    expected = [threads * 8 * 64e3 / IDLE_NS for threads in (1, 2)]
    assert random_reads["bandwidth_mb_per_s"].tolist() == pytest.approx(expected, rel=0.01)


def test_a_probe_beside_the_load_measures_loaded_latency():
    found = mlc(shared(), "loaded", loads=[10, 50, 100])
    assert found.loaded["latency_of"].tolist() == ["host2"] * 3
    # MLC's order: no delay first.
    assert found.loaded["inject"].tolist() == sorted(found.loaded["inject"])
    latency, bandwidth = found.loaded["latency_ns"], found.loaded["bandwidth_mb_per_s"]
    assert latency.iloc[0] > 1.5 * latency.iloc[-1]
    assert bandwidth.iloc[0] == pytest.approx(10e3, rel=0.01)
    # The probe's own reads are part of the traffic.
    paced = bandwidth.iloc[-1] - 64e3 / latency.iloc[-1]
    unpaced = bandwidth.iloc[0] - 64e3 / latency.iloc[0]
    assert paced / unpaced == pytest.approx(0.10, abs=0.002)


def test_a_single_host_has_the_latency_of_its_own_reads():
    found = mlc(direct(), "loaded", delays=[0, 8])
    assert found.loaded["latency_of"].tolist() == ["load", "load"]
    assert found.loaded["bandwidth_mb_per_s"].iloc[1] == pytest.approx(64e3 / 8, rel=0.01)
    assert found.loaded["latency_ns"].iloc[1] == pytest.approx(IDLE_NS, rel=0.01)


def test_curves_have_the_columns_of_mess(tmp_path):
    found = mlc(direct(), "curves", read_percents=[0, 50, 100], loads=[20, 80])
    assert sorted(set(found.curves["read_percent"])) == [0, 50, 100]
    found.write(tmp_path)
    head, *rows = (tmp_path / "curves.csv").read_text().splitlines()
    assert head == "read_percent,bandwidth_mb_per_s,latency_ns"
    assert len(rows) == len(found.curves) == 9
    for _, part in found.curves.groupby("read_percent"):
        assert part["bandwidth_mb_per_s"].is_monotonic_increasing
    for name in ("curves.svg", "curves.png", "mlc.txt", "mlc.json"):
        assert (tmp_path / name).stat().st_size > 100


def test_cores_are_loaded_by_their_outstanding_lines():
    core = direct().to_dict()
    core["hosts"] = [{"name": "cpu", "core": {"misses": 8}, "workload": {"kind": "uniform"}}]
    scenario = cxlab.Scenario.from_dict(core)
    found = mlc(scenario, "loaded", "idle", loads=[25, 100])
    assert found.inject_unit == "lines"
    assert found.loaded["inject"].tolist() == [2, 8]
    one, four = found.loaded["bandwidth_mb_per_s"]
    assert four / one == pytest.approx(4, rel=0.01)
    with pytest.raises(cxlab.MlcError, match=r"delays: found with host cpu.*no pace"):
        mlc(scenario, "loaded", delays=[10])
    with pytest.raises(cxlab.MlcError, match="writes: found 'nt', and stores of host cpu"):
        mlc(scenario, "peak", writes="nt")
    with pytest.raises(cxlab.MlcError, match="sizes: found host cpu with a `core`"):
        mlc(scenario, "sizes")
    left_out = mlc(scenario, requests=1000, loads=[100], read_percents=[100])
    assert any(note.startswith("sizes: left out") for note in left_out.notes)
    assert len(left_out.sizes) == 0


def test_a_processor_is_measured_by_its_nodes():
    values = direct().to_dict()
    values["hosts"] = [
        {
            "name": "cpu",
            "processor": {
                "cores": 2,
                "l2": {"size": "64 KiB", "access_time": "4 ns"},
                "llc": {"size": "192 KiB"},
            },
            "nodes": [{"capacity": "1 GiB"}],
            "workload": {"kind": "uniform"},
        }
    ]
    found = mlc(cxlab.Scenario.from_dict(values), "matrix", "peak", requests=5000)
    assert list(found.latency_matrix.columns) == ["mem", "node0"]
    cxl, local = found.latency_matrix.loc["cpu"]
    assert cxl > local > 46
    one = found.peak.set_index("label").loc["1:1 Reads-Writes"]
    assert one["read_mb_per_s"] == pytest.approx(one["write_mb_per_s"], rel=0.02)


def test_pages_of_an_operating_system_are_touched_before_they_are_measured():
    values = direct().to_dict()
    values["hosts"] = [
        {
            "name": "cpu",
            "processor": {
                "cores": 1,
                "l2": {"size": "64 KiB", "access_time": "4 ns"},
                "llc": {"size": "192 KiB"},
            },
            "nodes": [{"capacity": "64 MiB"}],
            "os": {},
            "workload": {"kind": "uniform"},
        }
    ]
    scenario = cxlab.Scenario.from_dict(values)
    found = mlc(scenario, "idle", "matrix", "peak", requests=5000, footprint=2 << 20)
    local, cxl = found.latency_matrix.loc["cpu"]
    assert list(found.latency_matrix.columns) == ["node0", "cxl"]
    # A fault takes 500 ns and zeroes a page, which is written back.
    assert 46 < local < cxl < 300
    assert found.idle_ns == pytest.approx(cxl, rel=0.01)
    assert found.peak["write_mb_per_s"].iloc[0] == pytest.approx(0, abs=1)


def test_matrices_have_a_row_for_each_host_and_a_column_for_each_device():
    scenario = (
        cxlab.Scenario("far")
        .fabric(topology=cxlab.topology("chain", switches=2, placement="paired"), link=LINK)
        .hosts("host", count=2, issue={"outstanding": 1}, workload=cxlab.workload("uniform"))
        .devices("mem", count=2)
    )
    found = mlc(scenario, "matrix")
    latency, bandwidth = found.latency_matrix, found.bandwidth_matrix
    assert list(latency.index) == ["host0", "host1"]
    assert list(latency.columns) == ["mem0", "mem1"]
    assert latency.loc["host0", "mem0"] == latency.loc["host1", "mem1"]
    assert latency.loc["host0", "mem1"] > latency.loc["host0", "mem0"] + 2 * 21
    for host in latency.index:
        for memory in latency.columns:
            # One read at a time: Little's law.
            expected = 64e3 / latency.loc[host, memory]
            assert bandwidth.loc[host, memory] == pytest.approx(expected, rel=0.01)


def test_noisy_neighbours_cost_their_victim_latency_and_bandwidth():
    found = mlc(shared(), "noisy", victim="host1").noisy
    assert found["neighbours_percent"].tolist() == [0, 20, 40, 60, 80, 100]
    assert found["victim_latency_ns"].iloc[-1] > found["victim_latency_ns"].iloc[0]
    assert found["victim_bandwidth_mb_per_s"].iloc[-1] < found["victim_bandwidth_mb_per_s"].iloc[0]
    assert found["victim_bandwidth_mb_per_s"].iloc[0] == pytest.approx(10e3, rel=0.01)
    with pytest.raises(cxlab.MlcError, match="victim: found 'host7'; allowed: host0, host1"):
        mlc(shared(), "noisy", victim="host7")
    with pytest.raises(cxlab.MlcError, match="noisy: found no host that shares a device"):
        mlc(direct(), "noisy")


def test_hosts_keep_their_names_and_places_when_they_do_different_things():
    system = System(shared(4), None)
    assert [host.name for host in system.hosts] == ["host0", "host1", "host2", "host3"]
    assert loaded_roles(system).probe.name == "host3"
    built = system.build({"host2": CHASE, "host0": Use("load")}, {})
    assert cxlab.plan(built).describe()["hosts"] == ["host0", "host1", "host2", "host3"]
    tail = system.build({name: Use("load") for name in ("host0", "host1", "host2")}, {})
    assert [table["name"] for table in tail.to_dict()["hosts"]] == ["host", "host3"]
    assert cxlab.plan(tail).describe()["hosts"] == ["host0", "host1", "host2", "host3"]


def test_what_was_measured_is_read_again(tmp_path):
    found = mlc(shared(), requests=1000, loads=[100], read_percents=[100], access_sizes=[64])
    found.write(tmp_path)
    again = cxlab.Mlc.read(tmp_path)
    assert again.table() == found.table()
    for name in ("idle", "peak", "loaded", "curves", "sizes", "noisy", "latency_matrix"):
        assert getattr(again, name).equals(getattr(found, name)), name
    assert (again.notes, again.settings) == (found.notes, found.settings)
    values = json.loads((tmp_path / "mlc.json").read_text())
    (tmp_path / "mlc.json").write_text(json.dumps(values | {"format": 9}))
    with pytest.raises(cxlab.ResultError, match=r"mlc.json: found format 9; allowed: 1"):
        cxlab.Mlc.read(tmp_path)
    (tmp_path / "mlc.json").write_text("{")
    with pytest.raises(cxlab.ResultError, match=r"mlc.json: found no JSON"):
        cxlab.Mlc.read(tmp_path)


def test_files_of_an_earlier_measurement_are_replaced_and_those_of_others_refused(
    tmp_path, monkeypatch, capsys
):
    both = mlc(shared(), "curves", "noisy", mode="analytic", loads=[50], read_percents=[100])
    both.write(tmp_path)
    once = (tmp_path / "curves.svg").read_bytes()
    both.write(tmp_path)
    assert (tmp_path / "curves.svg").read_bytes() == once
    mlc(shared(), "idle", mode="analytic").write(tmp_path)
    assert {path.name for path in tmp_path.glob("*.*")} == {"mlc.json", "mlc.txt", "idle.csv"}
    (tmp_path / "curves.svg").write_text("<svg xmlns='drawn by hand'/>")
    with pytest.raises(OSError, match=r"found `curves.svg`, which cxlab did not write"):
        both.write(tmp_path)
    # The command finds it before it runs anything.
    monkeypatch.setattr(_sweep, "_run_locally", refuse)
    shared().save(tmp_path / "shared.toml")
    assert main(["mlc", str(tmp_path / "shared.toml"), "--out", str(tmp_path)]) == 1
    assert "which cxlab did not write" in capsys.readouterr().err
    assert cxlab.Mlc.read(tmp_path).idle_ns is not None


def refuse(*_):
    raise AssertionError("a run was made")


def test_a_second_call_runs_nothing(monkeypatch):
    first = mlc(shared(), "idle", "loaded", loads=[50, 100])
    monkeypatch.setattr(_sweep, "_run_locally", refuse)
    assert mlc(shared(), "idle", "loaded", loads=[50, 100]).table() == first.table()
    with pytest.raises(AssertionError, match="a run was made"):
        mlc(shared(), "idle", "loaded", loads=[50, 100], cache=False)


def test_the_result_is_the_same_on_any_number_of_workers():
    one, two = (
        mlc(shared(), "loaded", "peak", loads=[50, 100], workers=workers, cache=False)
        for workers in (1, 2)
    )
    assert one._values() == two._values()
    assert mlc(shared(), "peak", seed=1).settings["seed"] == 1


def interrupt_after(count, real):
    def run(todo, workers, arrived):
        few = dict(list(todo.items())[:count])
        real(few, workers, arrived)
        raise KeyboardInterrupt

    return run


def test_an_interruption_keeps_what_was_measured(monkeypatch, tmp_path, capsys):
    real = _sweep._run_locally
    monkeypatch.setattr(_sweep, "_run_locally", interrupt_after(3, real))
    with pytest.raises(cxlab.MlcInterrupted) as caught:
        mlc(direct(), "idle", "peak")
    found = caught.value.result
    assert found.partial
    assert found.idle_ns == pytest.approx(IDLE_NS, abs=1e-4)
    assert found.peak["label"].tolist() == ["ALL Reads", "3:1 Reads-Writes"]
    direct().save(tmp_path / "direct.toml")
    command = ["mlc", str(tmp_path / "direct.toml"), "--only=idle,peak", "--requests=20000"]
    # The first three are known. The next run is that of two labels with the same traffic.
    monkeypatch.setattr(_sweep, "_run_locally", interrupt_after(1, real))
    assert main([*command, "--out", str(tmp_path / "out")]) == 130
    captured = capsys.readouterr()
    assert "interrupted; what was measured is kept" in captured.err
    assert "direct (PARTIAL)" in captured.out
    again = cxlab.Mlc.read(tmp_path / "out")
    assert again.partial
    assert again.peak["label"].tolist()[2:] == ["2:1 Reads-Writes", "Stream-triad like"]


def test_workers_that_die_leave_what_was_measured(monkeypatch, tmp_path, capsys):
    def die(*_):
        raise cxlab.SweepError("3 times a worker died")

    mlc(direct(), "idle")
    monkeypatch.setattr(_sweep, "_run_locally", die)
    direct().save(tmp_path / "direct.toml")
    command = ["mlc", str(tmp_path / "direct.toml"), "--only=idle,peak", "--requests=20000"]
    assert main([*command, "--out", str(tmp_path / "out"), "--quiet"]) == 1
    assert "error: 3 times a worker died" in capsys.readouterr().err
    found = cxlab.Mlc.read(tmp_path / "out")
    assert (found.partial, len(found.idle), len(found.peak)) == (True, 1, 0)


def test_non_temporal_mixes_are_those_of_mlc_beside_stores_that_read_first():
    found = mlc(direct(), "peak", writes="rfo", mode="analytic").peak
    assert list(zip(found["label"], found["writes"], strict=True)) == [
        ("ALL Reads", ""),
        ("3:1 Reads-Writes", "rfo"),
        ("2:1 Reads-Writes", "rfo"),
        ("1:1 Reads-Writes", "rfo"),
        ("Stream-triad like", "nt"),
        ("All NT writes", "nt"),
        ("3:1 Read-NT write", "nt"),
        ("2:1 Read-NT write", "nt"),
        ("1:1 Read-NT write", "nt"),
    ]
    with pytest.raises(cxlab.MlcError, match="read_percents: found less than 50 alone"):
        mlc(direct(), "curves", writes="rfo", read_percents=[25])


def test_the_command_writes_files_and_prints_tables(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    direct().save("direct.toml")
    command = ["mlc", "direct.toml", "--only", "idle,peak", "--mode", "analytic"]
    assert main([*command, "--set", 'hosts[0].issue.process_time="4 ns"']) == 0
    printed = capsys.readouterr().out
    assert f"Each iteration took ( {IDLE_NS - 80:.3f} ns )" in printed
    assert "ALL Reads        :\t5" in printed
    assert cxlab.Mlc.read("out/mlc/direct").mode == "analytic"


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--only", "peek"], "only: found 'peek'; allowed: idle, matrix, peak"),
        (["--only", ","], "only: found no measure; allowed: idle, matrix, peak"),
        (["--loads", "0"], "loads: found 0; allowed: 0.1 to 100"),
        (["--loads", "fast"], "found 'fast'; allowed: numbers between commas"),
        (["--read-percents", "101"], "read_percents: found 101; allowed: 0 to 100"),
        (["--access-sizes", "96"], "access_sizes: found 96; allowed: powers of two"),
        (["--threads", "2,2"], "threads: found a value twice"),
        (["--footprint", "12 parsecs"], "found size '12 parsecs'; allowed: such as 64 B"),
        (["--seed", "-1"], "found -1; allowed: 0 to 18446744073709551615"),
        (["--set", "fabric.link.lanes=3"], "found 3; allowed: 1, 2, 4"),
        (
            ["--set", 'events=[{ kind = "device-removed", at = "1 us", device = "mem" }]'],
            "events: found 1 of them, so that the system has no steady state; allowed: none",
        ),
        (["--only=sizes", "--mode=analytic"], "access_sizes: found more than a line with mode"),
    ],
)  # fmt: skip
def test_mistakes_are_named_with_what_is_allowed(tmp_path, capsys, arguments, expected):
    direct().save(tmp_path / "direct.toml")
    try:
        code = main(["mlc", str(tmp_path / "direct.toml"), *arguments])
    except SystemExit as ended:
        code = ended.code
    assert (code, expected in capsys.readouterr().err) == (2, True)


def test_regions_that_hosts_do_not_have_are_refused():
    values = shared().to_dict()
    values["regions"] = [{"name": "later", "capacity": "1 GiB", "initially_added": False}]
    with pytest.raises(cxlab.MlcError, match=r"regions\[0\]: found initially_added = false"):
        mlc(cxlab.Scenario.from_dict(values), "idle")
    values["regions"] = [{"name": "own", "capacity": "1 GiB", "hosts": ["host"]}]
    found = mlc(cxlab.Scenario.from_dict(values), "matrix", "loaded", loads=[100], requests=1000)
    assert list(found.latency_matrix.columns) == ["own"]
    assert found.loaded["latency_of"].tolist() == ["host2"]
