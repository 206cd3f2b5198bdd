"""The process in which a scenario of the page is read and run.

``python -m cxlab._serve.worker FOLDER MEMORY`` reads one task, a line of JSON, and answers by lines
of JSON. It can read files below FOLDER alone, has MEMORY bytes of address space, and runs no
plug-in: whatever a scenario asks for ends with this process.
"""

from __future__ import annotations

import json
import resource
import sys
from pathlib import Path
from typing import Any

from cxlab import _native

#: The scenario's name in messages.
NAME = "scenario.toml"


def tell(what: dict[str, Any]) -> None:
    """Writes a line to the server."""
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


def plan_of(task: dict[str, Any], folder: Path) -> _native.Plan:
    """The plan of a task's scenario."""
    return _native.Plan(NAME, task["text"], task.get("set", []), str(folder), {}, {})


def check(task: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Mistakes, or notes."""
    try:
        plan = plan_of(task, folder)
    except _native.ScenarioError as error:
        return {"mistakes": error.diagnostics, "notes": []}
    notes = [
        {"path": path, "line": line, "column": 1, "level": "warning", "message": message}
        for path, line, message in plan.notes()
    ]
    return {"mistakes": [], "notes": notes}


def run(task: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Runs a scenario, and writes its results into the folder of the run."""
    import numpy as np

    from cxlab import _files
    from cxlab._slowest import slowest

    # From here on an interrupt is answered.
    tell({"begun": True})
    out = Path(task["out"])
    plan = plan_of(task, folder)

    def progress(completed: int, expected: int | None, simulated_ns: float) -> None:
        fraction = min(1.0, completed / expected) if expected else None
        tell(
            {
                "progress": {
                    "completed": completed,
                    "expected": expected,
                    "simulated_ns": simulated_ns,
                    "fraction": fraction,
                }
            }
        )

    state = str(out / "run.state")
    restore = state if task.get("restore") else None
    checkpoint = (state, "30 s wall") if task.get("checkpoint") else None
    done = plan.run(task.get("seed"), task.get("threads"), progress, True, checkpoint, restore)
    report = json.loads(done.report)
    columns = done.columns or []
    log = {name: np.frombuffer(data, dtype=kind) for name, kind, data in columns}
    result = {
        "report": report,
        "summary": done.table,
        "picture": done.svg,
        "slowest": slowest(log, report)[0],
    }
    _files.write_text(out / "report.json", done.report)
    _files.write_text(out / "topology.svg", done.svg)
    _files.write_text(out / "result.json", json.dumps(result))
    return {"partial": report["partial"], "digest": report["digest"], "seed": report["seed"]}


CALLS = {
    "check": check,
    "draw": lambda task, folder: plan_of(task, folder).svg(),
    "run": run,
}


def main(folder: Path, memory: int) -> None:
    """Answers one task."""
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    _native.confine(folder)
    task = json.loads(sys.stdin.readline())
    try:
        tell({"ok": CALLS[task["call"]](task, folder)})
    except _native.ScenarioError as error:
        tell({"failure": {"mistakes": error.diagnostics, "text": str(error)}})
    except MemoryError:
        tell({"failure": {"error": f"the run needs more than {memory >> 20} MiB of memory"}})
    except KeyboardInterrupt:
        tell({"stopped": True})
    except Exception as error:
        tell({"failure": {"error": f"{type(error).__name__}: {error}"}})


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
