"""Host programs and kernels in the style of OpenCL."""

import gc
import threading

import numpy as np
import pytest

import cxlab
import cxlab.opencl as cl
from cxlab.reproduce.cohet import programs

SYSTEM = """
name = "opencl"
[fabric]
topology = { kind = "direct" }
[[hosts]]
name = "host"
workload = { kind = "external", name = "mine" }
nodes = [{ capacity = "64 MiB" }]
processor = { cores = 1, llc = { size = "4 MiB", ways = 16 } }
os = {}
[[accelerators]]
name = "device"
device = { elements = 3 }
"""
MODELS = ("explicit", "unified", "cohet")


def simulate(main, *, threads=1, changes=(), **settings):
    """What the host program returns, and the result of the run."""
    scenario = cxlab.Scenario.from_toml(SYSTEM).update(dict(changes))
    application = cl.Application(main, **settings)
    result = cxlab.run(scenario, threads=threads, workloads={"mine": application})
    (returned,) = application.results
    return returned, result


def queue_of(host, profiling=False):
    context = cl.Context(host.get_devices()[:1])
    flags = cl.command_queue_properties.PROFILING_ENABLE if profiling else 0
    return context, cl.CommandQueue(context, properties=flags)


def launch(host, function, size, local, *arguments):
    """Runs a kernel to its end."""
    context, queue = queue_of(host)
    kernel = cl.Kernel(cl.Program(context, [function]).build(), function.name)
    kernel.set_args(*arguments)
    cl.enqueue_nd_range_kernel(queue, kernel, size, local)
    queue.finish()


def check_programs(source, model, threads=1):
    """The three programs against plain results. Returns the digests of their runs."""
    rng = np.random.default_rng(1)
    # More elements than a page of shared allocations has, and no multiple of a group.
    x, y = rng.random(600), rng.random(600)
    data = rng.integers(0, 256, 500, np.uint8)
    order, values = rng.permutation(40), rng.integers(0, 1000, 40)
    settings = {"threads": threads, "page": 4096}

    def axpy(host):
        return getattr(programs, f"axpy_{model}")(host, source, 2.5, x, y)

    def histogram(host):
        return getattr(programs, f"histogram_{model}")(host, source, data, 20)

    def walk(host):
        return getattr(programs, f"walk_{model}")(host, source, order, values)

    found, first = simulate(axpy, **settings)
    np.testing.assert_array_equal(found, 2.5 * x + y)
    found, second = simulate(histogram, **settings)
    np.testing.assert_array_equal(found, np.bincount(data, minlength=256))
    found, third = simulate(walk, **settings)
    assert found == values.sum()
    return [result.report["digest"] for result in (first, second, third)]


@pytest.mark.parametrize("model", MODELS)
def test_three_programs_compute_the_plain_results_on_any_number_of_threads(model):
    digests = check_programs(programs.PYTHON, model)
    assert check_programs(programs.PYTHON, model, threads=2) == digests


def test_coherent_memory_is_accessed_by_cxl_cache_and_copies_by_dma():
    data = np.arange(600.0)

    def counters(model):
        def main(host):
            return getattr(programs, f"axpy_{model}")(host, programs.PYTHON, 2.0, data, data)

        _, result = simulate(main, page=4096)
        return result.report["accelerators"][0]["accelerator"]

    coherent, copied = counters("cohet"), counters("explicit")
    # 75 lines of x and of y.
    assert coherent["hmc_misses"] >= 150
    assert copied["hmc_misses"] < 30
    assert coherent["dma_descriptors"] == 0
    assert copied["dma_bytes_read"] == 2 * data.nbytes
    assert copied["dma_bytes_written"] == data.nbytes
    assert coherent["atc_misses"] > 0


@cl.kernel("global uint *out, local uint *scratch")
def reverse(item, out, scratch):
    me, last = item.get_local_id(0), item.get_local_size(0) - 1
    yield scratch.store(me, item.get_global_id(0))
    yield cl.barrier(cl.LOCAL_MEM_FENCE)
    value = yield scratch[last - me]
    yield out.store(item.get_global_id(0), value)


def test_a_barrier_and_local_memory_join_the_work_items_of_a_group():
    def main(host):
        out = host.malloc(24, np.uint32)
        launch(host, reverse, (24,), (4,), out, cl.LocalMemory(16))
        return out[:]

    expected = np.arange(24).reshape(6, 4)[:, ::-1].reshape(-1)
    np.testing.assert_array_equal(simulate(main)[0], expected)


