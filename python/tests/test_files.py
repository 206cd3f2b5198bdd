"""Files appear whole or not at all, and never where something else is."""

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
