"""Two cores of gem5, each with caches of its own, on one coherent memory of cxlab.

build/X86/gem5.opt adapters/gem5/shared.py --scenario adapters/gem5/shared.toml ./counters 1000
"""

import argparse

import m5
from cores import add_argument, add_core
from m5.objects import (
    AddrRange,
    CoherentXBar,
    CxlabMemory,
    CxlabSystem,
    Process,
    Root,
    SEWorkload,
    SrcClockDomain,
    SubSystem,
    System,
    VoltageDomain,
)

parser = argparse.ArgumentParser()
parser.add_argument("--scenario", default="adapters/gem5/shared.toml")
add_argument(parser)
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
        self.bus = CoherentXBar(
            width=64,
            frontend_latency=3,
            forward_latency=4,
            response_latency=2,
            snoop_response_latency=4,
            point_of_coherency=False,
        )
        add_core(self, arguments.cpu, self.bus, number)
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
