import json
import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

import cxlab
from cxlab import _native
from cxlab.report import page

ROOT = Path(__file__).parents[2]
BROWSER = (
    shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
)


class Tags(HTMLParser):
    def __init__(self):
        super().__init__()
        self.open, self.loads, self.text = [], [], []

    def handle_starttag(self, tag, attributes):
        if tag not in ("meta", "br", "link", "img"):
            self.open.append(tag)
        for name, value in attributes:
            # Names of namespaces are no addresses. Within the page, references begin with "#".
            if name in ("src", "href", "xlink:href", "data") and not value.startswith("#"):
                self.loads.append(value)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


@pytest.fixture
def folder(pool, tmp_path):
    cxlab.run(pool.set("name", "a <b> & c"), requests=True).save(tmp_path / "run")
    return tmp_path / "run"


def test_the_page_is_whole_and_loads_nothing(folder):
    text = page(cxlab.Result.load(folder))
    tags = Tags()
    tags.feed(text)
    assert tags.open == []
    assert tags.loads == []
    assert not re.search(r"url\((?!#)", text)
    assert "@import" not in text
    assert "<script" not in text
    words = "".join(tags.text)
    report = cxlab.Result.load(folder).report
    assert "a <b> & c" in words
    assert f"{report['latency_ns']['mean']:,.1f} ns" in words
    assert all(host["name"] in words for host in report["hosts"])
    assert "The slowest requests" in words
    assert f"Bottleneck: {report['bottleneck']['text']}." in words
    assert "Where requests wait" in words


def test_a_group_of_the_picture_opens_its_busiest_links(pool, tmp_path):
    large = pool.set("hosts[0].count", 40).set("devices[0].count", 40)
    large = large.set("fabric.topology", cxlab.topology("ring", switches=32))
    result = cxlab.run(large)
    assert "prefers-color-scheme" in result.svg
    result.save(tmp_path / "run")
    loaded = cxlab.Result.load(tmp_path / "run")
    assert loaded.svg == result.svg
    text = page(result)
    assert text == page(loaded)
    assert "prefers-color-scheme" not in text
    tags = Tags()
    tags.feed(text)
    assert tags.open == []
    assert tags.loads == []
    groups = cxlab.plan(large).describe()["groups"]
    assert len(groups) == text.count('<a href="#group-') == text.count('<details id="group-')
    first = text.split('<details id="group-0">')[1].split("</details>")[0]
    members = {"sw0", "sw1", *(host["name"] for host in result.report["hosts"])}
    rows = re.findall(r"<td>([^<]*)-&gt;([^<]*)</td>", first)
    assert 0 < len(rows) <= 12
    assert all(not members.isdisjoint(row) for row in rows)


def test_reports_with_the_names_of_version_1_are_read(folder):
    now = cxlab.Result.load(folder)
    old = re.sub(r'\n  "format": 2,', "", now.json).replace('_gb_per_s":', '_gbps":')
    assert "format" not in json.loads(old)
    assert json.loads(old)["bandwidth_gbps"]["total"] > 0
    (folder / "report.json").write_text(old)
    read = cxlab.Result.load(folder)
    assert read.report == now.report
    read.save(folder)
    assert cxlab.Result.load(folder).report == now.report


def test_the_command_writes_the_page(folder, tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "cxlab", "report", str(folder)], capture_output=True, text=True,
        check=True,
    )  # fmt: skip
    assert done.stdout == f"written: {folder / 'report.html'}\n"
    assert (folder / "report.html").is_file()
    done = subprocess.run(
        [sys.executable, "-m", "cxlab", "report", str(tmp_path)], capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert "has no report.json" in done.stderr


def test_a_folder_without_picture_and_log_and_a_partial_run_have_a_page(pool):
    result = cxlab.run(pool)
    text = result.json.replace('"partial": false', '"partial": true')
    page_text = page(cxlab.Result(text))
    assert "This run was interrupted" in page_text
    assert "The slowest requests" not in page_text


def test_programs_and_media_are_shown():
    scenario = cxlab.Scenario.from_file(ROOT / "scenarios" / "core-stream.toml")
    result = cxlab.run(scenario.set("hosts[0].workload.elements", 2048))
    tags = Tags()
    tags.feed(page(result))
    assert tags.open == []
    words = "".join(tags.text)
    assert "Programs" in words
    [host] = result.report["hosts"]
    assert [phase["name"] for phase in host["core"]["phases"]] == [
        "init", "copy", "scale", "add", "triad",
    ]  # fmt: skip
    assert all(f"{phase['time_ns'] / 1e3:,.3f}" in words for phase in host["core"]["phases"])
    assert "cpu, its own memory" in words
    [device] = result.report["devices"]
    for name, value in device["medium"].items():
        assert name.replace("_", " ") in words
        assert f"{value:,.6g}" in words


@pytest.mark.skipif(BROWSER is None, reason="no chromium is installed")
def test_a_browser_shows_every_section(folder, tmp_path):
    out = tmp_path / "page.html"
    out.write_text(page(cxlab.Result.load(folder)), encoding="utf-8")
    done = subprocess.run(
        [
            BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
            "--host-resolver-rules=MAP * ~NOTFOUND", f"--user-data-dir={tmp_path / 'browser'}",
            "--hide-scrollbars", "--window-size=1240,2400",
            f"--screenshot={tmp_path / 'page.png'}", out.as_uri(),
        ],
        capture_output=True,
        timeout=120,
        check=True,
    )  # fmt: skip
    from matplotlib import image

    picture = image.imread(tmp_path / "page.png")[..., :3]
    assert picture.shape[:2] == (2400, 1240), done.stderr
    # The bars of the histogram and of the time series are side by side, in their blue.
    blue = abs(picture - [0.0, 0x72 / 255, 0xB2 / 255]).max(axis=2) < 0.02
    assert blue[:, :620].sum() > 1_000
    assert blue[:, 620:].sum() > 5_000
    # Nothing is wider than the page, so its margin stays empty.
    margin = picture[:, 1200:1230]
    assert (abs(margin - margin[0, 0]) < 0.01).all()


def test_runs_of_descending_seeds_have_a_picture(pool):
    reports = [cxlab.run(pool, seed=seed).json for seed in (5, 3)]
    numbers, picture = _native.seeds_report(reports)
    assert [run["seed"] for run in json.loads(numbers)["runs"]] == [5, 3]
    assert picture.startswith("<svg")