@cl.kernel("global long *counter, global long *out")
def locked(item, counter, out):
    """Adds one under a lock, which is the second element."""
    while (yield cl.atomic_cmpxchg(counter + 1, 0, 1)) != 0:
        pass
    value = yield counter[0]
    yield cl.compute(7)
    yield counter.store(0, value + 1)
    yield cl.atomic_exchange(counter + 1, 0)
    yield cl.atomic_fetch_max(out, item.get_global_id(0))
    yield cl.atomic_fetch_min(out + 1, -item.get_global_id(0))
    yield cl.atomic_fetch_or(out + 2, 1 << item.get_global_id(0))
    yield cl.atomic_fetch_xor(out + 3, item.get_global_id(0))
    yield cl.atomic_fetch_sub(out + 4, 2)
    yield cl.atomic_fetch_and(out + 5, ~(1 << item.get_global_id(0)))


def test_atomic_operations_lose_nothing_between_elements():
    def main(host):
        counter, out = host.malloc(2, np.int64), host.malloc(6, np.int64)
        counter[:], out[:] = 0, [0, 0, 0, 0, 0, -1]
        launch(host, locked, (15,), (5,), counter, out)
        return counter[0], list(out[:])

    counted, found = simulate(main)[0]
    assert counted == 15
    assert found == [14, -14, (1 << 15) - 1, 15, -30, ~((1 << 15) - 1)]


@cl.kernel("global ulong *out")
def place(item, out):
    at = item.get_global_id(0) - 10 + 4 * (item.get_global_id(1) + 6 * item.get_global_id(2))
    number = item.get_group_id(0) + 10 * item.get_group_id(1) + 100 * item.get_local_id(1)
    sizes = item.get_num_groups(1) * 1000 + item.get_global_size(2) * 10_000
    assert (item.get_global_id(3), item.get_global_size(3)) == (0, 1)
    yield out.store(at, number + sizes)


def test_an_nd_range_has_three_dimensions_and_an_offset():
    def main(host):
        context, queue = queue_of(host)
        out = host.malloc(48, np.uint64)
        kernel = cl.Program(context, [place]).build().place
        kernel.set_args(out)
        cl.enqueue_nd_range_kernel(queue, kernel, (4, 6, 2), (2, 3, 1), (10, 0, 0))
        queue.finish()
        return out[:]

    x, y = np.meshgrid(np.arange(4), np.arange(6))
    once = x // 2 + 10 * (y // 3) + 100 * (y % 3) + 2000 + 20_000
    np.testing.assert_array_equal(simulate(main)[0], np.tile(once.reshape(-1), 2))


def test_events_have_their_times_in_order_and_a_launch_takes_longer_for_more_work():
    def main(host):
        context, queue = queue_of(host, profiling=True)
        x = host.malloc(512, np.float64)
        x[:] = 1.0
        kernel = cl.Program(context, programs.PYTHON).build().axpy
        kernel.set_args(np.float64(2), x, x)
        events = [cl.enqueue_nd_range_kernel(queue, kernel, (n,), (4,)) for n in (4, 512)]
        marker = cl.enqueue_marker(queue, wait_for=events)
        with pytest.raises(cl.Error, match="PROFILING_INFO_NOT_AVAILABLE"):
            _ = marker.profile
        marker.wait()
        return [event.profile for event in (*events, marker)], host.time_ns()

    (few, many, marker), now = simulate(main)[0]
    for one in (few, many, marker):
        assert one.queued < one.submit
        assert one.queued < one.start <= one.end < now
    assert few.end <= many.start
    assert many.end <= marker.start
    assert many.end - many.start > 4 * (few.end - few.start)
    # 1 us of the driver: 2,400 cycles at 2.4 GHz.
    assert many.submit - many.queued >= 1000


def test_costs_of_driver_and_page_faults_are_the_settings():
    data = np.arange(1024.0)  # Two pages of 4 KiB in each vector.

    def main(host):
        return programs.axpy_unified(host, programs.PYTHON, 2.0, data, data)

    def window_ns(**settings):
        return simulate(main, page=4096, **settings)[1].report["window_ns"]

    base = window_ns(fault_cycles=0, call_cycles=0)
    # Four pages go to the device, and two come back, at 2.4 GHz.
    faults = window_ns(fault_cycles=24_000, call_cycles=0) - base
    assert faults == pytest.approx(6 * 10_000, rel=0.02)
    # Two allocations and a launch.
    calls = window_ns(fault_cycles=0, call_cycles=24_000) - base
    assert calls == pytest.approx(3 * 10_000, rel=0.02)


