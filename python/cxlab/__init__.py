"""cxlab: a simulator of CXL systems.

>>> import cxlab
>>> scenario = cxlab.Scenario.from_file("pool.toml").set("fabric.routing", "adaptive")
>>> result = cxlab.run(scenario, seed=7)
>>> print(result.table())

See docs/guide/python.md for all of it.
"""

from cxlab import op, plot
from cxlab._calibrate import CalibrateError, Calibration, calibrate
from cxlab._kernel import Core, Element, Kernel, Machine, Memory, Region
from cxlab._mlc import Mlc, MlcError, MlcInterrupted, MlcStoppedError, mlc
from cxlab._native import VERSION as __version__
from cxlab._native import ScenarioError
from cxlab._result import Result, ResultError
from cxlab._run import (
    Batches,
    Interrupted,
    Plan,
    PluginError,
    Requester,
    import_trace,
    plan,
    run,
    trust_plugins,
)
from cxlab._scenario import (
    Scenario,
    catalog,
    device,
    host,
    memory,
    schema,
    topology,
    trace,
    workload,
)
from cxlab._sweep import Seeds, SweepError, run_many, run_seeds, sweep
from cxlab._types import Note, Report

__all__ = [
    "Batches",
    "CalibrateError",
    "Calibration",
    "Core",
    "Element",
    "Interrupted",
    "Kernel",
    "Machine",
    "Memory",
    "Mlc",
    "MlcError",
    "MlcInterrupted",
    "MlcStoppedError",
    "Note",
    "Plan",
    "PluginError",
    "Region",
    "Report",
    "Requester",
    "Result",
    "ResultError",
    "Scenario",
    "ScenarioError",
    "Seeds",
    "SweepError",
    "__version__",
    "calibrate",
    "catalog",
    "device",
    "host",
    "import_trace",
    "memory",
    "mlc",
    "op",
    "plan",
    "plot",
    "run",
    "run_many",
    "run_seeds",
    "schema",
    "sweep",
    "topology",
    "trace",
    "trust_plugins",
    "workload",
]
