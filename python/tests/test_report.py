import base64
import hashlib
import html
import json
import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

import cxlab
from cxlab import _native
from cxlab.page import script
from cxlab.report import page

ROOT = Path(__file__).parents[2]
BROWSER = (
    shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
)
CHROMIUM = [
    BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
    "--host-resolver-rules=MAP * ~NOTFOUND",
]  # fmt: skip
needs_browser = pytest.mark.skipif(BROWSER is None, reason="no chromium is installed")


class Tags(HTMLParser):
    def __init__(self):
        super().__init__()
        self.open, self.loads, self.text = [], [], []

    def handle_starttag(self, tag, attributes):
        if tag not in ("meta", "br", "link", "img", "input"):
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


def runs_in(text):
    """What the page has of its runs."""
    return json.loads(
        re.search(r'<script type="application/json" id="runs">(.*?)</script>', text)[1]
    )


def unpacked(value):
    """What page/packed.js makes of a value."""
    if isinstance(value, list):
        return [unpacked(inner) for inner in value]
    if not isinstance(value, dict):
        return value
    if set(value) != {"columns", "rows"}:
        return {key: unpacked(inner) for key, inner in value.items()}
    tables = []
    for row in value["rows"]:
        table = {}
        for path, inner in zip(value["columns"], row, strict=True):
            if inner is not None:
                place = table
                for key in path[:-1]:
                    place = place.setdefault(key, {})
                place[path[-1]] = unpacked(inner)
        tables.append(table)
    return tables


def present(value):
    """A value without the keys of tables that are null: the page leaves them out."""
    if isinstance(value, list):
        return [present(inner) for inner in value]
    if isinstance(value, dict):
        kept = {key: present(inner) for key, inner in value.items() if inner is not None}
        return {key: inner for key, inner in kept.items() if inner != {}}
    return value


def rounded(value):
    """A value whose numbers the page rounds to 12 digits."""
    if isinstance(value, list):
        return [rounded(inner) for inner in value]
    if isinstance(value, dict):
        return {key: rounded(inner) for key, inner in value.items()}
    return pytest.approx(value, rel=1e-11) if isinstance(value, float) else value


