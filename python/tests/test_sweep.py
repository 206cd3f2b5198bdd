import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import cxlab
from cxlab import _sweep
from cxlab._sweep import points_of, run_many, sweep

GRID = {"fabric.routing": ["shortest", "adaptive"], "hosts[0].issue.outstanding": [1, 8]}


def cached(folder):
    return sorted(path.name for path in folder.glob("*.json"))


def test_a_grid_is_all_combinations_and_a_list_is_itself():
    assert points_of({"a": [1, 2], "b": ["x", "y"]}) == [
        {"a": 1, "b": "x"},
        {"a": 1, "b": "y"},
        {"a": 2, "b": "x"},
        {"a": 2, "b": "y"},
    ]
    assert points_of([{"a": 1}, {"b": 2}]) == [{"a": 1}, {"b": 2}]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"fabric.routing": "adaptive"}, "fabric.routing: found 'adaptive'; allowed: a list"),
        ({"hosts[0].count": 3}, r"hosts\[0\].count: found 3; allowed: a list of values"),
        ({"seed": []}, "no points"),
        ([], "no points"),
    ],
)
def test_changes_without_lists_or_points_are_refused(changes, said):
    with pytest.raises(ValueError, match=said):
        points_of(changes)


def test_a_sweep_has_a_row_for_each_point_with_the_numbers_of_its_run(pool):
    frame = sweep(pool, GRID, workers=2)
    assert len(frame) == 4
    assert list(frame["hosts[0].issue.outstanding"]) == [1, 8, 1, 8]
    for _, row in frame.iterrows():
        changes = {path: row[path] for path in GRID}
        report = cxlab.run(pool.update(changes)).report
        assert row["digest"] == report["digest"]
        assert row["bandwidth_gb_per_s"] == report["bandwidth_gb_per_s"]["total"]
        busy = {link["direction"]: link["utilization"] for link in report["links"]}
        assert row["busiest_link_utilization"] == max(busy.values()) > 0
        assert busy[row["busiest_link"]] == row["busiest_link_utilization"]
    again = sweep(pool, GRID, frame="polars", metrics={"n": lambda r: r["requests"]["completed"]})
    assert again["n"].to_list() == frame["completed"].to_list()


def test_what_has_finished_is_not_run_again(pool, cache, monkeypatch):
    first = sweep(pool, GRID, workers=1)
    names = cached(cache)
    assert len(names) == 4
    monkeypatch.setattr(_sweep, "_run_locally", lambda *_: pytest.fail("ran again"))
    assert sweep(pool, GRID).equals(first)
    assert cached(cache) == names


def test_a_seed_another_version_and_no_cache_are_runs_of_their_own(pool, cache, monkeypatch):
    run_many([pool], workers=1)
    run_many([pool], workers=1, seed=9)
    assert len(cached(cache)) == 2
    pool.save(cache.parent / "pool.toml")
    run_many([cache.parent / "pool.toml"], workers=1)
    assert len(cached(cache)) == 2
    monkeypatch.setattr(_sweep, "_build", lambda: "another")
    run_many([pool], workers=1)
    assert len(cached(cache)) == 3
    run_many([pool], workers=1, cache=False, seed=10)
    assert len(cached(cache)) == 3


def test_a_library_that_was_built_again_is_another_run(pool, cache, tmp_path, monkeypatch):
    monkeypatch.setenv("CXLAB_TRUST_PLUGINS", "1")
    root = Path(__file__).parents[2]
    library = tmp_path / "medium.so"
    media = {"kind": "plugin", "library": str(library), "config": "latency_ps=80000 queue=2"}
    scenario = pool.set("devices[0].memory", media)
    for number, flag in enumerate(("-O1", "-O2")):
        source = root / "examples" / "plugin" / "medium.c"
        new = tmp_path / f"new{number}.so"
        command = ["cc", "-shared", "-fPIC", "-std=c11", flag, f"-I{root / 'include'}"]
        subprocess.run([*command, "-o", str(new), str(source)], check=True)
        new.replace(library)
        run_many([scenario], workers=1)
        assert len(cached(cache)) == number + 1


@pytest.mark.parametrize("damage", ["cut", "changed", "another", "empty"])
def test_a_damaged_report_is_removed_and_made_anew(pool, cache, damage):
    (first,) = run_many([pool], workers=1)
    (name,) = cached(cache)
    entry = cache / name
    whole = entry.read_text()
    if damage == "another":
        run_many([pool], workers=1, seed=9)
        (other,) = set(cached(cache)) - {name}
        entry.write_text((cache / other).read_text())
    else:
        changed = whole.replace('"digest": "', '"digest": "0')
        entry.write_text({"cut": whole[:-9], "changed": changed, "empty": ""}[damage])
    with pytest.warns(UserWarning, match="is damaged, or not what it is named"):
        (again,) = run_many([pool], workers=1)
    assert again.report["digest"] == first.report["digest"]
    first_line = entry.read_text().partition("\n")[0]
    assert first_line.startswith(f"cxlab-report {entry.stem} ")