def test_a_pcie_device_fetches_packets_and_data_by_dma():
    data = np.arange(64.0)

    def main(host):
        return programs.axpy_explicit(host, programs.PYTHON, 3.0, data, data)

    changes = {"accelerators[0].device.kind": "pcie"}
    found, _ = simulate(main, changes=changes, fetch="dma")
    np.testing.assert_array_equal(found, 4 * data)


def test_more_commands_than_the_ring_has_packets():
    def main(host):
        _, queue = queue_of(host)
        events = [cl.enqueue_marker(queue) for _ in range(150)]
        events[-1].wait()
        return host.get_devices()[0].submitted

    assert simulate(main)[0] == 150


def test_small_allocations_share_memory_and_freed_memory_is_refused():
    def main(host):
        one, other = host.malloc(3, np.uint8), host.malloc(1, np.uint64)
        one[:], other[:] = [1, 2, 3], 7
        assert (other.address - one.address, list(one[1:]), other[-1]) == (16, [2, 3], 7)
        assert list(one[3:]) == []
        host.free(one)
        assert host.malloc(2, np.int32).address == one.address
        large = host.malloc(1 << 20)
        host.free(large)
        with pytest.raises(cl.Error, match="were freed"):
            large[0] = 1
        with pytest.raises(IndexError, match="element 3"):
            _ = other[3]
        with pytest.raises(ValueError, match="count: found 0"):
            host.malloc(0)
        return True

    assert simulate(main)[0]


def _device(host):
    return host.get_devices()[0]


def _kernel(host, *arguments):
    context, queue = queue_of(host)
    kernel = cl.Program(context, programs.PYTHON).build().axpy
    if arguments:
        kernel.set_args(*arguments)
    return queue, kernel


def _run(host, size, local=None, offset=None):
    x = host.malloc(8, np.float64)
    queue, kernel = _kernel(host, np.float64(1), x, x)
    cl.enqueue_nd_range_kernel(queue, kernel, size, local, offset)


REFUSED = {
    "a context without devices": (lambda _: cl.Context([]), "INVALID_VALUE"),
    "coarse-grained memory": (
        lambda h: cl.svm_alloc(queue_of(h)[0], cl.svm_mem_flags.READ_WRITE, 8),
        "with SVM_FINE_GRAIN_BUFFER",
    ),
    "a queue out of order": (
        lambda h: cl.CommandQueue(queue_of(h)[0], properties=1),
        "INVALID_QUEUE_PROPERTIES: found 0x1",
    ),
    "a buffer of no bytes": (
        lambda h: cl.Buffer(queue_of(h)[0], cl.mem_flags.READ_WRITE),
        "INVALID_BUFFER_SIZE",
    ),
    "contents that are not given": (
        lambda h: cl.Buffer(queue_of(h)[0], cl.mem_flags.COPY_HOST_PTR, 8),
        "INVALID_HOST_PTR",
    ),
    "a copy within the host": (
        lambda h: cl.enqueue_copy(queue_of(h)[1], h.malloc(8), h.malloc(8)),
        "found Array from Array",
    ),
    "a copy of another size": (
        lambda h: cl.enqueue_copy(
            queue_of(h)[1],
            cl.Buffer(queue_of(h)[0], cl.mem_flags.READ_WRITE, 16),
            h.malloc(8),
        ),
        "found 8 B and a buffer of 16 B",
    ),
    "a plain number": (lambda h: _kernel(h, 1.0, None, None), "argument 0: found .*float"),
    "a number of another type": (
        lambda h: _kernel(h, np.float32(1), None, None),
        "np.float32; allowed: np.float64",
    ),
    "too few arguments": (lambda h: _kernel(h, np.float64(1)), "found 1 arguments; allowed: 3"),
    "no arguments": (
        lambda h: cl.enqueue_nd_range_kernel(*_kernel(h), (1,)),
        "found no arguments",
    ),
    "a group that does not divide": (lambda h: _run(h, (8,), (3,)), "found groups of .3,. in .8,."),
    "a group that is too large": (lambda h: _run(h, (512,), (512,)), "INVALID_WORK_GROUP_SIZE"),
    "four dimensions": (lambda h: _run(h, (1, 1, 1, 1)), "INVALID_WORK_DIMENSION"),
    "no work-items": (lambda h: _run(h, (0,)), "INVALID_GLOBAL_WORK_SIZE"),
    "a negative offset": (lambda h: _run(h, (8,), None, (-1,)), "INVALID_GLOBAL_OFFSET"),
    "an unknown kernel": (
        lambda h: cl.Program(queue_of(h)[0], programs.PYTHON).build().fft,
        "found 'fft'; allowed: axpy, histogram",
    ),
    "an unbuilt program": (
        lambda h: cl.Program(queue_of(h)[0], programs.PYTHON).axpy,
        "INVALID_PROGRAM_EXECUTABLE",
    ),
    "too much local memory": (
        lambda h: launch(h, reverse, (4,), (4,), h.malloc(4), cl.LocalMemory(1 << 20)),
        "of local memory; allowed: 65536 B",
    ),
    "an access while the device works": (lambda h: _busy(h), "INVALID_OPERATION"),
}


