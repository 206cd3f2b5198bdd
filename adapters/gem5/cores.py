"""A core with private caches, for the configurations beside this file."""

import argparse

from m5.objects import X86O3CPU, BaseXBar, Cache, L2XBar, SimObject, X86TimingSimpleCPU


def add_argument(parser: argparse.ArgumentParser) -> None:
    """Adds the argument --cpu, the kind of :func:`add_core`."""
    parser.add_argument("--cpu", choices=("o3", "timing"), default="timing")


def cache(size: str, assoc: int, latency: int, mshrs: int) -> Cache:
    """A cache whose tags, data and responses take `latency` cycles each."""
    return Cache(
        size=size,
        assoc=assoc,
        tag_latency=latency,
        data_latency=latency,
        response_latency=latency,
        mshrs=mshrs,
        tgts_per_mshr=16,
    )


def add_core(owner: SimObject, kind: str, bus: BaseXBar, number: int = 0) -> None:
    """Gives `owner` a core and two levels of caches on a bus."""
    owner.cpu = {"o3": X86O3CPU, "timing": X86TimingSimpleCPU}[kind](cpu_id=number)
    owner.cpu.createInterruptController()
    owner.cpu.interrupts[0].pio = bus.mem_side_ports
    owner.cpu.interrupts[0].int_requestor = bus.cpu_side_ports
    owner.cpu.interrupts[0].int_responder = bus.mem_side_ports
    owner.cpu.icache = cache("32KiB", 8, 2, 4)
    owner.cpu.dcache = cache("32KiB", 8, 4, 16)
    owner.l2bus = L2XBar()
    owner.l2 = cache("256KiB", 8, 14, 32)
    for first in (owner.cpu.icache, owner.cpu.dcache):
        first.mem_side = owner.l2bus.cpu_side_ports
    owner.cpu.icache_port = owner.cpu.icache.cpu_side
    owner.cpu.dcache_port = owner.cpu.dcache.cpu_side
    for walker in (owner.cpu.mmu.itb.walker, owner.cpu.mmu.dtb.walker):
        walker.port = owner.l2bus.cpu_side_ports
    owner.l2.cpu_side = owner.l2bus.mem_side_ports
    owner.l2.mem_side = bus.cpu_side_ports