def shown(text, folder):
    """Text that a browser shows after it has run the page's script, and the tags of the page."""
    out = folder / "shown.html"
    out.write_text(text, encoding="utf-8")
    done = subprocess.run(
        [*CHROMIUM, f"--user-data-dir={folder / 'browser'}", "--dump-dom", out.as_uri()],
        capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip
    tags = Tags()
    tags.feed(re.sub(r"<(script|style)\b.*?</\1>", "", done.stdout, flags=re.DOTALL))
    return "\n".join(tags.text), tags


def test_the_page_is_whole_and_loads_nothing(folder):
    result = cxlab.Result.load(folder)
    text = page(result)
    tags = Tags()
    tags.feed(text)
    assert tags.open == []
    assert tags.loads == []
    assert "url(http" not in text
    assert "@import" not in text
    assert "<title>a &lt;b&gt; &amp; c - cxlab</title>" in text
    [run] = runs_in(text)
    assert present(unpacked(run["report"])) == rounded(present(result.report))
    assert run["picture"].startswith("<svg")
    assert run["measured"] == result.report["requests"]["completed"]
    slowest = unpacked(run["slowest"])
    assert len(slowest) == 100
    latencies = [request["latency_ps"] for request in slowest]
    assert latencies == sorted(latencies, reverse=True)
    assert latencies[0] == pytest.approx(result.report["latency_ns"]["max"] * 1e3)
    for request in slowest:
        assert sum(request["stages_ps"].values()) == request["latency_ps"]


def test_the_main_numbers_are_readable_without_javascript(folder):
    result = cxlab.Result.load(folder)
    text = result.json.replace('"partial": false', '"partial": true')
    plain = page(cxlab.Result(text)).split("<noscript>")[1].split("</noscript>")[0]
    report = result.report
    assert f"{report['latency_ns']['mean']:,.1f}" in plain
    assert f"{report['bandwidth_gb_per_s']['total']:,.2f}" in plain
    assert f"Bottleneck: {html.escape(report['bottleneck']['text'])}." in plain
    assert "Partial: the run was ended" in plain


def test_the_policy_of_the_page_allows_its_own_script_alone(folder):
    text = page(cxlab.Result.load(folder))
    code = re.search(r'<script type="module">(.*?)</script>', text, re.DOTALL)[1]
    digest = base64.b64encode(hashlib.sha256(code.encode()).digest()).decode()
    assert f"default-src 'none'; script-src 'sha256-{digest}';" in text
    assert text.count("<script") == 2


def test_no_two_modules_of_the_page_declare_the_same_name():
    code = script("report-page.js")
    assert not re.search(r"^(import|export)\b", code, re.MULTILINE)
    names = re.findall(
        r"^(?:async )?(?:function|class|const|let|var) (\w+|[{\[].*?[}\]])", code, re.MULTILINE
    )
    assert "reportParts" in names
    assert len(names) == len(set(names))


def test_a_page_of_a_thousand_links_is_below_two_megabytes(folder):
    result = cxlab.Result.load(folder)
    values = json.loads(result.json)
    link = {
        key: value + 0.123456789 if isinstance(value, float) else value
        for key, value in values["links"][0].items()
    }
    values["links"] = [
        {**link, "name": f"host{at}--leaf{at}", "direction": f"host{at}->leaf{at}"}
        for at in range(2000)
    ]
    large = cxlab.Result(json.dumps(values), svg=result.svg)
    text = page(large)
    assert len(unpacked(runs_in(text)[0]["report"]["links"])) == 2000
    assert len(text.encode()) < 2_000_000


def test_a_page_compares_a_run_with_others(folder, tmp_path):
    other = tmp_path / "other"
    cxlab.run(cxlab.Scenario.from_file(ROOT / "scenarios" / "direct.toml"), seed=2).save(other)
    out = tmp_path / "page.html"
    done = subprocess.run(
        [
            sys.executable, "-m", "cxlab", "report", str(folder), "--compare", str(other),
            "--out", str(out),
        ],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout == f"written: {out}\n"
    runs = runs_in(out.read_text(encoding="utf-8"))
    assert [run["name"] for run in runs] == [str(folder), str(other)]
    assert [run["report"]["seed"] for run in runs] == [1, 2]
    done = subprocess.run(
        [sys.executable, "-m", "cxlab", "report", str(folder), "--compare", str(tmp_path)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert f"{tmp_path}: has no report.json" in done.stderr


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


@needs_browser
def test_a_browser_shows_what_the_report_has(folder, tmp_path):
    result = cxlab.Result.load(folder)
    words, tags = shown(page(result, result, names=["one", "two"]), tmp_path)
    assert tags.loads == []
    report = result.report
    assert "a <b> & c" in words
    assert report["run"] in words
    assert report["bottleneck"]["text"] in words
    for name in ("Slowest requests", "Links, by direction", "Topology", "one and two"):
        assert name in words
    for part in (*report["hosts"], *report["devices"]):
        assert part["name"] in words
    assert all(link["direction"] in words for link in report["links"][:4])
    assert "Partial" not in words


@needs_browser
def test_programs_media_and_an_interruption_are_shown(tmp_path):
    scenario = cxlab.Scenario.from_file(ROOT / "scenarios" / "core-stream.toml")
    result = cxlab.run(scenario.set("hosts[0].workload.elements", 2048))
    text = result.json.replace('"partial": false', '"partial": true')
    words, _ = shown(page(cxlab.Result(text)), tmp_path)
    assert "Partial: the run was ended" in words
    assert "Slowest requests" not in words
    assert "Topology" not in words
    [host] = result.report["hosts"]
    names = [phase["name"] for phase in host["core"]["phases"]]
    assert names == ["init", "copy", "scale", "add", "triad"]
    for phase in host["core"]["phases"]:
        assert phase["name"] in words
        assert f"{phase['operations_per_second']:,.0f}" in words
    assert "cpu, its own memory" in words
    [device] = result.report["devices"]
    assert all(name.replace("_", " ") in words for name in list(device["medium"])[:6])


@needs_browser
def test_the_drawn_page_has_a_histogram_and_keeps_its_margin(folder, tmp_path):
    out = tmp_path / "page.html"
    out.write_text(page(cxlab.Result.load(folder)), encoding="utf-8")
    done = subprocess.run(
        [
            *CHROMIUM, f"--user-data-dir={tmp_path / 'browser'}", "--hide-scrollbars",
            "--window-size=1260,2400", f"--screenshot={tmp_path / 'page.png'}", out.as_uri(),
        ],
        capture_output=True,
        timeout=120,
        check=True,
    )  # fmt: skip
    from matplotlib import image

    picture = image.imread(tmp_path / "page.png")[..., :3]
    assert picture.shape[:2] == (2400, 1260), done.stderr
    # Bars of stages are on the left, and the histogram on the right.
    blue = abs(picture - [0.0, 0x72 / 255, 0xB2 / 255]).max(axis=2) < 0.02
    assert blue[:, :630].sum() > 1_000
    area = abs(picture - (1 - 0.55 * (1 - np.array([0.0, 0x72, 0xB2]) / [255, 255, 255])))
    assert (area.max(axis=2) < 0.02)[:, 630:].sum() > 1_000
    # Nothing is wider than the page, so its margin stays empty.
    margin = picture[:, 1245:1258]
    assert (abs(margin - margin[0, 0]) < 0.01).all()


def test_runs_of_descending_seeds_have_a_picture(pool):
    reports = [cxlab.run(pool, seed=seed).json for seed in (5, 3)]
    numbers, picture = _native.seeds_report(reports)
    assert [run["seed"] for run in json.loads(numbers)["runs"]] == [5, 3]
    assert picture.startswith("<svg")