def test_equal_points_are_run_once_and_keep_their_names(pool, cache):
    other = pool.set("name", "other")
    results = run_many([pool, other, pool], workers=1)
    assert [result.report["scenario"] for result in results] == ["pool", "other", "pool"]
    assert len(cached(cache)) == 1
    assert len({result.report["digest"] for result in results}) == 1


def test_a_mistake_is_found_before_anything_runs(pool, cache):
    with pytest.raises(cxlab.ScenarioError) as caught:
        sweep(pool, {"hosts[0].count": [1, 0]}, workers=1)
    assert "hosts[0].count=0" in "\n".join(caught.value.__notes__)
    assert cached(cache) == []


def test_a_worker_that_dies_costs_only_its_point(pool, tmp_path, cache):
    script = f"""
import os, signal, sys
from pathlib import Path
import cxlab
from cxlab import _sweep

real = _sweep._simulate
mark = Path({str(tmp_path / "died")!r})

def deadly(point, side_by_side):
    if point.seed is None and any("outstanding=8" in change for change in point.set):
        try:
            mark.touch(exist_ok=False)
        except FileExistsError:
            pass
        else:
            os.kill(os.getpid(), signal.SIGKILL)
    return real(point, side_by_side)

_sweep._simulate = deadly
pool = cxlab.Scenario.from_file(sys.argv[1])
frame = cxlab.sweep(pool, {GRID!r}, workers=2)
print(len(frame), mark.exists())
"""
    pool.save(tmp_path / "pool.toml")
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path / "pool.toml")],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.stdout == "4 True\n", done.stderr
    assert len(cached(cache)) == 4


def test_workers_times_threads_never_exceed_the_processors(monkeypatch):
    for processors in (1, 2, 3, 8, 64):
        monkeypatch.setattr(_sweep._native, "processors", lambda count=processors: count)
        for threads in ("auto", 1, 2, 16):
            for workers in (None, 1, 2, 7, 100):
                side_by_side = _sweep._workers(workers, threads)
                share = _sweep._share(0 if threads == "auto" else threads, side_by_side)
                assert side_by_side >= 1 and share >= 1
                assert side_by_side * share <= processors
                assert threads == "auto" or share <= threads
                assert workers is None or side_by_side <= workers


def test_workers_that_always_die_end_the_sweep(pool, monkeypatch):
    monkeypatch.setattr(_sweep, "_simulate", lambda *_: os.kill(os.getpid(), signal.SIGKILL))
    with pytest.raises(cxlab.SweepError, match="3 times a worker died"):
        run_many([pool], workers=1)


def alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    # There may be no parent that reaps the process.
    state = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True)
    return not state.stdout.startswith("Z") and state.stdout != ""


def workers_of(parent):
    """Processes of loky with this parent, except for the resource tracker."""
    listed = subprocess.run(
        ["ps", "-ww", "-o", "pid=,args=", "--ppid", str(parent)],
        capture_output=True,
        text=True,
        check=False,
    )
    lines = [line.split(None, 1) for line in listed.stdout.splitlines()]
    return [int(pid) for pid, command in lines if "LokyProcess" in command]


