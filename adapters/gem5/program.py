"""A program in gem5's system-call emulation, with caches, on cxlab's memory or one of gem5's own.

build/X86/gem5.opt adapters/gem5/program.py --memory cxl ./program ARGUMENT...
"""

import argparse

import m5
from caches import cache
from m5.objects import (
    X86O3CPU,
    AddrRange,
    L2XBar,
    Process,
    Root,
    SEWorkload,
    SrcClockDomain,
    System,
    SystemXBar,
    VoltageDomain,
    X86TimingSimpleCPU,
)
from memories import add_arguments, add_memory

parser = argparse.ArgumentParser()
add_arguments(parser)
parser.add_argument("--cpu", choices=("o3", "timing"), default="timing")
parser.add_argument("program")
parser.add_argument("arguments", nargs=argparse.REMAINDER)
arguments = parser.parse_args()

system = System(
    membus=SystemXBar(),
    mem_ranges=[AddrRange("1GiB")],
    clk_domain=SrcClockDomain(clock="3GHz", voltage_domain=VoltageDomain()),
    mem_mode="timing",
)
system.cpu = {"o3": X86O3CPU, "timing": X86TimingSimpleCPU}[arguments.cpu]()
system.cpu.createInterruptController()
system.cpu.interrupts[0].pio = system.membus.mem_side_ports
system.cpu.interrupts[0].int_requestor = system.membus.cpu_side_ports
system.cpu.interrupts[0].int_responder = system.membus.mem_side_ports
system.cpu.icache = cache("32KiB", 8, 2, 4)
system.cpu.dcache = cache("32KiB", 8, 4, 16)
system.l2bus = L2XBar()
system.l2 = cache("256KiB", 8, 14, 32)
for first in (system.cpu.icache, system.cpu.dcache):
    first.mem_side = system.l2bus.cpu_side_ports
system.cpu.icache_port = system.cpu.icache.cpu_side
system.cpu.dcache_port = system.cpu.dcache.cpu_side
for walker in (system.cpu.mmu.itb.walker, system.cpu.mmu.dtb.walker):
    walker.port = system.l2bus.cpu_side_ports
system.l2.cpu_side = system.l2bus.mem_side_ports
system.l2.mem_side = system.membus.cpu_side_ports
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
