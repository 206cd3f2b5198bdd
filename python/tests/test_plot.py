import pytest
from matplotlib import pyplot

import cxlab
from cxlab import plot


@pytest.fixture(autouse=True)
def figures():
    yield
    pyplot.close("all")


@pytest.fixture
def result(pool):
    return cxlab.run(pool)


def test_topology_has_every_name_and_a_line_for_every_link(pool, result):
    axes = plot.topology(cxlab.plan(pool), result)
    names = {text.get_text() for text in axes.texts}
    assert {"host0", "mem1", "leaf0", "spine1"} <= names
    assert len(axes.collections[0].get_segments()) == len(result.report["links"]) // 2
    busiest = max(link["utilization"] for link in result.report["links"])
    assert max(axes.collections[0].get_linewidths()) == pytest.approx(1.2 + 3.0 * busiest)
    axes.figure.canvas.draw()


def test_a_plan_alone_is_drawn(pool):
    plot.topology(cxlab.plan(pool)).figure.canvas.draw()
    assert cxlab.plan(pool).svg.startswith("<svg")


def test_a_large_system_is_drawn_as_groups(pool):
    large = pool.set("hosts[0].count", 40).set("devices[0].count", 40)
    large = large.set("fabric.topology", cxlab.topology("torus"))
    result = cxlab.run(large)
    system = cxlab.plan(large).describe()
    axes = plot.topology(cxlab.plan(large), result)
    names = {text.get_text().split("\n")[0] for text in axes.texts}
    assert names == {group["name"] for group in system["groups"]}
    assert len(names) < len(system["nodes"]) == 80 + len(system["switches"])
    assert all(0 <= node["group"] < len(names) for node in system["nodes"])
    assert len(axes.collections[0].get_segments()) == len(system["wires"])
    shown = [number for wire in system["wires"] for number in wire["links"]]
    assert len(set(shown)) == len(shown) < len(system["links"])
    axes.figure.canvas.draw()


def test_the_histogram_adds_up_to_all_requests(result):
    axes = plot.latency_histogram(result)
    assert sum(bar.get_height() for bar in axes.patches) == pytest.approx(100)
    axes.figure.canvas.draw()


def test_stages_add_up_to_the_mean(result):
    axes = plot.stages([result, result], ["a", "b"])
    widths = sum(bar.get_width() for bar in axes.patches)
    assert widths == pytest.approx(2 * result.report["latency_ns"]["mean"])
    axes.figure.canvas.draw()


def test_time_series_and_sweep_are_drawn(pool, result):
    plot.time_series(result).figure.canvas.draw()
    frame = cxlab.sweep(pool, {"hosts[0].issue.outstanding": [8, 1], "seed": [1, 2]}, workers=1)
    axes = plot.sweep_lines(frame, "hosts[0].issue.outstanding", "bandwidth_gb_per_s", by="seed")
    assert len(axes.lines) == 2
    assert list(axes.lines[0].get_xdata()) == [1, 8]
    axes.figure.canvas.draw()