def test_a_sweep_that_was_killed_goes_on_where_it_was(pool, tmp_path, cache, request):
    # Long points after short ones, so that some have finished when the parent is killed.
    pool.set("execution.threads", 1).save(tmp_path / "pool.toml")
    arguments = [
        sys.executable, "-m", "cxlab", "sweep", str(tmp_path / "pool.toml"), "--workers", "1",
        "--grid",
    ]  # fmt: skip
    child = subprocess.Popen(
        [*arguments, "measure.requests=1000,1001,1002,1000000000"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    request.addfinalizer(child.kill)
    began = time.monotonic()
    while len(cached(cache)) < 3:
        assert child.poll() is None
        assert time.monotonic() - began < 60, "nothing finishes"
        time.sleep(0.02)
    [worker] = workers_of(child.pid)
    child.kill()
    child.wait()
    before = {name: (cache / name).stat().st_mtime_ns for name in cached(cache)}
    assert len(before) == 3
    done = subprocess.run(
        [*arguments, "measure.requests=1000,1001,1002,1003", "--out", str(tmp_path / "a.csv")],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert len(done.stdout.splitlines()) == 5
    assert len((tmp_path / "a.csv").read_text().splitlines()) == 5
    after = {name: (cache / name).stat().st_mtime_ns for name in cached(cache)}
    assert len(after) == 4
    assert {name: after[name] for name in before} == before
    # Without a terminal there is no progress bar.
    note = f"note: 4 of 4 points have notes: the column `notes` of {tmp_path / 'a.csv'} has them"
    assert done.stderr == f"{note}\n"
    while alive(worker):
        assert time.monotonic() - began < 120, "a worker outlives its parent"
        time.sleep(0.05)


@pytest.mark.filterwarnings("ignore")
def test_a_dask_cluster_gives_the_same_frame(pool):
    distributed = pytest.importorskip("distributed")
    expected = sweep(pool, GRID, workers=1, cache=False)
    with distributed.LocalCluster(
        n_workers=1, threads_per_worker=1, processes=False, dashboard_address=None
    ) as cluster:
        frame = sweep(pool, GRID, scheduler=cluster.scheduler_address, cache=False)
    assert frame.equals(expected)


def test_runs_of_several_seeds_have_the_means_and_intervals_of_the_command(pool, tmp_path, cache):
    pool.save(tmp_path / "pool.toml")
    seeds = cxlab.run_seeds(pool, 3, seed=5, workers=2)
    assert [result.report["seed"] for result in seeds.results] == [5, 6, 7]
    for result in seeds.results:
        alone = cxlab.run(pool, seed=result.report["seed"])
        assert result.report["digest"] == alone.report["digest"]
    assert len(cached(cache)) == 3
    seeds.save(tmp_path / "python")
    command = [sys.executable, "-m", "cxlab", "run", tmp_path / "pool.toml", "--seed=5"]
    command += ["--seeds=3", "-q", "--out", tmp_path / "command"]
    subprocess.run(command, check=True, timeout=60)
    for name in ("seeds.json", "seeds.svg"):
        ours, theirs = (tmp_path / folder / name for folder in ("python", "command"))
        assert ours.read_bytes() == theirs.read_bytes(), name
    p99 = seeds.quantity("hosts[1].latency_ns.p99")
    values = [result.report["hosts"][1]["latency_ns"]["p99"] for result in seeds.results]
    assert p99["values"] == values
    mean = sum(values) / 3
    half = 4.302652730 * (sum((value - mean) ** 2 for value in values) / 6) ** 0.5
    assert (p99["mean"], p99["ci95"]) == pytest.approx((mean, half))
    frame = seeds.to_pandas().set_index("name")
    assert frame.loc["hosts[1].latency_ns.p99", "ci95"] == p99["ci95"]
    assert seeds.to_polars().shape == (len(frame), 5)
    with pytest.raises(KeyError, match="allowed: bandwidth_gb_per_s"):
        seeds.quantity("latency")


def test_a_sweep_over_seeds_has_means_and_intervals_of_each_point(pool, cache):
    changes = {"hosts[0].issue.outstanding": [1, 8]}
    frame = sweep(pool, changes, seed=3, seeds=4, workers=2)
    assert len(cached(cache)) == 8
    assert list(frame["seeds"]) == [4, 4]
    singles = {"hosts[0].issue.outstanding": [1, 8], "seed": [3, 4, 5, 6]}
    single = sweep(pool, singles, workers=2)
    # The runs are equal, and came from the cache.
    assert len(cached(cache)) == 8
    for (_, row), outstanding in zip(frame.iterrows(), [1, 8], strict=True):
        runs = single[single["hosts[0].issue.outstanding"] == outstanding]
        columns = {
            "bandwidth_gb_per_s": "bandwidth_ci95",
            "mean_ns": "mean_ci95",
            "p99_ns": "p99_ci95",
        }
        for name, interval in columns.items():
            # The 0.975 quantile of Student's t with three degrees of freedom.
            half = 3.182446305 * runs[name].std() / 2
            assert (row[name], row[interval]) == pytest.approx((runs[name].mean(), half)), name
        assert row["digest"] == "; ".join(runs["digest"])
        assert row["plan_hash"] == runs["plan_hash"].iloc[0]
    chosen = sweep(pool, changes, seeds=2, metrics={"a_ns": lambda _: 1.0}, frame="polars")
    assert chosen.columns == ["hosts[0].issue.outstanding", "seeds", "a_ns", "a_ci95"]


@pytest.mark.parametrize("seeds", [0, 1, 1001, -3])
def test_a_number_of_seeds_that_is_not_allowed_is_refused(pool, seeds):
    for refused in (lambda: cxlab.run_seeds(pool, seeds), lambda: sweep(pool, GRID, seeds=seeds)):
        with pytest.raises(ValueError, match=f"found {seeds}; allowed: .* from 2 to 1000"):
            refused()


def test_seeds_beyond_the_last_and_columns_twice_are_refused(pool, cache):
    with pytest.raises(ValueError, match="found seed 18446744073709551616"):
        cxlab.run_seeds(pool, 2, seed=2**64 - 1)
    for names in (["a_ns", "a_gb_per_s"], ["a_ns", "a_ci95"], ["seeds"]):
        with pytest.raises(ValueError, match="metrics: found"):
            sweep(pool, GRID, seeds=2, metrics={name: lambda _: 1.0 for name in names})
    assert cached(cache) == []


def test_results_are_told_as_soon_as_they_are_known(pool):
    scenarios = [pool, pool.set("hosts[0].count", 1), pool]
    for _ in range(2):  # run, and then from the cache
        told = {}
        results = cxlab.run_many(scenarios, arrived=told.__setitem__, progress=False)
        assert {number: one.json for number, one in told.items()} == {
            number: one.json for number, one in enumerate(results)
        }
