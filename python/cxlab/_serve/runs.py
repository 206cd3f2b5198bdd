"""Tasks of the page: each in a process of its own, runs one after the other, and what they left."""

from __future__ import annotations

import asyncio
import contextlib
import json
import secrets
import signal
import sys
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from cxlab import _files

#: Folder of runs, below the folder that is served.
KEPT = ".cxlab-serve"
#: Most runs that wait.
QUEUE = 16
#: Seconds that a scenario may take to be read and drawn.
QUICK_S = 20
#: Checks and pictures at a time.
AT_ONCE = 2
#: Longest line of a worker, which has the mistakes of a scenario.
LINE = 64 << 20


class BusyError(Exception):
    """Too much waits already."""


@dataclass
class Run:
    """A run of the page, as its list shows it."""

    id: str
    name: str
    asked: float
    state: str = "waiting"
    seed: int | None = None
    digest: str | None = None
    progress: dict[str, Any] | None = None
    failure: dict[str, Any] | None = None
    task: dict[str, Any] = field(default_factory=dict)

    def public(self) -> dict[str, Any]:
        """What the page is told."""
        known = asdict(self)
        del known["task"]
        return known


class Runs:
    """The runs of a folder."""

    def __init__(self, folder: Path, memory: int, longest_s: float) -> None:
        self.folder, self.memory, self.longest_s = folder, memory, longest_s
        self.kept = folder / KEPT
        self.kept.mkdir(exist_ok=True)
        self.runs: dict[str, Run] = {}
        self.queue: asyncio.Queue[str] = asyncio.Queue(QUEUE)
        #: The process of the run that goes on, and whether it has begun: before that, an
        #: interrupt would end it without an answer.
        self.process: tuple[str, asyncio.subprocess.Process] | None = None
        self.begun = self.unwanted = False
        self.quick = asyncio.Semaphore(AT_ONCE)
        self.waiting = 0
        self._load()

    def _load(self) -> None:
        """Finds the runs of earlier times. What was running then is not any more."""
        for path in sorted(self.kept.glob("*/run.json"), key=lambda path: path.stat().st_mtime):
            with contextlib.suppress(ValueError, TypeError, OSError):
                run = Run(**json.loads(path.read_text(encoding="utf-8")))
                if run.state in ("waiting", "running"):
                    run.state = "ended with the server"
                self.runs[run.id] = run

    def _keep(self, run: Run) -> None:
        _files.write_text(self.out(run.id) / "run.json", json.dumps(asdict(run)))

    def out(self, number: str) -> Path:
        """The folder of a run."""
        return self.kept / number

    async def _start(self, task: dict[str, Any]) -> asyncio.subprocess.Process:
        worker = (sys.executable, "-m", "cxlab._serve.worker", str(self.folder), str(self.memory))
        process = await asyncio.create_subprocess_exec(
            *worker,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            limit=LINE,
            start_new_session=True,
        )
        assert process.stdin is not None
        process.stdin.write(json.dumps(task).encode() + b"\n")
        process.stdin.close()
        return process

    async def ask(self, task: dict[str, Any]) -> dict[str, Any]:
        """The answer to a task that is no run: ``ok`` or ``failure``."""
        if self.waiting >= QUEUE:
            raise BusyError
        self.waiting += 1
        try:
            async with self.quick:
                process = await self._start(task)
                assert process.stdout is not None
                try:
                    line = await asyncio.wait_for(process.stdout.readline(), QUICK_S)
                except (TimeoutError, ValueError):
                    line = b""
                finally:
                    if process.returncode is None:
                        process.kill()
                    await process.wait()
        finally:
            self.waiting -= 1
        return _answer(
            line, f"the scenario needs more than {QUICK_S} s or too much memory to be read"
        )

    def add(self, task: dict[str, Any], name: str) -> Run:
        """Puts a run into the queue."""
        if self.queue.full():
            raise BusyError
        run = Run(id=secrets.token_hex(8), name=name, asked=time.time(), task=task)
        out = self.out(run.id)
        out.mkdir()
        _files.write_text(out / "scenario.toml", task["text"])
        self.runs[run.id] = run
        self._keep(run)
        self.queue.put_nowait(run.id)
        return run

    def resume(self, run: Run) -> None:
        """Continues a run from its last checkpoint."""
        if self.queue.full():
            raise BusyError
        run.task["restore"] = True
        run.state, run.failure = "waiting", None
        self._keep(run)
        self.queue.put_nowait(run.id)

    def stop(self, run: Run) -> None:
        """Ends a run, which keeps what it has measured."""
        if run.state == "waiting":
            run.state = "stopped"
            self._keep(run)
        elif self.process and self.process[0] == run.id:
            self.unwanted = True
            self._interrupt()

    def _interrupt(self) -> None:
        if self.process and self.unwanted and self.begun and self.process[1].returncode is None:
            self.process[1].send_signal(signal.SIGINT)

    async def work(self) -> None:
        """Takes runs from the queue, one after the other, until the server ends."""
        while True:
            run = self.runs[await self.queue.get()]
            if run.state == "waiting":
                await self._run(run)

    async def _run(self, run: Run) -> None:
        run.state = "running"
        self._keep(run)
        task = {**run.task, "call": "run", "out": str(self.out(run.id))}
        self.begun = self.unwanted = False
        process = await self._start(task)
        self.process = (run.id, process)
        answer: dict[str, Any] = {"failure": {"error": "the run has ended without a word"}}
        assert process.stdout is not None
        try:
            async with asyncio.timeout(self.longest_s):
                while line := await process.stdout.readline():
                    found = _answer(line, "the run wrote what is no answer")
                    if "begun" in found:
                        self.begun = True
                        self._interrupt()
                    elif "progress" in found:
                        run.progress = found["progress"]
                    else:
                        answer = found
        except (TimeoutError, ValueError):
            answer = {"failure": {"error": f"the run took longer than {self.longest_s:.0f} s"}}
        finally:
            if process.returncode is None:
                process.kill()
            await process.wait()
            self.process = None
        if "ok" in answer:
            run.state = "stopped" if answer["ok"]["partial"] else "done"
            run.digest, run.seed = answer["ok"]["digest"], answer["ok"]["seed"]
        elif "stopped" in answer:
            run.state = "stopped"
        else:
            run.state, run.failure = "failed", answer["failure"]
        self._keep(run)

    async def close(self) -> None:
        """Ends what runs."""
        if self.process and self.process[1].returncode is None:
            self.process[1].kill()
            await self.process[1].wait()


def _answer(line: bytes, otherwise: str) -> dict[str, Any]:
    try:
        found = json.loads(line)
    except ValueError:
        found = None
    return found if isinstance(found, dict) else {"failure": {"error": otherwise}}
