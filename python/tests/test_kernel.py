# ruff: noqa: ARG002 (kernels override what they are asked)
"""Kernels whose threads are Python generators."""

import struct

import pytest

import cxlab
from cxlab import op

SYSTEM = """
name = "kernel"
[fabric]
topology = { kind = "direct" }
[[hosts]]
name = "host"
workload = { kind = "external", name = "mine" }
nodes = [{ capacity = "64 MiB" }]
processor = { cores = 2, llc = { size = "4 MiB", ways = 16 } }
[[accelerators]]
name = "device"
device = { elements = 2 }
"""


def simulate(kernel, **changes):
    threads = changes.pop("threads", 1)
    scenario = cxlab.Scenario.from_toml(SYSTEM)
    scenario = scenario.update({path.replace("__", "."): changes[path] for path in changes})
    return cxlab.run(scenario, threads=threads, workloads={"mine": kernel})


class Sum(cxlab.Kernel):
    """Every core and processing element adds its share of a vector to one counter."""

    phases = (("add", 8),)
    count = 96

    def prepare(self, memory, machine):
        first = machine.local.first + 64
        memory.write(first, struct.pack(f"<{self.count}Q", *range(1, self.count + 1)))

    def threads(self, place, machine):
        workers = machine.cores + machine.accelerators * machine.elements
        match place:
            case cxlab.Core(number):
                yield self.work(number, workers, machine)
            case cxlab.Element(_, number):
                yield self.work(machine.cores + number, workers, machine)

    def work(self, worker, workers, machine):
        first = machine.local.first
        yield op.mark(0)
        mine = range(worker, self.count, workers)
        numbers = yield [op.load(first + 64 + 8 * at) for at in mine]
        for number in numbers:
            yield op.fetch_add(first, number)
            yield op.count()

    def check(self, memory, machine):
        (total,) = struct.unpack("<Q", memory.read(machine.local.first, 8))
        assert total == self.count * (self.count + 1) // 2, total


def test_threads_on_cores_and_elements_share_memory_with_real_values():
    result = simulate(Sum())
    phases = [
        p
        for one in (*result.report["hosts"], *result.report["accelerators"])
        for p in one["phases"]
    ]
    assert sum(phase["operations"] for phase in phases) == Sum.count
    assert result.report["requests"]["completed"] == 2 * Sum.count
    for threads in (2, 3):
        assert simulate(Sum(), threads=threads).report["digest"] == result.report["digest"]


def test_they_run_under_an_operating_system():
    result = simulate(Sum(), **{"hosts[0].os": {}})
    assert result.report["hosts"][0]["processor"]["tlb_misses"] > 0
    assert result.report["accelerators"][0]["accelerator"]["atc_misses"] > 0


class Ring(cxlab.Kernel):
    """A core maps memory, and passes bytes to an element by DMA, a register and an interrupt."""

    def threads(self, place, machine):
        if place == cxlab.Core(0):
            yield self.core(machine)
        if place == cxlab.Element(0, 1):
            yield self.element(machine)

    def core(self, machine):
        at = yield op.mmap(8192)
        yield op.write(at, b"hello")
        assert (yield op.swap(at + 64, 7)) == 0
        assert (yield op.compare_exchange(at + 64, 7, at)) == 7
        yield op.store(machine.local.first + 4096, at)
        yield op.mmio_write(0, 3, 1)
        yield op.wait_interrupt(2)
        assert (yield op.read(at, 5)) == b"HELLO"
        yield [op.flush(at), op.compute(100), op.fence()]

    def element(self, machine):
        assert (yield op.mmio_await(3, 0)) == 1
        at = yield op.load(machine.local.first + 4096)
        own = op.scratch(0)
        yield op.dma_to_device(at, own, 5)
        data = yield op.read(own, 5)
        yield op.write(own, data.upper())
        yield op.dma_to_host(at, own, 5)
        yield op.interrupt(2)


@pytest.mark.parametrize("system", [None, {}])
def test_dma_registers_interrupts_and_mappings(system):
    changes = {} if system is None else {"hosts[0].os": system}
    assert simulate(Ring(), **changes).report["requests"]["completed"] > 5


class One(cxlab.Kernel):
    """One thread that yields the given operations."""

    def __init__(self, *ops, device=False):
        self.ops = ops
        self.device = device

    def threads(self, place, machine):
        if place == (cxlab.Element(0, 0) if self.device else cxlab.Core(0)):
            yield self.run()

    def run(self):
        for one in self.ops:  # noqa: UP028 (a tuple takes no answers)
            yield one


