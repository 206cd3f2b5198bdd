"""Measured hardware: tables, sources, and presets."""

import pandas as pd
import pytest

from cxlab import Scenario
from cxlab.reproduce import Settings, docs
from cxlab.reproduce.hardware import FIGURES, blade, mess, rows, transfer


@pytest.fixture
def settings(tmp_path):
    return Settings(out=tmp_path, cache=False)


@pytest.mark.parametrize("name", ["vistara", "cachelib"])
def test_the_shipped_table_is_what_runs_give(settings, root, name):
    [figure] = [one for one in rows.FIGURES if one.name == name]
    shipped = pd.read_csv(root / f"figures/hardware/{name}.csv")
    found = figure.collect(settings)
    assert list(found.simulated.map("{:.6g}".format)) == list(
        shipped.simulated.map("{:.6g}".format)
    )


def test_every_row_has_one_source_and_presets_that_exist():
    points = [
        *rows._vistara(),
        *rows._cachelib(),
        *rows._cxl_dmsim(),
        *rows._hosts(),
        *rows._others(),
    ]
    for point in points:
        scenario = point.system.scenario(point.row, point.changes)
        scenario.check()
    for figure in (
        rows._vistara(),
        rows._cachelib(),
        rows._cxl_dmsim(),
        rows._hosts(),
        rows._others(),
    ):
        names = [point.row for point in figure]
        assert len(names) == len(set(names))


def test_data_are_whole():
    table = blade._data()
    assert len(table) == 156
    assert set(table.groupby(["pattern", "access_bytes"]).size()) == {13}
    curves = mess._data()
    knees = curves.part == "knee"
    assert knees.sum() == 6
    curves = curves[~knees]
    assert len(curves) == 5 * 45
    assert set(curves.groupby("read_percent").size()) == {5}
    saturated = curves[curves.part == "saturated"].set_index("read_percent")
    for row in curves[curves.part != "saturated"].to_dict("records"):
        peak = saturated.loc[row["read_percent"]]
        assert row["gb_per_s"] < 0.81 * peak.gb_per_s
        assert row["latency_ns"] < peak.latency_ns


def test_lines_in_flight_follow_littles_law():
    assert blade._lines(64.0, write=False) == pytest.approx(blade.READ_NS)
    assert blade._lines(3.45, write=True) == pytest.approx(3.45 * 346 / 64)


def test_a_preset_is_never_compared_with_its_own_device(root):
    table = pd.read_csv(root / "figures/hardware/transfer.csv")
    assert (table.preset != table.device).all()
    assert {claim.kind.name for claim in transfer.FIGURE.claims(table)} == {"shown"}


def test_shares_count_both_signs_and_their_ends():
    row = {"figure": "one", "kind": "predicted", "verdict": "pass"}
    off = ("-5.0 %", "+5.0 %", "+5.1 %", "-20.0 %")
    ledger = {"hardware": [{**row, "off": one} for one in off]}
    text = docs.fill("<!-- ledger: hardware shares -->\n<!-- /ledger -->", ledger)
    assert "| one | predicted | 4 | 50 % | 75 % | 100 % | -20 % |" in text


def test_the_page_names_misses_and_shares(root):
    ledger = docs.collect(root)
    text = docs.fill("<!-- ledger: hardware shares -->\n<!-- /ledger -->", ledger)
    last = text.splitlines()[-2].split(" | ")
    judged = [row for row in ledger["hardware"] if row["verdict"] in ("pass", "MISS")]
    assert int(last[2]) == len(judged)
    hardware = [row for row in judged if row["kind"] == "predicted" and row["figure"] != "mess"]
    assert f"| all but mess | predicted | {len(hardware)} |" in text
    # The README has these shares.
    rows = [line.split(" | ") for line in text.splitlines() if "| all but mess" in line]
    (_, _, count, *within, _), (_, _, rest, *without, _) = rows
    readme = " ".join((root / "README.md").read_text().split())
    five, ten, twenty = within
    assert f"Of {count} published" in readme
    assert f"{five} are within 5 %, {ten} within 10 % and {twenty} within 20 %" in readme
    assert f"Without the {int(count) - int(rest)} of one device" in readme
    five, ten, twenty = (one.removesuffix(" %") for one in without)
    assert f"these are {five}, {ten} and {twenty} %" in readme
    text = docs.fill("<!-- ledger: hardware misses -->\n<!-- /ledger -->", ledger)
    missed = [row for row in judged if row["verdict"] == "MISS"]
    assert text.count("**missed**") == len(missed) > 0


def test_a_preset_takes_keys_beside_it():
    table = {
        "name": "one",
        "fabric": {"topology": {"kind": "direct"}},
        "hosts": [{"name": "h", "issue": {"preset": "zen5"}, "workload": {"kind": "stream"}}],
        "devices": [{"name": "d", "preset": "cachelib", "link": {"lanes": 4}}],
    }
    assert [figure.name for figure in FIGURES][-1] == "summary"
    Scenario.from_dict(table).check()
    wrong = Scenario.from_dict(table).set("devices[0].preset", "cachlib")
    with pytest.raises(ValueError, match="did you mean"):
        wrong.check()
