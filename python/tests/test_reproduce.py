import gzip
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

import cxlab
from cxlab.reproduce import (
    PAPERS,
    Claim,
    Figure,
    Settings,
    claim_rows,
    cohet,
    cxl_clustersim,
    cxl_ssd_sim,
    cxlmemsim,
    hardware,
    reproduce,
)
from cxlab.reproduce.cxl_ssd_sim import common as ssd
from cxlab.reproduce.cxl_ssd_sim import fig3, fig4, fig5, viper
from cxlab.reproduce.esf import FIGURES, common, fig10, fig12, fig14, fig15, fig20, section4
from cxlab.reproduce.ledger import PREDICTED, printed


def test_scenarios_of_figures_are_those_in_the_scenarios_folder(root):
    shipped = [path for path in common.DATA.glob("*.toml") if path.name != "esf-fig18.toml"]
    assert len(shipped) == 7
    for path in shipped:
        assert path.read_bytes() == (root / "scenarios" / path.name).read_bytes()


def test_the_scenario_of_traces_runs_with_any_trace(tmp_path):
    (tmp_path / "a.trace").write_text("0x40 R 0\n0x1080 W 0\n")
    path = {"hosts[0].workload.path": str(tmp_path / "a.trace")}
    result = cxlab.run(common.scenario("esf-fig18", path))
    assert result.report["requests"]["completed"] == 16


PACKAGES = {
    "cohet": cohet.FIGURES,
    "cxl-clustersim": cxl_clustersim.FIGURES,
    "esf": FIGURES,
    "cxl-ssd-sim": cxl_ssd_sim.FIGURES,
    "cxlmemsim": cxlmemsim.FIGURES,
}
SHIPPED = [(paper, figure) for paper, figures in PACKAGES.items() for figure in figures]


def test_papers_are_those_with_figures():
    papers = {name: figures() for name, figures in PAPERS.items()}
    assert papers == PACKAGES | {"hardware": hardware.FIGURES}


@pytest.mark.parametrize("paper", PACKAGES)
def test_every_figure_has_a_name_and_a_module(paper, root):
    names = [figure.name for figure in PACKAGES[paper]]
    assert names == sorted(names, key=lambda name: (not name.startswith("fig"), name))
    package = root / "python" / "cxlab" / "reproduce" / paper.replace("-", "_")
    for name in names:
        assert (package / f"{name.replace('-', '_')}.py").is_file()
        assert (root / "figures" / paper / f"{name}.csv").is_file()
        assert (root / "figures" / paper / f"{name}.png").is_file()


@pytest.mark.parametrize(
    ("paper", "figure"), SHIPPED, ids=[f"{paper}-{figure.name}" for paper, figure in SHIPPED]
)
def test_claims_and_drawing_follow_from_the_shipped_table(paper, figure, root):
    """The shipped tables give the shipped claims."""
    from matplotlib import pyplot

    folder = root / "figures" / paper
    table = pd.read_csv(folder / f"{figure.name}.csv", keep_default_na=False)
    shipped = pd.read_csv(folder / "claims.csv", keep_default_na=False, dtype=str)
    shipped = shipped[shipped.figure == figure.name]
    assert claim_rows(figure, folder) == shipped.to_dict("records")
    pyplot.close(figure.draw(table))


