"""The memories that the configurations beside this file can have, by the argument --memory."""

import argparse

from m5.objects import CxlabMemory, CxlabSystem, DDR5_4400_4x8, MemCtrl, SimpleMemory, System


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments that :func:`add_memory` reads."""
    parser.add_argument("--memory", choices=("cxl", "ddr5", "simple"), default="cxl")
    parser.add_argument("--scenario", default="adapters/gem5/scenario.toml")
    parser.add_argument("--host", default="gem5", help="the external host of the scenario")


def add_memory(system: System, arguments: argparse.Namespace, *, null: bool = False) -> None:
    """Puts the memory on the system's bus. A memory that is `null` stores no data."""
    memory_range = system.mem_ranges[0]
    common = {"range": memory_range, "null": null}
    if arguments.memory == "cxl":
        system.cxlab = CxlabSystem(scenario=arguments.scenario)
        system.memory = CxlabMemory(cxlab=system.cxlab, hosts=[arguments.host], **common)
    elif arguments.memory == "ddr5":
        system.memory = MemCtrl(dram=DDR5_4400_4x8(**common))
    else:
        system.memory = SimpleMemory(latency="200ns", **common)
    system.memory.port = system.membus.mem_side_ports
