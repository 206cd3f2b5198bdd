"""A program in gem5's system-call emulation, with caches, on cxlab's memory or one of gem5's own.

build/X86/gem5.opt adapters/gem5/program.py --memory cxl ./program ARGUMENT...
"""

import argparse

import m5
from cores import add_argument, add_core
from m5.objects import (
    AddrRange,
    Process,
    Root,
    SEWorkload,
    SrcClockDomain,
    System,
    SystemXBar,
    VoltageDomain,
)
from memories import add_arguments, add_memory

parser = argparse.ArgumentParser()
add_arguments(parser)
add_argument(parser)
parser.add_argument("program")
parser.add_argument("arguments", nargs=argparse.REMAINDER)
arguments = parser.parse_args()

system = System(
    membus=SystemXBar(),
    mem_ranges=[AddrRange("1GiB")],
    clk_domain=SrcClockDomain(clock="3GHz", voltage_domain=VoltageDomain()),
    mem_mode="timing",
)
add_core(system, arguments.cpu, system.membus)
system.system_port = system.membus.cpu_side_ports

add_memory(system, arguments)

system.workload = SEWorkload.init_compatible(arguments.program)
system.cpu.workload = Process(cmd=[arguments.program, *arguments.arguments])
system.cpu.createThreads()

root = Root(full_system=False, system=system)
m5.instantiate()
event = m5.simulate()
print(f"{event.getCause()} at {m5.curTick()} ps")
raise SystemExit(event.getCode())
