"""`cxlab serve` as visitors use it, and as hostile ones would."""

import asyncio
import contextlib
import http.client
import json
import os
import random
import socket
import threading
import time
from pathlib import Path
from urllib.parse import quote

import pytest
import uvicorn

import cxlab
from cxlab._serve import guard, runs
from cxlab._serve.command import main
from cxlab._serve.runs import Runs
from cxlab._serve.server import Site

TOKEN = "a-token-of-the-tests"
SMALL = """
name = "small"
measure = { requests = 3000 }
fabric = { topology = { kind = "ring", switches = 3 } }
hosts = [{ name = "host", workload = { kind = "uniform" } }]
devices = [{ name = "mem" }]
"""
LONG = SMALL.replace("3000", "2_000_000_000")
TRACE = SMALL.replace('kind = "uniform"', 'kind = "trace", path = "PATH"')


class Server:
    """A server in a thread, and a client of it."""

    def __init__(self, folder, page):
        self.folder = folder
        listening = socket.socket()
        listening.bind(("127.0.0.1", 0))
        self.port = listening.getsockname()[1]
        self.name = f"127.0.0.1:{self.port}"
        self.runs = Runs(folder, 4 << 30, 60)
        app = guard.Guard(Site(folder, page, self.runs).app, frozenset({self.name}), TOKEN)
        config = uvicorn.Config(
            app, http=guard.Protocol, ws="none", log_level="critical", limit_concurrency=128,
            timeout_graceful_shutdown=2, h11_max_incomplete_event_size=16 << 10,
        )  # fmt: skip
        self.server = uvicorn.Server(config)
        run = self.server.serve(sockets=[listening])
        self.thread = threading.Thread(target=asyncio.run, args=(run,))
        self.thread.start()
        while not self.server.started:
            time.sleep(0.01)

    def close(self):
        self.server.should_exit = True
        self.thread.join()

    def ask(self, method, path, body=None, **headers):
        """Status and bytes of an answer."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            data = json.dumps(body).encode() if isinstance(body, dict) else body
            known = {"Authorization": f"Bearer {TOKEN}", "Host": self.name}
            known |= {name.replace("_", "-"): value for name, value in headers.items()}
            known = {name: value for name, value in known.items() if value is not None}
            connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
            for name, value in known.items():
                connection.putheader(name, value)
            if data is not None and "Content-Length" not in known:
                connection.putheader("Content-Length", str(len(data)))
            connection.endheaders(data)
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def json(self, method, path, body=None):
        status, data = self.ask(method, path, body)
        return status, json.loads(data)

    def wait(self, number, *states):
        for _ in range(1200):
            _, run = self.json("GET", f"/api/runs/{number}")
            if run["state"] in states:
                return run
            assert run["state"] != "failed", run
            time.sleep(0.05)
        raise AssertionError(run)


@pytest.fixture
def served(tmp_path):
    page, folder = tmp_path / "page", tmp_path / "served"
    (page / "assets").mkdir(parents=True)
    folder.mkdir()
    (page / "index.html").write_text("<html><head></head><body>the page</body></html>")
    (page / "assets" / "page.js").write_text("export {};")
    (tmp_path / "secret.csv").write_text("address,op\n0x40,read\n")
    server = Server(folder, page)
    yield server
    server.close()


def test_a_run_has_the_result_of_the_library(served):
    status, page = served.ask("GET", "/")
    assert status == 200
    assert b'<meta name="cxlab-serve"' in page
    status, run = served.json("POST", "/api/runs", {"text": SMALL, "seed": 7, "threads": 1})
    assert (status, run["name"]) == (202, "small")
    run = served.wait(run["id"], "done")
    status, result = served.json("GET", f"/api/runs/{run['id']}/result")
    expected = cxlab.run(cxlab.Scenario.from_toml(SMALL), seed=7)
    assert result["report"]["digest"] == run["digest"] == expected.report["digest"]
    assert len(result["slowest"]) == 100
    for one in result["slowest"]:
        assert sum(one["stages_ps"].values()) == one["latency_ps"]
    assert served.ask("GET", f"/api/runs/{run['id']}/scenario")[1].decode() == SMALL
    assert [one["id"] for one in served.json("GET", "/api/runs")[1]] == [run["id"]]


def test_mistakes_are_located_and_pictures_drawn(served):
    status, found = served.json(
        "POST", "/api/check", {"text": SMALL.replace("switches", "switchs")}
    )
    assert status == 200
    [mistake] = found["ok"]["mistakes"]
    assert mistake["line"] == 4
    assert "did you mean `switches`?" in mistake["help"]
    assert served.json("POST", "/api/check", {"text": SMALL})[1]["ok"]["mistakes"] == []
    assert served.json("POST", "/api/draw", {"text": SMALL})[1]["ok"].startswith("<svg")
    assert served.json("POST", "/api/draw", {"text": "x"})[0] == 422


def test_a_stopped_run_keeps_what_it_measured_and_a_killed_one_goes_on(served):
    _, run = served.json("POST", "/api/runs", {"text": LONG, "checkpoint": True})
    while not served.wait(run["id"], "running")["progress"]:
        time.sleep(0.05)
    served.json("POST", f"/api/runs/{run['id']}/stop", {})
    assert served.wait(run["id"], "stopped")["digest"]
    assert served.json("GET", f"/api/runs/{run['id']}/result")[1]["report"]["partial"]
    # Its checkpoint is where it was stopped.
    assert served.json("POST", f"/api/runs/{run['id']}/continue", {})[0] == 202
    served.wait(run["id"], "running")
    served.json("POST", f"/api/runs/{run['id']}/stop", {})
    served.wait(run["id"], "stopped")


def test_what_ran_when_the_server_ended_says_so(served):
    _, run = served.json("POST", "/api/runs", {"text": LONG})
    served.wait(run["id"], "running")
    served.close()
    again = Runs(served.folder, 4 << 30, 60)
    assert again.runs[run["id"]].state == "ended with the server"


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Authorization": None}, 401),
        ({"Authorization": "Bearer wrong"}, 401),
        ({"Host": "evil.example"}, 421),
        ({"Host": None}, 400),
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Sec_Fetch_Site": "cross-site"}, 403),
    ],
)
def test_requests_of_others_are_refused(served, headers, status):
    assert served.ask("GET", "/api/runs", **headers)[0] == status
    try:
        assert served.ask("POST", "/api/runs", {"text": SMALL}, **headers)[0] == status
    except ConnectionResetError:
        # The body of what is no request stays unread: the connection may be reset before the
        # answer is read.
        assert status == 400
    assert served.json("GET", "/api/runs") == (200, [])


ESCAPES = ["../secret.csv", "/etc/passwd", "link.csv", "deep/../../secret.csv", "./.././secret.csv"]


@pytest.mark.parametrize("path", ESCAPES)
def test_no_scenario_reads_outside_of_the_folder(served, tmp_path, path):
    (served.folder / "deep").mkdir()
    (served.folder / "link.csv").symlink_to(tmp_path / "secret.csv")
    text = TRACE.replace("PATH", path)
    _, found = served.json("POST", "/api/check", {"text": text})
    assert "outside of the folder" in json.dumps(found["ok"]["mistakes"])
    _, run = served.json("POST", "/api/runs", {"text": text})
    assert "outside of the folder" in json.dumps(served.wait(run["id"], "failed")["failure"])


def test_a_trace_of_the_folder_is_read(served):
    (served.folder / "own.csv").write_text("address,op\n0x40,read\n0x80,write\n")
    assert "own.csv" in served.json("GET", "/api/files")[1]
    status, found = served.json("POST", "/api/check", {"text": TRACE.replace("PATH", "own.csv")})
    assert (status, found["ok"]["mistakes"]) == (200, [])


@pytest.mark.parametrize(
    "path",
    [
        "/../secret.csv", "/assets/../../secret.csv", "/%2e%2e/secret.csv", "/..%2fsecret.csv",
        "//etc/passwd", "/assets/%00", "/api/runs/../../../secret.csv/result",
        "/api/runs/..%2f..%2f..%2fsecret.csv/scenario", "/" + "a" * 10_000,
    ],
)  # fmt: skip
def test_no_path_leads_outside_of_the_page(served, path):
    status, data = served.ask("GET", path)
    assert status in (400, 404, 405)
    assert b"0x40" not in data
    assert b"root:" not in data


def test_a_scenario_that_asks_for_too_much_ends_alone(served):
    huge = SMALL.replace('name = "host"', 'name = "host", count = 60000')
    huge = huge.replace('name = "mem"', 'name = "mem", count = 60000')
    served.runs.memory = 600 << 20
    _, run = served.json("POST", "/api/runs", {"text": huge})
    assert served.wait(run["id"], "failed")["failure"]
    assert served.json("POST", "/api/check", {"text": SMALL})[0] == 200


def test_a_run_that_takes_too_long_is_ended(served):
    served.runs.longest_s = 1.0
    _, run = served.json("POST", "/api/runs", {"text": LONG})
    assert "longer than 1 s" in served.wait(run["id"], "failed")["failure"]["error"]


def test_the_queue_has_an_end(served):
    answers = [served.json("POST", "/api/runs", {"text": LONG}) for _ in range(runs.QUEUE + 3)]
    assert [status for status, _ in answers].count(503) >= 1
    for status, run in answers:
        if status == 202:
            served.json("POST", f"/api/runs/{run['id']}/stop", {})
    served.wait(answers[0][1]["id"], "stopped", "failed")


def test_slow_and_silent_connections_are_closed(served, monkeypatch):
    monkeypatch.setattr(guard, "FIRST_S", 0.5)
    monkeypatch.setattr(guard, "BODY_S", 0.5)
    head = f"POST /api/check HTTP/1.1\r\nHost: {served.name}\r\nAuthorization: Bearer {TOKEN}\r\n"
    for sent in (b"", b"GET / HT", head.encode() + b"Content-Length: 100\r\n\r\nhalf"):
        with socket.create_connection(("127.0.0.1", served.port), timeout=20) as connection:
            connection.sendall(sent)
            answer = connection.recv(4096)
            assert answer == b"" or b" 413 " in answer.split(b"\r\n")[0]
    assert served.json("GET", "/api/runs")[0] == 200


def hostile(rng, server):
    """One request as nobody means it; the answer does not matter."""
    paths = [
        "/",
        "/api/runs",
        "/api/check",
        "/api/draw",
        "/api/schema",
        "/api/files",
        "/assets/page.js",
        "/api/runs/0123456789abcdef/result",
        "/../secret.csv",
        "/%2e%2e/%2e%2e/etc/passwd",
    ]
    path = rng.choice(paths)
    if rng.random() < 0.3:
        path += quote("".join(chr(rng.randrange(1, 0x2FF)) for _ in range(rng.randrange(40))))
    kind = rng.randrange(6)
    if kind == 0:
        body = rng.randbytes(rng.randrange(4000))
    elif kind == 1:
        text = list(SMALL)
        for _ in range(rng.randrange(1, 30)):
            text[rng.randrange(len(text))] = chr(rng.randrange(1, 0x3000))
        body = json.dumps({"text": "".join(text)}).encode()
    elif kind == 2:
        body = json.dumps({"text": TRACE.replace("PATH", rng.choice(ESCAPES))}).encode()
    elif kind == 3:
        wrong = [None, -1, 1e308, [], {}, "x" * 5000, True, 2**70]
        keys = ["text", "set", "seed", "threads", "checkpoint", "out", "call", "restore"]
        body = json.dumps({rng.choice(keys): rng.choice(wrong) for _ in range(3)}).encode()
    elif kind == 4:
        body = b"[" * rng.randrange(100_000)
    else:
        body = None
    method = rng.choice(["GET", "POST", "PUT", "DELETE", "OPTIONS", "TRACE", "get"])
    headers = {}
    if rng.random() < 0.2:
        headers["Origin"] = rng.choice(["http://evil.example", "null", f"http://{server.name}"])
    if rng.random() < 0.2:
        headers["Authorization"] = rng.choice(["", "Bearer", "Basic eDp5", f"Bearer {TOKEN} "])
    if rng.random() < 0.1:
        headers["Content_Length"] = str(rng.choice([0, 5, 10**9]))
    if rng.random() < 0.1:
        # A connection that is broken off in the middle.
        with (
            contextlib.suppress(OSError),
            socket.create_connection(("127.0.0.1", server.port)) as broken,
        ):
            broken.sendall(rng.randbytes(rng.randrange(2000)))
        return
    with contextlib.suppress(OSError, http.client.HTTPException, ValueError):
        status, data = server.ask(method, path, body, **headers)
        assert status != 500, (method, path, body)
        assert b"0x40" not in data or b"secret" not in data


def tree(folder):
    """All files below a folder with their times."""
    return {path: path.stat().st_mtime_ns for path in sorted(folder.rglob("*")) if path.is_file()}


def others(folder, own):
    return {path: when for path, when in tree(folder).items() if own not in path.parents}


def storm(served, tmp_path, count):
    outside = others(tmp_path, served.folder)
    errors = []

    def visitor(seed):
        rng = random.Random(seed)
        try:
            for _ in range(count // 8):
                hostile(rng, served)
        except AssertionError as error:
            errors.append(error)

    threads = [threading.Thread(target=visitor, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors, errors[0]
    for run in served.json("GET", "/api/runs")[1]:
        served.ask("POST", f"/api/runs/{run['id']}/stop", {})
    _, run = served.json("POST", "/api/runs", {"text": SMALL})
    assert served.wait(run["id"], "done")["digest"]
    assert others(tmp_path, served.folder) == outside
    kept = served.folder / runs.KEPT
    assert all(kept in path.parents for path in tree(served.folder))


def test_it_works_after_a_storm(served, tmp_path, monkeypatch):
    monkeypatch.setattr(guard, "BODY_S", 0.3)
    storm(served, tmp_path, 400)


@pytest.mark.slow
def test_it_works_after_ten_thousand_hostile_requests(served, tmp_path, monkeypatch):
    monkeypatch.setattr(guard, "BODY_S", 0.3)
    storm(served, tmp_path, 10_000)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--port", "99999"], "--port: found 99999; allowed: 0 to 65535"),
        (["--host", "evil"], "--host: found evil; allowed: an address"),
        (["--memory", "1"], "--memory: found 1; allowed: 512"),
        (["--longest", "0"], "--longest: found 0.0; allowed: 1"),
        (["nowhere"], "nowhere: is no folder; allowed: a folder"),
    ],
)
def test_mistakes_of_the_command(capsys, arguments, said):
    assert main(arguments) == 2
    assert said in capsys.readouterr().err


def test_the_page_is_where_the_command_looks(root):
    from cxlab._serve.command import PAGES

    assert PAGES[1] == Path(root, "lab", "dist")
    assert os.path.commonpath([PAGES[0], root]) == str(root)
