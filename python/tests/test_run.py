import _thread
import json
import os
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

import cxlab


def timeless(report):
    report = json.loads(json.dumps(report))
    for key in ("wall_seconds", "events_per_second"):
        del report[key]
    del report["requests"]["per_wall_second"]
    return report


def test_a_run_gives_the_report_of_the_command(pool, tmp_path, command_environment):
    result = cxlab.run(pool, seed=7)
    pool.save(tmp_path / "pool.toml")
    subprocess.run(
        [sys.executable, "-m", "cxlab", "run", "pool.toml", "--seed", "7", "--out", "out", "-q"],
        cwd=tmp_path,
        env=command_environment,
        check=True,
    )
    other = cxlab.Result.load(tmp_path / "out")
    assert timeless(other.report) == timeless(result.report)
    assert other.svg == result.svg
    assert result.report["plan_hash"] == cxlab.plan(pool).hash
    assert result.metrics["p99_ns"] == result.report["latency_ns"]["p99"]


def test_threads_do_not_change_a_report_and_seeds_do(pool):
    reports = [timeless(cxlab.run(pool, threads=threads).report) for threads in (1, 2)]
    assert reports[0] == reports[1]
    assert cxlab.run(pool, seed=2).report["digest"] != reports[0]["digest"]


def test_a_sampled_run_says_what_it_passed_over(pool):
    full = cxlab.run(pool.measure(requests=400_000)).report
    sampling = {"every": 10_000, "detailed": 500, "warmup": 500}
    report = cxlab.run(pool.measure(requests=400_000, sampling=sampling)).report
    found = report["sampling"]
    assert 30 <= found["units"] <= 40
    assert found["requests"] <= 400_000
    assert found["measured"] == report["requests"]["completed"]
    assert found["detailed"] < 0.2 * found["requests"]
    assert found["warmed"] > 0.8 * found["requests"]
    assert "sampling" not in full
    # After four rounds of warm-up, 0.08 % of the transient remain
    # (docs/explain/sampling.md). The interval is shorter.
    assert report["latency_ns"]["mean"] == pytest.approx(full["latency_ns"]["mean"], rel=0.002)
    width = report["ci95"]["total_gb_per_s"]
    assert report["bandwidth_gb_per_s"]["total"] == pytest.approx(
        full["bandwidth_gb_per_s"]["total"], abs=3 * width
    )


def test_a_sampled_run_has_no_request_log(pool):
    with pytest.raises(cxlab.ScenarioError, match="found in a run with a request log"):
        cxlab.run(pool.measure(sampling={}), requests=True)


def test_the_time_series_adds_up_to_the_report(pool):
    report = cxlab.run(pool).report
    series = report["time_series"]
    assert sum(series["reads"]) == report["requests"]["reads"]
    assert sum(series["writes"]) == report["requests"]["writes"]
    counts = np.array(series["reads"]) + np.array(series["writes"])
    mean = (counts * np.array(series["latency_ns"])).sum() / counts.sum()
    assert mean == pytest.approx(report["latency_ns"]["mean"])
    assert len(counts) <= 256
    assert (len(counts) - 1) * series["bin_ns"] <= report["window_ns"]


@pytest.mark.parametrize(
    ("table", "rows"),
    [("hosts", 2), ("devices", 2), ("links", 16), ("stages", 13), ("latency_histogram", 60)],
)
def test_tables_have_the_same_shape_everywhere(pool, table, rows):
    result = cxlab.run(pool)
    shape = result.to_pandas(table).shape
    assert shape == result.to_polars(table).shape == result.to_arrow(table).shape
    assert shape[0] == rows
    with pytest.raises(ValueError, match="allowed: hosts"):
        result.to_arrow("host")