def test_a_figure_is_made_whole_and_claims_of_others_are_kept(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(fig12, "TOPOLOGIES", {"ring": "#009E73", "chain": "#0072B2"})
    never = Claim("never", 1.0, 5.0, PREDICTED, printed(0.1), section="1", quote="one")
    monkeypatch.setattr(fig12, "claims", lambda _: [never])
    figure = Figure("fig12", "", fig12.collect, fig12.claims, fig12.draw)
    (tmp_path / "claims.csv").write_text(
        "figure,claim,paper,cxlab,verdict\nfig12,old,1,1,pass\nfig10,x,1,1,pass\n"
    )
    reproduce([figure], Settings(out=tmp_path, workers=1))
    table = pd.read_csv(tmp_path / "fig12.csv")
    chain = table[table.topology == "chain"]
    assert chain.hops.max() == 9
    assert (tmp_path / "fig12.png").stat().st_size > 10_000
    assert (tmp_path / "fig12.svg").read_text().startswith("<?xml")
    claims = pd.read_csv(tmp_path / "claims.csv")
    # Figures keep their order.
    assert list(claims.claim) == ["never", "x"]
    assert list(claims.verdict) == ["MISS", "pass"]
    assert "1 missed" in capsys.readouterr().out


def test_figures_without_their_traces_are_left_out_and_named(tmp_path, capsys):
    figures = [figure for figure in FIGURES if figure.traces]
    assert {figure.name for figure in figures} == {"fig18", "fig19", "fig20"}
    reproduce(figures, Settings(out=tmp_path / "a"))
    assert "fig18: needs the paper's traces" in capsys.readouterr().err
    reproduce(figures, Settings(out=tmp_path / "a", traces=tmp_path))
    assert "BTree.trace.gz" in capsys.readouterr().err


def test_any_traces_do_and_are_not_judged(tmp_path, capsys):
    """Uses the trace in the tree, which cxlab captured, instead of the paper's."""
    shipped = Path(__file__).parents[2] / "traces"
    [figure] = [figure for figure in FIGURES if figure.name == "fig20"]
    made = reproduce([figure], Settings(out=tmp_path, traces=shipped, workers=1))
    assert set(made.verdict) == {"shown"}
    assert set(made.of) == {"traces are not the paper's"}
    assert "left out" not in capsys.readouterr().err
    assert set(pd.read_csv(tmp_path / "fig20.csv").trace) == {"sqlite-index"}


def test_mix_degree_of_traces_follows_the_closed_form(tmp_path):
    """In a trace of two mixes, the bandwidth of windows follows 64 / ((1 - m) 64 + m h)."""
    rows = (
        f"{line * 64:#x} {'W' if (line // 4000) % 2 and line % 4 == 0 else 'R'} 0\n"
        for line in range(16_000)
    )
    with gzip.open(tmp_path / "mixes.trace.gz", "wt") as file:
        file.writelines(rows)
    table = fig20.collect(Settings(out=tmp_path, traces=tmp_path, workers=1))
    windows = table[(table.part == "b") & (table.header_bytes == 0)]
    for row in windows.to_dict("records"):
        assert row["value"] == pytest.approx(1 / (1 - row["mix_degree"]), rel=0.05)
    assert windows.mix_degree.max() > 0.2


def test_victim_policies_differ_in_a_short_run_as_in_a_long_one(tmp_path, monkeypatch):
    small = {
        "measure.warmup_requests": 40_000,
        "measure.requests": 20_000,
        "hosts[0].workload.footprint": "80 KiB",
        "hosts[0].issue.cache.size": "16 KiB",
        "hosts[0].issue.cache.ways": 256,
        "devices[0].coherence.filter.lines": 64,
    }
    monkeypatch.setattr(fig14, "SETTINGS", {fig14.PAPER: small})
    table = fig14.collect(Settings(out=tmp_path, workers=1)).set_index("policy")
    assert table.invalidations["lru"] == pytest.approx(1, abs=0.02)
    assert table.invalidations["lifo"] == pytest.approx(0.55, abs=0.05)
    assert table.invalidations["mru"] == pytest.approx(table.invalidations["lifo"], rel=0.05)
    assert table.latency["lifo"] < 0.7
    assert table.bandwidth["lifo"] > 1.03


def test_eager_snoops_of_two_lines_shorten_waiting(tmp_path, monkeypatch):
    short = {"measure.warmup_requests": 30_000, "measure.requests": 30_000}
    lazy = short | {"devices[0].coherence.filter.eager": False}
    settings = {fig15.PAPER: ("black", short), "lazy": ("black", lazy)}
    monkeypatch.setattr(fig15, "SETTINGS", settings)
    monkeypatch.setattr(fig15, "LENGTHS", (1, 2))
    table = fig15.collect(Settings(out=tmp_path, workers=1))
    table = table[table.length == 2].set_index("setting")
    assert table.snoops_per_access[fig15.PAPER] < 0.6 * table.invalidations_per_access[fig15.PAPER]
    assert table.waiting[fig15.PAPER] < 0.9
    assert table.waiting["lazy"] > 1


def test_the_expander_takes_what_its_parts_take(tmp_path, monkeypatch):
    monkeypatch.setattr(section4, "LOADED", ("1:0",))
    monkeypatch.setattr(section4, "INTERVALS", (100, 1))
    table = section4.collect(Settings(out=tmp_path, workers=1))
    expander = table[table.part == "expander"].set_index("mix")
    idle = expander.loc["idle"]
    # Table III: process and cache 22, ports 2 x 50, wires 2, flits 3.2, controller 40.
    assert idle.mean_ns - idle.media_ns == pytest.approx(22 + 100 + 2 + 3.2 + 40, abs=0.5)
    assert 40 < idle.media_ns < 50
    assert expander.media_ns["four, 1:0"] > idle.media_ns
    loaded = table[table.part == "loaded"].mean_ns.to_list()
    assert loaded[1] > 2 * loaded[0]


def test_the_command_lists_figures():
    done = subprocess.run(
        [sys.executable, "-m", "cxlab", "reproduce", "esf", "--list"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert [line.split()[0] for line in done.stdout.splitlines()] == [f.name for f in FIGURES]


def test_laws_of_bandwidth():
    assert [common.law(kind, 8) for kind in common.TOPOLOGIES] == [1, 1, 2, 4, 8]
    table = pd.DataFrame([{"topology": "ring", "scale": 4, "ports": 2.3, "law": 2.0}])
    assert [claim.verdict for claim in fig10.claims(table)] == ["MISS"]


def test_the_scenario_of_cxl_ssd_sim_is_that_in_the_scenarios_folder(root):
    shipped = (ssd.DATA / "cxl-ssd-sim.toml").read_bytes()
    assert shipped == (root / "scenarios" / "cxl-ssd-sim.toml").read_bytes()


def test_random_reads_take_what_the_parts_take(tmp_path, monkeypatch):
    """Latency with a footprint whose loads nearly all miss, and in a cache that holds it."""
    small = {**fig4.WORKLOAD, "footprint": "2 MiB", "reads": 2_000}
    monkeypatch.setattr(fig4, "WORKLOAD", small)
    table = fig4.collect(Settings(out=tmp_path, workers=1)).set_index("device").load_latency_ns
    # The network's 50 ns for at least three of four loads, and a few for flits.
    misses = 0.75
    assert misses * 50 < table[ssd.CXL_DRAM] - table[ssd.DRAM] < 58
    assert misses * (50 + 50) < table[ssd.CACHED] < 11 + 50 + 50 + 8
    # As in gem5, a burst ends 17.5 ns after its bank is ready.
    assert misses * (150 + 17.5 + 20) < table[ssd.PMEM] < 11 + 150 + 17.5 + 20 + 8
    # Two levels of cells: 40 and 65 us.
    assert misses * 40_000 < table[ssd.UNCACHED] < 80_000


def test_every_device_keeps_its_records_and_more_work_hides_its_distance(tmp_path, monkeypatch):
    monkeypatch.setattr(viper, "COUNT", 200)
    monkeypatch.setattr(viper, "WORK", (100, 4000))
    monkeypatch.setattr(viper, "SIZES", (16,))
    table = fig5.collect(Settings(out=tmp_path, workers=1))
    assert (table.qps > 0).all()
    assert set(table.operation) == set(viper.OPERATIONS)
    losses = [
        1
        - viper.ratio(
            viper.qps(table, ssd.CXL_DRAM, cycles=cycles), viper.qps(table, ssd.DRAM, cycles=cycles)
        )
        for cycles in viper.WORK
    ]
    assert losses[0] > 0.25
    assert 0 < losses[1] < 0.15


def test_bandwidths_are_of_four_operations_of_five_devices(tmp_path, monkeypatch):
    small = {**fig3.WORKLOAD, "elements": 40_000}
    monkeypatch.setattr(fig3, "WORKLOAD", small)
    table = fig3.collect(Settings(out=tmp_path, workers=1))
    assert len(table) == len(ssd.MISSES) * len(ssd.DEVICES) * len(fig3.OPERATIONS)
    by = table[table.misses == 4].groupby("device").bandwidth_gb_per_s.mean()
    assert by[ssd.DRAM] > by[ssd.CXL_DRAM] > by[ssd.UNCACHED]
