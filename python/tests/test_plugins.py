"""Memory backends in shared libraries run only with the user's trust, in separate processes."""

import subprocess

import pytest

import cxlab
from cxlab._command import main


@pytest.fixture
def scenario(root, tmp_path, pool):
    """A system with a library that crashes after some requests."""
    source = root / "crates/cxlab-memory/tests/plugin_bad/bad.c"
    command = ["cc", "-shared", "-fPIC", "-DCRASHES_IN_ADVANCE", f"-I{root / 'include'}"]
    subprocess.run([*command, "-o", str(tmp_path / "bad.so"), str(source)], check=True)
    media = {"kind": "plugin", "library": "bad.so", "config": "1000"}
    pool.set("devices[0].memory", media).save(tmp_path / "bad.toml")
    return tmp_path / "bad.toml"


@pytest.fixture
def trusted(monkeypatch):
    monkeypatch.setenv("CXLAB_TRUST_PLUGINS", "1")


def test_a_library_is_not_run_without_a_word(scenario):
    loaded = cxlab.Scenario.from_file(scenario)
    cxlab.plan(loaded)
    with pytest.raises(cxlab.ScenarioError, match="nobody has said that it may run"):
        cxlab.run(loaded)


@pytest.mark.usefixtures("trusted")
def test_a_crash_is_an_exception_with_what_was_measured(scenario):
    with pytest.raises(
        cxlab.PluginError, match=r"`bad.so`: `advance` was ended by signal 11"
    ) as caught:
        cxlab.run(cxlab.Scenario.from_file(scenario))
    result = caught.value.result
    assert result.partial
    assert result.report["requests"]["completed"] > 100
    assert "signal 11" in result.report["fault"]


@pytest.mark.usefixtures("trusted")
def test_a_crash_in_a_sweep_is_exit_code_71(scenario, capsys):
    grid = ["--grid", "devices[0].memory.config='1000','1001'", "--workers", "1"]
    assert main(["sweep", str(scenario), *grid]) == 71
    assert "signal 11 (SIGSEGV)" in capsys.readouterr().err
