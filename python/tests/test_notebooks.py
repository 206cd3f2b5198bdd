"""What notebooks show, and the notebooks of examples/."""

import json
from html.parser import HTMLParser
from pathlib import Path

import pytest

import cxlab

NOTEBOOKS = Path(__file__).parents[2] / "examples" / "notebooks"


class Balanced(HTMLParser):
    """A reader that fails where an element is not closed."""

    def __init__(self):
        super().__init__()
        self.open, self.tags = [], []

    def handle_starttag(self, tag, _attributes):
        self.open.append(tag)
        self.tags.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def shown(value):
    """HTML that a notebook shows of a value, and its tags."""
    text = value._repr_html_()
    reader = Balanced()
    reader.feed(text)
    assert reader.open == []
    return text, reader.tags


def test_a_result_shows_its_main_numbers_and_its_picture(pool):
    result = cxlab.run(pool.set("name", "<script>x</script>"))
    text, tags = shown(result)
    assert "script" not in tags
    assert "svg" in tags
    latency, half = result.report["latency_ns"]["mean"], result.report["ci95"]["latency_ns"]
    assert f"{latency:,.1f}{'' if half is None else f' ± {half:,.1f}'}<" in text
    assert result.report["bottleneck"]["text"] in text


def test_a_plan_shows_its_size_and_its_picture(pool):
    plan = cxlab.plan(pool)
    text, tags = shown(plan)
    assert "svg" in tags
    assert plan.hash[:12] in text
    assert f">{len(plan.describe()['links'])}<" in text


def test_the_widget_follows_what_it_shows(pool):
    widget = pytest.importorskip("cxlab.widget", exc_type=ImportError)
    plan = cxlab.plan(pool)
    shown = widget.Topology(plan)
    assert shown.report == ""
    first = shown.picture
    shown.selected = ["host0"]
    result = plan.run()
    shown.show(result)
    assert shown.picture != first
    assert shown.selected == ["host0"]
    assert json.loads(shown.report)["digest"] == result.report["digest"]
    with pytest.raises(ValueError, match="found no picture"):
        shown.show(cxlab.Result(result.json))


@pytest.mark.slow
@pytest.mark.parametrize("path", sorted(NOTEBOOKS.glob("*.ipynb")), ids=lambda path: path.stem)
def test_a_notebook_runs(path, tmp_path):
    nbformat = pytest.importorskip("nbformat")
    nbclient = pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    notebook = nbformat.read(path, as_version=4)
    assert all(not cell.get("outputs") for cell in notebook.cells)
    nbclient.NotebookClient(
        notebook, timeout=600, kernel_name="python3", resources={"metadata": {"path": tmp_path}}
    ).execute()
    assert any(cell.get("outputs") for cell in notebook.cells)


def test_there_are_notebooks():
    assert len(list(NOTEBOOKS.glob("*.ipynb"))) == 3