def test_bandwidth_over_time_has_the_mean_of_the_report(pool):
    result = cxlab.run(pool)
    series = result.to_pandas("time_series")
    spans = np.minimum(
        result.report["time_series"]["bin_ns"], result.report["window_ns"] - series.start_ns
    )
    mean = ((series.read_gb_per_s + series.write_gb_per_s) * spans).sum() / spans.sum()
    assert mean == pytest.approx(result.report["bandwidth_gb_per_s"]["total"], rel=1e-6)


def test_the_request_log_is_that_of_the_parquet_file(pool, tmp_path):
    result = cxlab.run(pool, requests=True)
    log = result.to_pandas("requests")
    report = result.report
    measured = log[log.completed_ps > report["warmup_ns"] * 1e3]
    assert len(measured) == report["requests"]["completed"]
    assert measured.write.sum() == report["requests"]["writes"]
    stages = [f"{stage}_ps" for stage in report["stages_ns"]]
    assert (log[stages].sum(axis=1) == log.completed_ps - log.issued_ps).all()
    result.save(tmp_path)
    again = cxlab.Result.load(tmp_path)
    assert again.to_arrow("requests") == result.to_arrow("requests")
    assert again.report == report
    assert not list(tmp_path.glob("*partial*"))


def test_a_run_goes_on_from_a_checkpoint_to_the_same_report(pool, tmp_path):
    file = tmp_path / "pool.state"
    whole = cxlab.run(pool, checkpoint=file, checkpoint_every="500 requests")
    first = []
    rest = cxlab.run(pool, restore=file, threads=2, progress=lambda done, *_: first.append(done))
    assert timeless(rest.report) == timeless(whole.report)
    assert timeless(whole.report) == timeless(cxlab.run(pool).report)
    assert all(done >= 500 for done in first)


def test_what_no_checkpoint_is_made_of_or_for_is_said_so(pool, tmp_path):
    file = tmp_path / "pool.state"
    cxlab.run(pool, checkpoint=file, checkpoint_every="warm-up")
    for options, said in [
        ({"restore": file, "seed": 2}, "restore: .*seed"),
        ({"restore": tmp_path / "none"}, "restore: .*none"),
        ({"restore": file, "requests": True}, "requests: found with restore"),
        (
            {"checkpoint": file, "checkpoint_every": "5 apples"},
            "checkpoint_every: found `5 apples`",
        ),
        ({"checkpoint_every": "10 ms"}, "found without checkpoint"),
    ]:
        with pytest.raises(ValueError, match=said):
            cxlab.run(pool, **options)
    with pytest.raises(OSError, match="checkpoint: "):
        cxlab.run(pool, checkpoint=file / "below", checkpoint_every="100 requests")


def test_a_log_that_was_not_kept_is_said_so(pool):
    with pytest.raises(ValueError, match="requests=True"):
        cxlab.run(pool).to_pandas("requests")


def test_progress_is_told_and_can_stop_a_run(endless):
    told = []

    def progress(completed, expected, simulated_ns):
        told.append((completed, expected, simulated_ns))
        if len(told) == 3:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        cxlab.run(endless, progress=progress)
    assert told[2][0] > told[0][0] or told[2][2] > told[0][2]
    assert told[0][1] > 10**12


def test_other_threads_go_on_during_a_run(endless):
    ticks = 0
    done = threading.Event()

    def progress(*_):
        if done.is_set():
            raise InterruptedError

    def tick():
        nonlocal ticks
        while ticks < 20:
            time.sleep(0.001)
            ticks += 1
        done.set()

    thread = threading.Thread(target=tick)
    thread.start()
    with pytest.raises(InterruptedError):
        cxlab.run(endless, progress=progress)
    thread.join()
    assert ticks == 20


def test_an_interrupt_keeps_what_was_measured(endless):
    calls = []

    def progress(*_):
        calls.append(1)
        if len(calls) == 2:
            _thread.interrupt_main()

    with pytest.raises(cxlab.Interrupted) as caught:
        cxlab.run(endless.set("measure.warmup_requests", 0), progress=progress)
    assert isinstance(caught.value, KeyboardInterrupt)
    result = caught.value.result
    assert result.partial
    assert result.report["requests"]["completed"] > 0
    assert "PARTIAL" in result.table()


