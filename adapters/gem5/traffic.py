"""A traffic generator of gem5 in front of a memory: cxlab's, or one of gem5's own.

build/NULL/gem5.opt adapters/gem5/traffic.py --memory cxl --period 10ns
"""

import argparse
from collections.abc import Iterator

import m5
from m5.objects import (
    AddrRange,
    PyTrafficGen,
    Root,
    SrcClockDomain,
    System,
    SystemXBar,
    VoltageDomain,
)
from memories import add_arguments, add_memory

parser = argparse.ArgumentParser()
add_arguments(parser)
parser.add_argument("--period", default="20ns", help="time between two requests")
parser.add_argument("--reads", type=int, default=67, help="share of reads in percent")
parser.add_argument("--linear", action="store_true", help="addresses in order, else random ones")
parser.add_argument("--duration", default="1ms")
parser.add_argument("--stop", default=None, help="a folder: saves a checkpoint there halfway")
parser.add_argument("--restore", default=None, help="a folder with a checkpoint: goes on from it")
arguments = parser.parse_args()

SIZE = 1 << 30
system = System(
    membus=SystemXBar(width=64),
    mem_ranges=[AddrRange(SIZE)],
    clk_domain=SrcClockDomain(clock="3GHz", voltage_domain=VoltageDomain()),
    mem_mode="timing",
)
add_memory(system, arguments, null=True)
system.generator = PyTrafficGen()
system.generator.port = system.membus.cpu_side_ports
system.system_port = system.membus.cpu_side_ports

root = Root(full_system=False, system=system)
m5.instantiate(arguments.restore)


def traffic() -> Iterator[object]:
    """The states of the generator: one, or half of it with a checkpoint."""
    generator = system.generator
    make = generator.createLinear if arguments.linear else generator.createRandom
    period = m5.ticks.fromSeconds(m5.util.convert.toLatency(arguments.period))
    duration = m5.ticks.fromSeconds(m5.util.convert.toLatency(arguments.duration))
    halves = 2 if arguments.stop or arguments.restore else 1
    yield make(duration // halves, 0, SIZE - 1, 64, period, period, arguments.reads, 0)
    yield generator.createExit(0)


system.generator.start(traffic())
event = m5.simulate()
print(f"{event.getCause()} at {m5.curTick()} ps")
if arguments.stop:
    m5.drain()
    m5.checkpoint(arguments.stop)
