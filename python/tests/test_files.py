"""Files appear completely or not at all, and never in place of another kind of entry."""

import os
import stat
import subprocess
import sys

import pytest

import cxlab
from cxlab import _files

SCENARIO = 'name = "a"\n[[hosts]]\n[[devices]]\n'


def test_a_link_is_replaced_and_its_target_stays(tmp_path):
    victim = tmp_path / "victim"
    victim.write_text("mine")
    link = tmp_path / "a.toml"
    link.symlink_to(victim)
    cxlab.Scenario.from_toml(SCENARIO).save(link)
    assert victim.read_text() == "mine"
    assert not link.is_symlink()
    assert link.read_text() == SCENARIO


def test_a_fifo_and_a_folder_are_refused(tmp_path):
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    with pytest.raises(OSError, match="found a FIFO; allowed: the name of a regular file"):
        _files.write_text(fifo, "text")
    assert stat.S_ISFIFO(fifo.stat().st_mode)
    with pytest.raises(OSError, match="found a folder"):
        _files.write_text(tmp_path, "text")
    assert list(tmp_path.iterdir()) == [fifo]


def test_what_cannot_be_written_whole_leaves_what_was_there(tmp_path):
    path = tmp_path / "a.toml"
    path.write_text("before")

    def fail(partial):
        partial.write_text("half")
        raise RuntimeError

    with pytest.raises(RuntimeError):
        _files.write_whole(path, fail)
    assert path.read_text() == "before"
    assert list(tmp_path.iterdir()) == [path]


def test_a_full_disk_leaves_what_was_there(tmp_path):
    path = tmp_path / "a.toml"
    path.write_text("before")
    code = (
        "import pathlib, resource, signal, sys\n"
        "from cxlab import _files\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (10, 10))\n"
        "try:\n"
        "    _files.write_text(pathlib.Path(sys.argv[1]), 'x' * 100)\n"
        "except OSError as error:\n"
        "    sys.exit(error.strerror)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert done.stderr == "File too large\n"
    assert path.read_text() == "before"
    assert list(tmp_path.iterdir()) == [path]


def run_of(folder):
    """ID of the run to which the files of a folder belong."""
    return cxlab.Result.load(folder).report["run"]


def test_a_result_replaces_the_one_before_as_a_whole(pool, tmp_path):
    folder = tmp_path / "run"
    cxlab.run(pool, requests=True).save(folder)
    first = run_of(folder)
    assert cxlab.Result.load(folder).to_arrow("requests").num_rows > 0
    (folder / "notes.txt").write_text("mine")
    cxlab.run(pool, seed=9).save(folder)
    assert run_of(folder) != first
    names = sorted(path.name for path in folder.iterdir())
    assert names == ["notes.txt", "report.json", "topology.svg"]


@pytest.mark.parametrize("name", ["report.json", "topology.svg", "requests.parquet"])
def test_a_file_of_the_users_is_not_replaced(pool, tmp_path, name):
    (tmp_path / name).write_text("mine")
    with pytest.raises(OSError, match=f"found `{name}`, which cxlab did not write"):
        cxlab.run(pool).save(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [name]
    assert (tmp_path / name).read_text() == "mine"


@pytest.mark.parametrize("name", ["topology.svg", "requests.parquet"])
def test_files_of_two_runs_are_told_apart(pool, tmp_path, name):
    first, second = tmp_path / "first", tmp_path / "second"
    cxlab.run(pool, requests=True).save(first)
    cxlab.run(pool, requests=True, seed=9).save(second)
    (second / name).replace(first / name)
    with pytest.raises(cxlab.ResultError, match="of another run than"):
        cxlab.Result.load(first).to_arrow("requests")
