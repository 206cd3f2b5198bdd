import os
import signal
import subprocess
import sys
import time

import pytest

import cxlab
from cxlab._command import main


def command(*arguments, **options):
    return subprocess.run(
        [sys.executable, "-m", "cxlab", *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        **options,
    )


def test_help_lists_the_commands_of_both_languages():
    done = command("--help")
    assert done.returncode == 0
    in_python = ("report", "sweep", "mlc", "calibrate", "reproduce")
    for name in ("run", "check", "plan", "list", "schema", "trace", *in_python):
        assert f"\n  {name} " in done.stdout
    for name in in_python:
        assert command(name, "--help").stdout.startswith(f"usage: cxlab {name}")
    assert command("--version").stdout == f"cxlab {cxlab.__version__}\n"


def test_exit_codes_are_those_of_the_command(tmp_path):
    assert command("run", tmp_path / "nothing.toml").returncode == 2
    assert command("no-such-command").returncode == 2
    assert command("sweep", tmp_path / "nothing.toml", "--grid", "seed=1").returncode == 2
    assert command("reproduce", "esf", "fig99").returncode == 2
    assert command("list", "topologies").returncode == 0


def test_a_sweep_takes_seeds_and_refuses_bad_numbers(pool, tmp_path):
    pool.save(tmp_path / "pool.toml")
    sweep = ("sweep", tmp_path / "pool.toml", "--grid", "hosts[0].count=1,2")
    done = command(*sweep, "--seeds=2", "--out", tmp_path / "sweep.csv")
    assert done.returncode == 0, done.stderr
    head, *rows = (tmp_path / "sweep.csv").read_text().splitlines()
    assert "bandwidth_gb_per_s,bandwidth_ci95," in head
    assert len(rows) == 2
    for bad in ("0", "1", "1001", "two"):
        refused = command(*sweep, f"--seeds={bad}")
        assert refused.returncode == 2
        assert f"found {bad}; allowed: a whole number from 2 to 1000" in refused.stderr
    late = command(*sweep, "--seeds=2", f"--seed={2**64 - 1}")
    assert (late.returncode, "allowed: at most" in late.stderr) == (2, True), late.stderr


def test_the_script_on_the_path_is_the_command():
    from pathlib import Path

    script = Path(sys.executable).with_name("cxlab")
    if not script.is_file():
        pytest.skip("the package is not installed into this interpreter")
    done = subprocess.run([script, "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == f"cxlab {cxlab.__version__}\n"


@pytest.mark.parametrize(("name", "code"), [("SIGINT", 130), ("SIGTERM", 130)])
def test_a_signal_stops_a_run_and_keeps_what_was_measured(endless, tmp_path, name, code):
    endless.save(tmp_path / "endless.toml")
    child = subprocess.Popen(
        [sys.executable, "-m", "cxlab", "run", "endless.toml", "--out", "out"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    began = time.monotonic()
    while not (tmp_path / "out").is_dir():
        assert time.monotonic() - began < 30
        time.sleep(0.01)
    time.sleep(0.5)
    os.kill(child.pid, getattr(signal, name))
    _, errors = child.communicate(timeout=30)
    assert child.returncode == code, errors
    assert "interrupted at" in errors
    assert cxlab.Result.load(tmp_path / "out").partial


def test_a_command_in_this_process_leaves_its_interrupts_as_they_were():
    before = signal.getsignal(signal.SIGINT)
    assert main(["list", "topologies"]) == 0
    assert signal.getsignal(signal.SIGINT) is before


def test_the_rust_program_says_where_the_python_commands_are():
    from cxlab import _native

    # Calls the function below the package's entry point, which handles these commands itself.
    code = "import sys; from cxlab import _native; sys.exit(_native.main(['cxlab', *sys.argv[1:]]))"
    done = subprocess.run(
        [sys.executable, "-c", code, "report", "out/run", "--out", "x.html"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "part of the Python package" in done.stderr
    assert "cxlab report out/run --out x.html" in done.stderr
    assert cxlab.__version__ == _native.VERSION
