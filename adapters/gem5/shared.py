"""Two cores of gem5, each with caches of its own, on one coherent memory of cxlab.

build/X86/gem5.opt adapters/gem5/shared.py --scenario adapters/gem5/shared.toml ./counters 1000
"""

import argparse

import m5
from caches import cache
from m5.objects import (
    X86O3CPU,
    AddrRange,
    CoherentXBar,
    CxlabMemory,
    CxlabSystem,
    L2XBar,
    Process,
    Root,
    SEWorkload,
    SrcClockDomain,
    SubSystem,
    System,
    VoltageDomain,
    X86TimingSimpleCPU,
)

parser = argparse.ArgumentParser()
parser.add_argument("--scenario", default="adapters/gem5/shared.toml")
parser.add_argument("--cpu", choices=("o3", "timing"), default="timing")
parser.add_argument("program")
parser.add_argument("arguments", nargs=argparse.REMAINDER)
arguments = parser.parse_args()

CORES = 2
system = System(
    mem_ranges=[AddrRange("1GiB")],
    clk_domain=SrcClockDomain(clock="3GHz", voltage_domain=VoltageDomain()),
    mem_mode="timing",
)
system.workload = SEWorkload.init_compatible(arguments.program)
system.multi_thread = False
process = Process(cmd=[arguments.program, *arguments.arguments])
system.cxlab = CxlabSystem(scenario=arguments.scenario)
system.memory = CxlabMemory(
    range=system.mem_ranges[0],
    cxlab=system.cxlab,
    hosts=[f"core{core}" for core in range(CORES)],
    coherent=True,
)


class Host(SubSystem):
    """A core with private caches, on a bus of its own. The CXL system is the point of coherence."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.cpu = {"o3": X86O3CPU, "timing": X86TimingSimpleCPU}[arguments.cpu](cpu_id=number)
        self.bus = CoherentXBar(
            width=64,
            frontend_latency=3,
            forward_latency=4,
            response_latency=2,
            snoop_response_latency=4,
            point_of_coherency=False,
        )
        self.cpu.createInterruptController()
        self.cpu.interrupts[0].pio = self.bus.mem_side_ports
        self.cpu.interrupts[0].int_requestor = self.bus.cpu_side_ports
        self.cpu.interrupts[0].int_responder = self.bus.mem_side_ports
        self.cpu.icache = cache("32KiB", 8, 2, 4)
        self.cpu.dcache = cache("32KiB", 8, 4, 16)
        self.l2bus = L2XBar()
        self.l2 = cache("256KiB", 8, 14, 32)
        for first in (self.cpu.icache, self.cpu.dcache):
            first.mem_side = self.l2bus.cpu_side_ports
        self.cpu.icache_port = self.cpu.icache.cpu_side
        self.cpu.dcache_port = self.cpu.dcache.cpu_side
        for walker in (self.cpu.mmu.itb.walker, self.cpu.mmu.dtb.walker):
            walker.port = self.l2bus.cpu_side_ports
        self.l2.cpu_side = self.l2bus.mem_side_ports
        self.l2.mem_side = self.bus.cpu_side_ports
        self.cpu.workload = process
        self.cpu.createThreads()


system.hosts = [Host(core) for core in range(CORES)]
for host in system.hosts:
    system.memory.port = host.bus.mem_side_ports
system.system_port = system.hosts[0].bus.cpu_side_ports

root = Root(full_system=False, system=system)
m5.instantiate()
event = m5.simulate()
print(f"{event.getCause()} at {m5.curTick()} ps")
raise SystemExit(event.getCode())