def _busy(host):
    context, queue = queue_of(host)
    x = cl.shared_mem_alloc(context, _device(host), 8, np.float64)
    x[:] = 1
    kernel = cl.Program(context, programs.PYTHON).build().axpy
    kernel.set_args(np.float64(1), x, x)
    cl.enqueue_nd_range_kernel(queue, kernel, (8,))
    x[0] = 2


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_supported_is_refused(name):
    call, text = REFUSED[name]
    with pytest.raises(cl.Error, match=text):
        simulate(call)


def test_names_that_are_not_there_are_refused_with_those_that_are():
    with pytest.raises(AttributeError, match=r"'Image', which is not supported; .*Buffer"):
        _ = cl.Image


@pytest.mark.parametrize(
    ("signature", "text"),
    [("half a", "'half a'; allowed: a type"), ("int *a", "int"), ("global int a", "global")],
)
def test_signatures_are_those_of_opencl_c(signature, text):
    with pytest.raises(cl.Error, match=text):
        cl.kernel(signature)


@cl.kernel("global uint *out")
def divergent(item, out):
    if item.get_local_id(0) > 0:
        yield cl.barrier()
    yield out.store(0, 1)


@cl.kernel("global uint *out")
def wrong(item, out):
    yield (item, out)


def test_errors_of_kernels_come_out_of_the_run():
    def main(function):
        return lambda host: launch(host, function, (4,), (4,), host.malloc(4, np.uint32))

    with pytest.raises(RuntimeError, match="3 of 4 generators at a barrier"):
        simulate(main(divergent))
    with pytest.raises(cl.Error, match="found tuple yielded by a kernel"):
        simulate(main(wrong))
    with pytest.raises(ZeroDivisionError):
        simulate(lambda _: 1 // 0)


def test_a_run_that_ends_early_ends_the_host_program_too():
    ended = []

    def main(host):
        try:
            launch(host, wrong, (1,), None, host.malloc(4, np.uint32))
        finally:
            ended.append(threading.current_thread())
            host.compute(1)

    with pytest.raises(cl.Error, match="yielded by a kernel"):
        simulate(main)
    gc.collect()
    ended[0].join(timeout=60)
    assert not ended[0].is_alive()


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"page": 5000}, "page: found 5000"),
        ({"fetch": "magic"}, "fetch"),
        ({"call_cycles": -1}, "call_cycles"),
        ({"phases": ()}, "phases"),
    ],
)
def test_settings_are_checked(settings, text):
    with pytest.raises(ValueError, match=text):
        cl.Application(lambda _: None, **settings)


def test_the_phases_of_the_host_are_in_the_report():
    def main(host):
        x = host.malloc(64, np.uint64)
        host.mark("read")
        x[:]
        host.mark("fill")
        with pytest.raises(ValueError, match="'rest'; allowed: fill, read"):
            host.mark("rest")

    report = simulate(main, phases=("fill", "read"))[1].report
    phases = {phase["name"]: phase for phase in report["hosts"][0]["phases"]}
    assert phases["read"]["on_memory"] == 1


def test_lines_of_code_are_counted_without_comments():
    def example():
        """Says nothing.

        That counts.
        """
        # A comment.
        first = [
            1,
            2,
        ]
        first.append(3)

        return first  # the seventh line

    assert programs.code_lines(example) == 7
