"""Untrusted files and user mistakes give one clear error and no traceback."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy
import pytest

import cxlab
from cxlab import _command
from cxlab._command import main

BROWSER = (
    shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
)


@pytest.fixture
def folder(pool, tmp_path):
    cxlab.run(pool, requests=True).save(tmp_path / "run")
    return tmp_path / "run"


def said(capsys, arguments):
    """Exit code and output of a command."""
    try:
        code = main([str(argument) for argument in arguments])
    except SystemExit as stop:
        code = stop.code
    return code, capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("report.json", b'{"hosts"', "found no report: EOF"),
        ("report.json", b"[]", "found no report"),
        ("report.json", b"{}", "missing field"),
        ("report.json", b"\xff\xfe", "byte 0 is not UTF-8"),
        ("topology.svg", b"<svg", "found no picture"),
        ("topology.svg", b"", "found no picture"),
        ("requests.parquet", b"PAR1", "found a damaged file"),
        ("requests.parquet", b"", "found a damaged file"),
    ],
)
def test_a_damaged_file_is_a_mistake(folder, capsys, name, content, words):
    (folder / name).write_bytes(content)
    code, err = said(capsys, ["report", folder])
    assert code == 2
    assert words in err
    assert str(folder / name) in err
    assert not (folder / "report.html").exists()


def test_a_report_with_text_for_a_number_and_a_log_of_another_run_are_mistakes(folder, capsys):
    text = (folder / "report.json").read_text()
    values = json.loads(text)
    values["stages_ns"]["link"] = "<b>"
    (folder / "report.json").write_text(json.dumps(values))
    assert "as `link`, which is no number" in said(capsys, ["report", folder])[1]
    values = json.loads(text)
    values["hosts"] = values["hosts"][:1]
    (folder / "report.json").write_text(json.dumps(values))
    code, err = said(capsys, ["report", folder])
    assert code == 2
    assert "the report has 1 of them" in err


def test_a_page_of_somebody_elses_folder_runs_nothing(folder, capsys):
    evil = "<td><script>alert(1)</script>"
    values = json.loads((folder / "report.json").read_text())
    for place in (values, values["hosts"][0], values["devices"][0], values["links"][0]):
        for key in ("scenario", "plan_hash", "digest", "version", "name", "direction"):
            if key in place:
                place[key] = evil
    values["stages_ns"][evil] = 1.0
    values["devices"][0]["medium"] = {evil: 1.0}
    (folder / "report.json").write_text(json.dumps(values))
    (folder / "requests.parquet").unlink()
    picture = (
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 9 9" onload="alert(1)">'
        "<script>alert(1)</script><style>*{}</style>"
        "<style>@media (prefers-color-scheme:dark){.cx-a{fill:red}}</style>"
        "<style>@media (prefers-color-scheme:dark){.cx-a{fill:#000000}} *{}</style>"
        "<g onclick='alert(1)'>"
        '<a href="javascript:alert(1)"><text x="1" y="2">kept</text></a>'
        '<rect fill="url(http://x)" width="3"/><foreignObject><body/></foreignObject>'
        "<text>also kept</text></g></svg>"
    )
    (folder / "topology.svg").write_text(f"{picture}<!-- cxlab run {values['run']} -->")
    assert said(capsys, ["report", folder])[0] == 0
    page = (folder / "report.html").read_text()
    # The page's own two, of which one is data that the policy does not let run.
    assert page.count("<script") == 2
    data = page.split('id="runs">')[1].split("</script>")[0]
    assert "<" not in data
    [run] = json.loads(data)
    for word in ("onload", "onclick", "javascript", "foreignObject", "url(http", "<a ", "cx-a"):
        assert word not in run["picture"]
    assert "also kept" in run["picture"]
    assert run["report"]["scenario"] == evil


@pytest.mark.skipif(BROWSER is None, reason="no chromium is installed")
def test_a_browser_shows_hostile_names_as_text(folder, tmp_path):
    evil = "</script><img src=x onerror=document.title='run'><script>document.title='run'</script>"
    values = json.loads((folder / "report.json").read_text())
    values["scenario"] = evil
    for part in (*values["hosts"], *values["devices"]):
        part["name"] = evil
    for link in values["links"]:
        link["direction"] = f"{evil}->__proto__"
    values["stages_ns"]["__proto__"] = 1.0
    values["notes"] = [{"path": evil, "message": evil}]
    (folder / "report.json").write_text(json.dumps(values))
    (folder / "requests.parquet").unlink()
    assert main(["report", str(folder), "--compare", str(folder)]) == 0
    done = subprocess.run(
        [
            BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
            "--host-resolver-rules=MAP * ~NOTFOUND", f"--user-data-dir={tmp_path / 'browser'}",
            "--dump-dom", (folder / "report.html").as_uri(),
        ],
        capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip
    shown = re.sub(r"<script\b.*?</script>", "", done.stdout, flags=re.DOTALL)
    assert "<title>run</title>" not in shown
    assert "<img" not in shown
    # In the heading, the tables, the notes and the comparison.
    assert shown.count("&lt;/script&gt;&lt;img src=x") > 10


def test_entities_and_depth_do_not_blow_up(folder, capsys):
    bomb = '<!DOCTYPE svg [<!ENTITY a "aaaa">]><svg xmlns="http://www.w3.org/2000/svg">&a;</svg>'
    (folder / "topology.svg").write_text(bomb)
    assert said(capsys, ["report", folder])[0] == 2
    deep = "<g>" * 100_000 + "</g>" * 100_000
    (folder / "topology.svg").write_text(f'<svg xmlns="http://www.w3.org/2000/svg">{deep}</svg>')
    assert said(capsys, ["report", folder])[0] in (0, 2)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["/bin/ls", "--grid", "seed=1"], "is not UTF-8"),
        (["{scenario}", "--grid", "seed=1", "--seed", "-1"], "allowed: 0 to"),
        (["{scenario}", "--grid", "seed=1", "--seed", "9" * 30], "allowed: 0 to"),
        (["{scenario}", "--grid", "seed=1", "--seed", "x"], "allowed: 0 to"),
        (["{scenario}", "--grid", "seed=1", "--workers", "0"], "allowed: 1 and more"),
    ],
)
def test_a_sweep_of_nothing_that_it_can_sweep_is_a_mistake(
    pool, tmp_path, capsys, arguments, words
):
    scenario = tmp_path / "a.toml"
    pool.save(scenario)
    code, err = said(capsys, ["sweep", *(one.format(scenario=scenario) for one in arguments)])
    assert code == 2
    assert words in err


@pytest.mark.parametrize("seed", [-1, 2**64, 1.5, "x", True])
def test_seeds_out_of_range_say_what_is_allowed(pool, seed):
    for run in (lambda: cxlab.run(pool, seed=seed), lambda: cxlab.run_many([pool], seed=seed)):
        with pytest.raises(ValueError, match=r"seed: found .*; allowed: 0 to 18446744073709551615"):
            run()


@pytest.mark.parametrize("threads", [0, -1, 257, 2**70, 1.5, "x", True])
def test_threads_out_of_range_say_what_is_allowed(pool, threads):
    with pytest.raises(ValueError, match=r"threads: found .*; allowed: 1 to 256"):
        cxlab.run(pool, threads=threads)
    with pytest.raises(ValueError, match=r"threads: found .*; allowed: 1 to 256"):
        cxlab.run_many([pool], threads=threads)


def test_a_workload_that_nobody_names_is_a_mistake(pool):
    with pytest.raises(ValueError, match=r"workloads: found 'hots'.*allowed: none"):
        cxlab.run(pool, workloads={"hots": lambda _: []})
    named = pool.set("hosts[0].workload", {"kind": "external", "name": "hot"})
    with pytest.raises(ValueError, match=r"workloads: found 'hots'.*allowed: hot$"):
        cxlab.run(named, workloads={"hot": lambda _: [], "hots": lambda _: []})


def test_values_of_other_kinds_are_taken_or_refused_where_they_are_set(pool):
    scenario = pool.set("seed", numpy.int64(3)).set("name", Path("x"))
    scenario = scenario.set("hosts[0].workload.read_ratio", numpy.float64(0.5))
    assert scenario.to_dict()["seed"] == 3
    assert scenario.to_dict()["name"] == "x"
    for value in (None, {1, 2}, b"x", object()):
        with pytest.raises(ValueError, match=r"seed: found .*; allowed: text, numbers"):
            scenario.set("seed", value)
    with pytest.raises(ValueError, match=r"measure\.requests: found None"):
        cxlab.Scenario("x").measure(requests=None)


@pytest.mark.parametrize("loop", ["while True: pass", "while True: yield [], []"])
def test_ctrl_c_ends_a_workload_that_gives_nothing(pool, tmp_path, loop):
    scenario = tmp_path / "a.toml"
    pool.set("hosts[0].workload", {"kind": "external", "name": "hot"}).save(scenario)
    script = (
        "import sys, threading, _thread, time, cxlab\n"
        f"def hot(_):\n    {loop}\n    yield [], []\n"
        "def stop():\n    time.sleep(1)\n    import os, signal\n"
        "    os.kill(os.getpid(), signal.SIGINT)\n"
        "threading.Thread(target=stop, daemon=True).start()\n"
        "try:\n    cxlab.run(sys.argv[1], workloads={'hot': hot})\n"
        "except KeyboardInterrupt:\n    sys.exit(7)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(scenario)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 7, done.stderr


def test_a_mistake_of_ours_is_one_line_and_exit_code_70(monkeypatch, tmp_path, capsys):
    def broken(arguments):
        raise KeyError(arguments[0])

    monkeypatch.setitem(_command._COMMANDS, "report", broken)
    code, err = said(capsys, ["report", tmp_path])
    assert code == 70
    assert err.startswith("error: internal error, please report it")
    assert "KeyError" in err
    assert err.count("\n") == 1
