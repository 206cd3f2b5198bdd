"""Examples in the documents must work verbatim."""

import importlib.util
import re
import runpy
import shutil

import pytest
from matplotlib import pyplot


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


def test_the_measurement_in_the_documents_runs(root, tmp_path, monkeypatch, capsys):
    [example] = blocks((root / "docs/guide/measure-with-mlc.md").read_text(), "python")
    (tmp_path / "scenarios").symlink_to(root / "scenarios")
    monkeypatch.chdir(tmp_path)
    names = {}
    exec(compile(example, "docs/guide/measure-with-mlc.md", "exec"), names)
    assert capsys.readouterr().out.startswith("215.0 ")
    assert names["again"].curves.equals(names["found"].curves)


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
        known = hasattr(cxlab, found) or importlib.util.find_spec(f"cxlab.{found}")
        assert known or found == "toml", found


def test_shipped_scenarios_in_the_documents_exist(root):
    pages = [*root.glob("*.md"), *(root / "docs").rglob("*.md")]
    for page in pages:
        for found in re.findall(r"(?<![\w/])scenarios/[a-z0-9/-]+\.toml", page.read_text()):
            assert (root / found).is_file(), f"{page.name}: {found}"


def test_the_types_of_reports_have_their_fields(root):
    """`docs/reference/report.md` is generated from these types."""
    from cxlab import _analytic_types, _types

    system = root / "crates/cxlab-system/src"
    sources = [
        *system.glob("report/*.rs"),
        system / "series.rs",
        root / "crates/cxlab-device/src/media_errors.rs",
        *(system / f"analytic/{name}.rs" for name in ("report", "calibrate")),
        root / "crates/cxlab-analytic/src/class.rs",
    ]
    structs = r"derive\([^)\n]*\bSerialize\b[^)\n]*\)\]\npub struct (\w+) \{\n(.*?)^\}"
    field = r"((?:^ +#\[.*\]\n)*)^    pub (\w+): (\w+)"
    known_in_rust: dict[str, set[str]] = {}
    flattened: dict[str, set[str]] = {}
    for source in sources:
        for name, body in re.findall(structs, source.read_text(), re.DOTALL | re.MULTILINE):
            found = re.findall(field, body, re.MULTILINE)
            flattened[name] = {kind for with_, _, kind in found if "serde(flatten)" in with_}
            hidden = re.compile(r"serde\((?:skip|flatten)\)")
            known_in_rust[name] = {own for with_, own, _ in found if not hidden.search(with_)}
    for name, fields in known_in_rust.items():
        fields = fields.union(*(known_in_rust[kind] for kind in flattened[name]))
        # Hosts and accelerators are of one type in Rust.
        fields -= {"accelerator"} if name == "HostReport" else set()
        known = getattr(_types, name, None) or getattr(_analytic_types, name)
        assert fields == set(known.__annotations__), name
    assert len(known_in_rust) > 40
