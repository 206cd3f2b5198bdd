"""Examples in the documents must work verbatim."""

import re
import runpy
import shlex
import shutil
import tomllib

import pytest
from matplotlib import pyplot

from cxlab._command import main


def blocks(text, language):
    return re.findall(rf"^```{language}\n(.*?)^```$", text, flags=re.DOTALL | re.MULTILINE)


def test_the_example_in_the_readme_runs(root, tmp_path, monkeypatch, capsys):
    readme = (root / "README.md").read_text()
    (tmp_path / "pool.toml").write_text(blocks(readme, "toml")[0])
    monkeypatch.chdir(tmp_path)
    [example] = blocks(readme, "python")
    exec(compile(example, "README.md", "exec"), {})
    printed = capsys.readouterr().out
    assert "pool: 8 hosts" in printed
    assert printed.count("adaptive") >= 2


def test_the_workload_in_the_documents_runs(root, pool):
    import numpy as np

    import cxlab

    [example] = [
        block for block in blocks((root / "docs/guide/python.md").read_text(), "python")
        if "strided" in block
    ]  # fmt: skip
    names = {"np": np, "cxlab": cxlab, "scenario": pool}
    exec(compile(example, "docs/guide/python.md", "exec"), names)
    assert names["result"].report["requests"]["completed"] >= 2_000


def test_the_measurement_in_the_documents_runs(root, tmp_path, monkeypatch, capsys):
    [example] = blocks((root / "docs/guide/measure-with-mlc.md").read_text(), "python")
    (tmp_path / "scenarios").symlink_to(root / "scenarios")
    monkeypatch.chdir(tmp_path)
    names = {}
    exec(compile(example, "docs/guide/measure-with-mlc.md", "exec"), names)
    assert capsys.readouterr().out.startswith("215.0 ")
    assert names["again"].curves.equals(names["found"].curves)


@pytest.mark.parametrize("name", ["is-it-right", "calibrate"])
def test_the_commands_of_a_guide_run(root, tmp_path, monkeypatch, capfd, name):
    text = (root / f"docs/guide/{name}.md").read_text()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CXLAB_CACHE", str(tmp_path / "cache"))
    for block in blocks(text, "toml") + blocks(text, "text"):
        (tmp_path / block.splitlines()[0].removeprefix("# ")).write_text(block)
    lines = [line for block in blocks(text, "sh") for line in block.splitlines()]
    assert len(lines) >= 3
    for line in lines:
        program, *arguments = shlex.split(line, comments=True)
        assert program == "cxlab"
        assert main(arguments) == 0, capfd.readouterr().err
    printed = capfd.readouterr().out
    for block in blocks(text, "output"):
        assert block in printed
    if name == "calibrate":
        fitted = tomllib.loads((tmp_path / "device.toml").read_text())
        copied = tomllib.loads((tmp_path / "pool.toml").read_text())
        assert copied["devices"] == fitted["devices"]
        for example in blocks(text, "python"):
            exec(compile(example, "docs/guide/calibrate.md", "exec"), {})


def test_the_tour_runs(root, tmp_path, monkeypatch, capsys):
    shutil.copy(root / "examples/explore.py", tmp_path)
    monkeypatch.chdir(tmp_path)
    runpy.run_path("explore.py")
    pyplot.close("all")
    assert {"topology.png", "sweep.png", "report.json", "requests.parquet"} <= {
        path.name for path in (tmp_path / "out/explore").iterdir()
    }
    assert "did you mean" in capsys.readouterr().out


@pytest.mark.parametrize(
    "name",
    [
        "README.md",
        "docs/guide/python.md",
        "docs/guide/measure-with-mlc.md",
        "docs/guide/calibrate.md",
    ],
)
def test_names_in_the_documents_exist(root, name):
    import cxlab

    for found in re.findall(r"cxlab\.([A-Za-z_]+)", (root / name).read_text()):
        assert hasattr(cxlab, found) or found in ("toml",), found