@pytest.mark.parametrize(
    ("kernel", "error", "text"),
    [
        (One(3), TypeError, "operations of cxlab.op"),
        (One(("fly", 3)), TypeError, "`fly`"),
        (One(op.load(1 << 60)), ValueError, "load: found 8 B from 0x1000000000000000; allowed"),
        (One(op.load((1 << 51) + 60)), ValueError, "a number that lies in two lines"),
        (One(op.store(1 << 51, 1, 9)), ValueError, "more than 8 bytes"),
        (One(op.read(1 << 51, 0)), ValueError, "1 and more"),
        (One(op.store(1 << 51, -1)), OverflowError, "negative"),
        (One(op.dma_to_host(1 << 51, op.scratch(0), 8)), ValueError, "on elements"),
        (One(op.mmio_read(1, 0)), ValueError, "accelerator 1"),
        (One(op.mark(1)), ValueError, "phase 1; allowed: below 1"),
        (One(op.mmap(4096), device=True), ValueError, "on cores"),
        (One(op.load(op.scratch(1)), device=True), ValueError, "allowed"),
        (One(op.barrier()), ValueError, "barrier: found in a thread"),
        (One([op.time(), op.barrier()]), ValueError, "barrier: found in a list; allowed: alone"),
        (One(op.together([3])), AttributeError, "send"),
        (One(("call", None)), ValueError, "call: found on a core"),
    ],
)
def test_what_no_thread_can_do_is_an_error_of_the_program(kernel, error, text):
    with pytest.raises(error, match=text):
        simulate(kernel)


class Clock(cxlab.Kernel):
    """Generators side by side on an element, which read the time."""

    def __init__(self):
        self.times = {}

    def threads(self, place, machine):
        if place == cxlab.Element(0, 0):
            yield self.both(machine.local.first)

    def both(self, address):
        yield op.together([self.one(number, address) for number in range(3)])
        self.times["end"] = yield op.time()

    def one(self, number, address):
        begin = yield op.time()
        yield op.compute(100)
        yield op.load(address + 4096 * number)
        loaded = yield op.time()
        yield op.barrier()
        passed = yield op.time()
        self.times[number] = (begin, loaded, passed)


def test_generators_run_side_by_side_and_meet_at_barriers():
    kernel = Clock()
    simulate(kernel)
    times = [kernel.times[number] for number in range(3)]
    assert [begin for begin, _, _ in times] == [0, 0, 0]
    loaded = [at for _, at, _ in times]
    # Computing is 250 ns each, one after the other; the loads overlap.
    assert loaded[0] < loaded[1] < loaded[2]
    assert loaded[0] > 250_000
    latency = loaded[0] - 250_000
    assert loaded[2] < 3 * 250_000 + 2 * latency
    assert {passed for _, _, passed in times} == {max(loaded)}
    assert kernel.times["end"] == max(loaded)


def test_errors_of_the_kernel_come_out_of_the_run():
    class Wrong(Sum):
        def check(self, memory, machine):
            raise AssertionError("not what was wanted")

    with pytest.raises(AssertionError, match="not what was wanted"):
        simulate(Wrong())

    class Bad(Sum):
        def threads(self, place, machine):
            return [3]

    with pytest.raises(TypeError, match="generators"):
        simulate(Bad())

    class Outside(Sum):
        def prepare(self, memory, machine):
            memory.write(machine.local.first + machine.local.bytes, b"x")

    with pytest.raises(ValueError, match="memory at"):
        simulate(Outside())


def test_a_process_that_touches_what_it_has_not_is_a_mistake():
    kernel = One(op.load(4096))
    with pytest.raises(cxlab.ScenarioError, match="no memory is mapped at 0x1000"):
        simulate(kernel, **{"hosts[0].os": {}})


def test_a_kernel_needs_a_processor():
    scenario = cxlab.Scenario.from_toml(SYSTEM).set("hosts[0].processor", {"cores": 1})
    values = scenario.to_dict()
    del values["hosts"][0]["processor"], values["hosts"][0]["nodes"], values["accelerators"]
    values["devices"] = [{"name": "memory"}]
    with pytest.raises(cxlab.ScenarioError, match="processor"):
        cxlab.run(cxlab.Scenario.from_dict(values), workloads={"mine": Sum()})
