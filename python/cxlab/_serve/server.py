"""The server of the page: its files, and the interface to runs."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from cxlab import _native
from cxlab._serve.runs import BusyError, Run, Runs

#: Longest text of a scenario, and most changes.
TEXT = 1 << 20
CHANGES = 100
MOST_SEED = 2**64 - 1
#: Files that are listed.
LISTED = 1000
#: What tells the page that there is a server.
MARK = '<meta name="cxlab-serve" content="1" />'


class WrongError(Exception):
    """A request that is none."""


async def _task(request: Request) -> dict[str, Any]:
    """What a request asks for, checked."""
    try:
        found = json.loads(await request.body())
    except (ValueError, RecursionError):
        raise WrongError("found no JSON") from None
    if not isinstance(found, dict):
        raise WrongError("found no table")
    known = {"text", "set", "seed", "threads", "checkpoint", "report"}
    if unknown := sorted(set(found) - known):
        raise WrongError(f"found {unknown[0]!r:.40}; allowed: {', '.join(sorted(known))}")
    text, changes = found.get("text"), found.get("set", [])
    if not isinstance(text, str) or len(text.encode("utf-8", "surrogatepass")) > TEXT:
        raise WrongError(f"text: allowed: a scenario of at most {TEXT} bytes")
    if not isinstance(changes, list) or len(changes) > CHANGES:
        raise WrongError(f"set: allowed: at most {CHANGES} changes")
    if not all(isinstance(one, str) and len(one) < 4096 for one in changes):
        raise WrongError("set: allowed: texts of less than 4096 characters")
    _whole(found, "seed", MOST_SEED)
    _whole(found, "threads", 256)
    if not isinstance(found.get("checkpoint", False), bool):
        raise WrongError("checkpoint: allowed: true or false")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise WrongError("text: found a half of a character") from None
    return found


def _whole(found: dict[str, Any], name: str, most: int) -> None:
    value = found.get(name)
    if value is not None and (type(value) is not int or not 0 <= value <= most):
        raise WrongError(f"{name}: allowed: a whole number from 0 to {most}")


class Site:
    """The routes of a folder."""

    def __init__(self, folder: Path, page: Path, runs: Runs) -> None:
        self.folder, self.runs = folder, runs
        index = (page / "index.html").read_text(encoding="utf-8")
        self.index = index.replace("<head>", f"<head>{MARK}", 1)
        self.app = Starlette(
            routes=[
                Route("/", self.home),
                Route("/index.html", self.home),
                Route("/api/schema", self.schema),
                Route("/api/files", self.files),
                Route("/api/check", self.check, methods=["POST"]),
                Route("/api/draw", self.draw, methods=["POST"]),
                Route("/api/runs", self.list),
                Route("/api/runs", self.start, methods=["POST"]),
                Route("/api/runs/{id}", self.one),
                Route("/api/runs/{id}/result", self.result),
                Route("/api/runs/{id}/scenario", self.scenario),
                Route("/api/runs/{id}/stop", self.stop, methods=["POST"]),
                Route("/api/runs/{id}/continue", self.resume, methods=["POST"]),
                Mount("/", StaticFiles(directory=page)),
            ],
            exception_handlers={WrongError: _wrong, BusyError: _busy},
            lifespan=self._living,
        )

    @contextlib.asynccontextmanager
    async def _living(self, _: Starlette) -> AsyncIterator[None]:
        worker = asyncio.create_task(self.runs.work())
        yield
        worker.cancel()
        await self.runs.close()

    def _run(self, request: Request) -> Run:
        run = self.runs.runs.get(request.path_params["id"])
        if run is None:
            raise WrongError("found no such run")
        return run

    async def home(self, _: Request) -> Response:
        """The page."""
        return Response(self.index, media_type="text/html")

    async def schema(self, _: Request) -> Response:
        """The JSON Schema of scenarios."""
        return Response(_native.schema(), media_type="application/json")

    async def files(self, _: Request) -> Response:
        """Names of the files of the folder, which a scenario may name."""
        return JSONResponse(await asyncio.to_thread(_listed, self.folder))

    async def check(self, request: Request) -> Response:
        """Mistakes and notes of a scenario."""
        task = await _task(request)
        return _told(await self.runs.ask({"call": "check", "text": task["text"]}))

    async def draw(self, request: Request) -> Response:
        """The picture of a scenario."""
        task = await _task(request)
        return _told(await self.runs.ask({"call": "draw", "text": task["text"]}))

    async def list(self, _: Request) -> Response:
        """All runs, newest first."""
        runs = sorted(self.runs.runs.values(), key=lambda run: -run.asked)
        return JSONResponse([run.public() for run in runs])

    async def start(self, request: Request) -> Response:
        """Puts a run into the queue."""
        task = await _task(request)
        name = next((line for line in task["text"].splitlines() if line.startswith("name")), "")
        run = self.runs.add(task, name.partition("=")[2].strip(' "')[:80] or "scenario")
        return JSONResponse(run.public(), 202)

    async def one(self, request: Request) -> Response:
        """The state of a run."""
        return JSONResponse(self._run(request).public())

    async def result(self, request: Request) -> Response:
        """What a run has measured."""
        path = self.runs.out(self._run(request).id) / "result.json"
        if not path.is_file():
            raise WrongError("the run has no result")
        return FileResponse(path, media_type="application/json")

    async def scenario(self, request: Request) -> Response:
        """The text that a run was made from."""
        path = self.runs.out(self._run(request).id) / "scenario.toml"
        return FileResponse(path, media_type="text/plain")

    async def stop(self, request: Request) -> Response:
        """Ends a run."""
        run = self._run(request)
        self.runs.stop(run)
        return JSONResponse(run.public())

    async def resume(self, request: Request) -> Response:
        """Continues a run from its last checkpoint."""
        run = self._run(request)
        if (
            run.state in ("waiting", "running")
            or not (self.runs.out(run.id) / "run.state").is_file()
        ):
            raise WrongError("the run goes on, or has no checkpoint")
        self.runs.resume(run)
        return JSONResponse(run.public(), 202)


def _told(answer: dict[str, Any]) -> Response:
    return JSONResponse(answer, 200 if "ok" in answer else 422)


async def _wrong(_: Request, error: Exception) -> Response:
    return JSONResponse({"failure": {"error": str(error)}}, 400)


async def _busy(_: Request, __: Exception) -> Response:
    return JSONResponse({"failure": {"error": "too much waits already; try again later"}}, 503)


def _listed(folder: Path) -> list[str]:
    """Names of files up to three folders deep, without hidden ones."""
    found: list[str] = []
    for path, folders, files in os.walk(folder):
        depth = len(Path(path).relative_to(folder).parts)
        folders[:] = (
            sorted(name for name in folders if not name.startswith(".")) if depth < 3 else []
        )
        for name in sorted(files):
            if not name.startswith("."):
                found.append((Path(path) / name).relative_to(folder).as_posix())
            if len(found) >= LISTED:
                return found
    return found
