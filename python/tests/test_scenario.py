import html
import subprocess
import sys

import pytest

import cxlab
from cxlab._scenario import inline, parse_values


def test_a_scenario_holds_what_was_written_and_nothing_else(pool):
    values = pool.to_dict()
    assert set(values) == {"name", "fabric", "hosts", "devices", "measure"}
    assert values["hosts"] == [
        {"name": "host", "count": 2, "workload": {"kind": "uniform", "read_ratio": 0.7}}
    ]


def test_toml_of_a_scenario_makes_the_same_scenario_and_plan(pool, tmp_path):
    pool.save(tmp_path / "pool.toml")
    again = cxlab.Scenario.from_file(tmp_path / "pool.toml")
    assert again == pool
    assert cxlab.plan(again).hash == cxlab.plan(pool).hash
    assert cxlab.plan(tmp_path / "pool.toml").hash == cxlab.plan(pool).hash
    assert cxlab.Scenario.from_dict(pool.to_dict()) == pool


def test_set_returns_a_scenario_with_one_value_changed(pool):
    assert repr(pool) == "<cxlab.Scenario 'pool'>"
    assert repr(pool.set("seed", 2)) == "<cxlab.Scenario 'pool', with 1 set>"
    other = pool.set("hosts[0].count", 4).set("fabric.routing", "adaptive")
    assert other.to_dict()["hosts"][0]["count"] == 4
    assert other.to_dict()["fabric"]["routing"] == "adaptive"
    assert pool.to_dict()["hosts"][0]["count"] == 2
    assert "routing" not in pool.to_dict()["fabric"]
    assert cxlab.Scenario.from_toml(other.to_toml()) == other


def test_set_beyond_an_array_is_refused_and_changes_nothing(pool):
    before = pool.to_dict()
    with pytest.raises(cxlab.ScenarioError, match=r"hosts\[5\]"):
        pool.set("hosts[5].count", 4)
    assert pool.to_dict() == before


@pytest.mark.parametrize(
    "value",
    [True, 3, -2.5, 1e300, 'a "quoted" \\ text\n\x7f µ', [1, [2]], {"a-b c": {"d": [True]}}],
)
def test_every_value_survives_being_set(pool, value):
    assert pool.set("description", value).to_dict()["description"] == value
    assert parse_values(f"[{inline(value)}]") == [value]


def test_numpy_numbers_are_numbers(pool):
    import numpy

    changed = {"hosts[0].count": numpy.int64(3), "hosts[0].workload.read_ratio": numpy.float32(1)}
    assert pool.update(changed).to_dict()["hosts"][0]["count"] == 3


def test_mistakes_are_all_reported_with_the_text_of_the_command(tmp_path):
    text = (
        'name = "x"\n[fabric]\ntopology = { kind = "rng" }\nroutin = "age"\n'
        '[[hosts]]\nname = "h"\ncount = 0\n'
    )
    path = tmp_path / "bad.toml"
    path.write_text(text)
    with pytest.raises(cxlab.ScenarioError) as caught:
        cxlab.Scenario.from_file(path).check()
    done = subprocess.run(
        [sys.executable, "-m", "cxlab", "check", str(path)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert str(caught.value) == done.stderr.rstrip()
    assert 'did you mean "ring"?' in str(caught.value)
    lines = {mistake["path"]: mistake["line"] for mistake in caught.value.diagnostics}
    assert lines["fabric.topology.kind"] == 3
    assert len(lines) >= 3
    assert isinstance(caught.value, ValueError)


def test_text_that_is_no_toml_is_located():
    with pytest.raises(cxlab.ScenarioError, match=r"here\.toml:2"):
        cxlab.Scenario.from_toml('name = "x"\nfabric = [', name="here.toml").check()


def test_a_change_with_a_mistake_is_told_as_a_change(pool, tmp_path):
    pool.save(tmp_path / "pool.toml")
    changed = cxlab.Scenario.from_file(tmp_path / "pool.toml").set("fabric.link.lane", 8)
    with pytest.raises(cxlab.ScenarioError, match=r"--> set fabric\.link\.lane=8") as error:
        changed.check()
    assert error.value.diagnostics[0]["file"] == "set fabric.link.lane=8"


def test_catalogs_are_those_of_the_simulator():
    assert {"ring", "torus", "dragonfly"} <= set(cxlab.catalog("topologies"))
    assert {"uniform", "trace", "external"} <= set(cxlab.catalog("workloads"))
    assert "fixed" in cxlab.catalog("media")
    with pytest.raises(ValueError, match="allowed: topologies, routings"):
        cxlab.catalog("toplogy")
    assert cxlab.catalog("migration-policies").keys() == {"none", "tpp"}
    assert "esf" in cxlab.catalog("link-presets")
    assert "hosts" in cxlab.schema()["properties"]


def test_an_entry_that_no_catalog_has_is_refused_where_it_is_named():
    with pytest.raises(ValueError, match="found 'fixd' in media; allowed: fixed, dram"):
        cxlab.memory("fixd")
    with pytest.raises(ValueError, match="found 'stream' in topologies; allowed: direct"):
        cxlab.topology("stream")
    with pytest.raises(ValueError, match="found 'ring' in workloads; allowed: "):
        cxlab.workload("ring")


def test_values_are_read_as_users_type_them():
    assert parse_values("1,2,4") == [1, 2, 4]
    assert parse_values("ring,spine-leaf") == ["ring", "spine-leaf"]
    assert parse_values('["25 ns", "50 ns"]') == ["25 ns", "50 ns"]
    assert parse_values("0.5") == [0.5]
    assert parse_values('{ kind = "ring" }, { kind = "chain" }') == [
        {"kind": "ring"},
        {"kind": "chain"},
    ]


def test_relative_paths_start_from_the_folder_of_the_scenario(root):
    scenario = cxlab.Scenario.from_file(root / "scenarios" / "trace.toml")
    assert cxlab.plan(scenario).describe()["scenario"]["name"] == "trace"


def test_a_plan_prints_as_the_command_shows_it(root):
    file = root / "scenarios" / "spine-leaf-16.toml"
    command = [sys.executable, "-m", "cxlab", "plan", str(file)]
    shown = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    plan = cxlab.plan(file)
    assert str(plan) == shown.stdout
    assert repr(plan).startswith("Plan(")


def test_notes_begin_with_their_path_wherever_they_are_text(pool):
    made = cxlab.run(pool, progress=False)
    note = next(note for note in made.notes if note.path)
    assert str(note) == f"{note.path}: {note.message}"
    assert str(note) in html.unescape(made._repr_html_())
    frame = cxlab.sweep(pool, [{}], cache=False, progress=False)
    assert str(note) in frame["notes"][0]


def test_regions_events_and_accelerators_are_added_in_order(pool):
    made = pool.regions("own", capacity="1 GiB", hosts=["host0"])
    made = made.events("device-removed", at="1 us", device="mem0")
    made = made.accelerators("engine", host="host0").failures(timeout="1 ms")
    values = made.to_dict()
    assert values["regions"] == [{"name": "own", "capacity": "1 GiB", "hosts": ["host0"]}]
    assert values["events"] == [{"kind": "device-removed", "at": "1 us", "device": "mem0"}]
    assert values["failures"] == {"timeout": "1 ms"}
    assert values["accelerators"] == [{"name": "engine", "host": "host0"}]
    again = made.events("device-removed", at="2 us", device="mem1").to_dict()["events"]
    assert [event["at"] for event in again] == ["1 us", "2 us"]
