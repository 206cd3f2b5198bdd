"""AXPY on an accelerator in three programming models, with kernels in Python and in C."""

import argparse

import numpy as np

import cxlab
import cxlab.opencl as cl
from cxlab.reproduce.cohet import programs


def simulate(model: str, source: object, elements: int) -> float:
    """Runs one program on Cohet's testbed and returns its simulated time in microseconds."""
    x, y = np.arange(elements, dtype=np.float64), np.ones(elements)
    run = getattr(programs, f"axpy_{model}")
    application = cl.Application(lambda host: run(host, source, 2.0, x, y))
    scenario = cxlab.Scenario.from_file("scenarios/cohet-fpga.toml")
    scenario = (
        scenario.set("accelerators[0].device.elements", 4)
        .set("hosts[0].os", {})
        .set("hosts[0].workload", {"kind": "external", "name": "axpy"})
    )
    result = cxlab.run(scenario, workloads={"axpy": application})
    np.testing.assert_array_equal(application.results[0], 2.0 * x + y)
    return result.report["window_ns"] / 1000


def main() -> None:
    """Prints a line for each model and language."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--elements", type=int, default=1024)
    elements = parser.parse_args().elements
    for language, source in (("Python", programs.PYTHON), ("C", programs.C)):
        for model in ("explicit", "unified", "cohet"):
            try:
                time = simulate(model, source, elements)
            except cl.Error as error:
                if error.code != "COMPILER_NOT_AVAILABLE":
                    raise
                print(f"{language}: {error}")
                break
            lines = programs.code_lines(getattr(programs, f"axpy_{model}"))
            print(f"{language:8}{model:10}{time:10,.1f} us  {lines} lines of the host program")


if __name__ == "__main__":
    main()