def test_ctrl_c_ends_a_script(endless, tmp_path):
    endless.save(tmp_path / "endless.toml")
    script = (
        "import cxlab\nprint('begun', flush=True)\n"
        "try:\n    cxlab.run('endless.toml')\n"
        "except KeyboardInterrupt as stop:\n    print(stop.result.partial)\n"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", script], cwd=tmp_path, stdout=subprocess.PIPE, text=True
    )
    assert child.stdout.readline() == "begun\n"
    time.sleep(0.5)
    os.kill(child.pid, signal.SIGINT)
    output, _ = child.communicate(timeout=30)
    assert output == "True\n"
    assert child.returncode == 0


def batches(requester):
    """Each requester reads and writes 100 lines of its own, in batches of 30."""
    for first in range(0, 100, 30):
        lines = np.arange(first, min(first + 30, 100)) + 1_000 * requester.number
        yield lines * 64, lines % 4 == 0


@pytest.fixture
def external(pool):
    values = pool.set("hosts[0].workload", {"kind": "external", "name": "mine"}).to_dict()
    del values["measure"]
    return cxlab.Scenario.from_dict(values)


def test_operations_of_a_function_are_issued_in_order(external):
    result = cxlab.run(external, requests=True, workloads={"mine": batches})
    log = result.to_pandas("requests").sort_values(["host", "id"])
    assert result.report["requests"]["completed"] == 200
    for host in (0, 1):
        part = log[log.host == host]
        assert (part.hpa.to_numpy() // 64 == np.arange(100) + 1_000 * host).all()
        assert (part.write.to_numpy() == (np.arange(100) % 4 == 0)).all()


def test_operations_of_a_function_give_one_result_on_any_number_of_threads(external):
    reports = [
        timeless(cxlab.run(external, threads=threads, workloads={"mine": batches}).report)
        for threads in (1, 2)
    ]
    assert reports[0] == reports[1]


def test_operations_wait_for_their_times(external):
    times = np.array([5_000_000, 9_000_000])
    result = cxlab.run(
        external,
        requests=True,
        workloads={"mine": lambda _: [(np.array([0, 64]), False, times)]},
    )
    assert sorted(result.to_pandas("requests").issued_ps) == [5_000_000] * 2 + [9_000_000] * 2


def test_a_workload_that_nobody_offers_is_a_mistake_of_the_scenario(external):
    with pytest.raises(cxlab.ScenarioError, match=r"hosts\[0\]\.workload\.name.*\"mine\""):
        cxlab.run(external, workloads={"other": batches})


def failing(_):
    yield np.array([0]), False
    raise LookupError("no more")


@pytest.mark.parametrize(
    ("workload", "error", "text"),
    [
        (failing, LookupError, "no more"),
        (lambda _: 3, TypeError, "allowed: an iterable of batches"),
        (lambda _: [(np.array([1 << 60]), True)], ValueError, "allowed: below 0x"),
        (lambda _: [(np.array([-64]), True)], ValueError, "found -64"),
        (lambda _: [(np.array([0.5]), True)], TypeError, "whole numbers"),
        (lambda _: [(np.array([0, 64]), [True] * 3)], ValueError, "broadcast"),
    ],
)
def test_what_a_workload_raises_comes_out_of_the_run(external, workload, error, text):
    with pytest.raises(error, match=text):
        cxlab.run(external, workloads={"mine": workload})


def test_a_trace_is_imported(tmp_path):
    (tmp_path / "a.trace").write_text("0x40 R 0\n0x80 W 0\n0x40 R 0\n")
    assert cxlab.import_trace(tmp_path / "a.trace", tmp_path / "a.cxlt") == (2, 1)
    with pytest.raises(ValueError, match="nothing"):
        cxlab.import_trace(tmp_path / "nothing", tmp_path / "b.cxlt")
