"""Kernels in C, compiled and run on the processing elements of accelerators."""

import importlib.util
import shutil

import numpy as np
import pytest
from test_opencl import MODELS, check_programs, queue_of, simulate

import cxlab.opencl as cl
from cxlab.opencl import _compile
from cxlab.reproduce.cohet import programs

needs_compiler = pytest.mark.skipif(_compile.compiler() is None, reason=_compile.MISSING)


def launch(host, source, size, local, *arguments, options=()):
    """Runs the kernel `f` of a source to its end."""
    context, queue = queue_of(host)
    kernel = cl.Program(context, '#include "cxlab_kernel.h"\n' + source).build(options).f
    kernel.set_args(*arguments)
    cl.enqueue_nd_range_kernel(queue, kernel, size, local)
    queue.finish()


@needs_compiler
@pytest.mark.parametrize("model", MODELS)
def test_three_programs_compute_the_plain_results_on_any_number_of_threads(model):
    digests = check_programs(programs.C, model)
    assert check_programs(programs.C, model, threads=2) == digests


@needs_compiler
def test_every_load_and_store_is_an_operation_of_the_element():
    def operations(count):
        def main(host):
            data = np.zeros(count)
            return programs.axpy_cohet(host, programs.C, 1.0, data, data)

        _, result = simulate(main)
        phases = {one["name"]: one for one in result.report["accelerators"][0]["phases"]}
        return phases["kernel"]["on_memory"]

    # Two loads and a store of each work-item, in the same number of launches.
    assert operations(96) - operations(48) == 3 * 48


LOOP = """
kernel void f(double x, ulong n, global double *out)
{
    for (ulong i = 0; i < n; i++)
        x *= 1.0000001;
    *out = x;
}
"""


@needs_compiler
def test_instructions_take_their_cycles():
    def time_ns(rounds):
        def main(host):
            context, queue = queue_of(host, profiling=True)
            source = '#include "cxlab_kernel.h"' + LOOP
            kernel = cl.Program(context, source).build(["-fno-unroll-loops"]).f
            out = host.malloc(1, np.float64)
            out[0] = 0.0
            kernel.set_args(np.float64(1), np.uint64(rounds), out)
            event = cl.enqueue_nd_range_kernel(queue, kernel, (1,))
            event.wait()
            assert out[0] == pytest.approx(1.0000001**rounds)
            return event.profile.end - event.profile.start

        return simulate(main)[0]

    first, second, third = (time_ns(rounds) for rounds in (1000, 2000, 3000))
    assert second - first == pytest.approx(third - second, abs=0.01)
    # A multiplication takes 4 cycles of 2.5 ns; counting, comparing and branching take 2 to 4.
    assert (second - first) / 1000 / 2.5 in (6, 7, 8)


SORTED = """
kernel void f(global uint *out, local uint *scratch)
{
    uint private[4] = { 1, 2, 3, 4 };
    size_t me = get_local_id(0), last = get_local_size(0) - 1;
    scratch[me] = get_global_id(0) * private[(me + get_group_id(0)) % 4];
    barrier(CLK_LOCAL_MEM_FENCE);
    out[get_global_id(0)] = scratch[last - me];
}
"""


@needs_compiler
def test_a_barrier_local_memory_and_private_arrays():
    def main(host):
        out = host.malloc(24, np.uint32)
        launch(host, SORTED, (24,), (4,), out, cl.LocalMemory(16))
        return out[:]

    number = np.arange(24)
    values = number * ((number % 4 + number // 4) % 4 + 1)
    expected = values.reshape(6, 4)[:, ::-1].reshape(-1)
    np.testing.assert_array_equal(simulate(main)[0], expected)


COPIES = """
struct pair { ulong a, b; };
kernel void f(global struct pair *to, global const struct pair *from, global uchar *odd, ulong n)
{
    __builtin_memcpy(to, from, n);
    __builtin_memset(odd, 7, 100);
    *(ulong *)(odd + 61) += 1;
    __atomic_fetch_max((long *)&to->a, -1, __ATOMIC_SEQ_CST);
    to->b = atomic_exchange(&to->a, 9);
}
"""


@needs_compiler
@pytest.mark.parametrize("shared", [False, True])
def test_copies_fills_and_numbers_that_lie_in_two_lines(shared):
    def main(host):
        context, _ = queue_of(host)
        device = host.get_devices()[0]

        def array(count):
            if shared:
                return cl.shared_mem_alloc(context, device, count, np.uint8)
            return host.malloc(count)

        to, source, odd = array(64), array(64), array(8192)
        source[:] = np.arange(64)
        launch(host, COPIES, (1,), None, to, source, odd, np.uint64(64))
        return to[:], odd[:101]

    to, odd = simulate(main, page=4096)[0]
    first = int.from_bytes(bytes(range(8)), "little")
    assert list(to[:8]) == [9, 0, 0, 0, 0, 0, 0, 0]
    assert int.from_bytes(bytes(to[8:16]), "little") == first
    np.testing.assert_array_equal(to[16:], np.arange(16, 64))
    assert list(odd[:101]) == [7] * 61 + [8] + [7] * 38 + [0]


WRONG = {
    "a mistake of C": ("kernel void f(void) { x = 1; }", (), "(?s)BUILD_PROGRAM_FAILURE.*'x'"),
    "an unknown function": ("kernel void f(void) { puts(0); }", (), "puts"),
    "a result": ("kernel int f(void) { return 1; }", (), "`f` returns a value"),
    "a float for a pointer": (
        "kernel void f(global int *p) { *p = 1; }",
        (np.float32(1),),
        "argument 0: found np.float32; allowed: np.int64, np.uint64, an Array",
    ),
    "a large number for an int": (
        "kernel void f(int a, global int *p) { *p = a; }",
        (np.int64(1), None),
        "allowed: np.int8, np.uint8",
    ),
}


@needs_compiler
@pytest.mark.parametrize("name", WRONG)
def test_what_cannot_be_built_or_set_is_refused(name):
    source, arguments, text = WRONG[name]
    with pytest.raises(cl.Error, match=text):
        simulate(lambda host: launch(host, source, (1,), None, *arguments))


FAULTS = {
    "a null pointer": (
        "kernel void f(global int *p) { *p = 1; }",
        None,
        "`f`: found an access to 4 B at 0x0",
    ),
    "an address that no memory has": (
        "kernel void f(ulong p) { *(uint *)p = 1; }",
        np.uint64(1 << 50),
        "`f`: found 4 B from 0x4000000000000; allowed: within",
    ),
    "static data that change": (
        "static uint n[99]; kernel void f(ulong i) { n[i]++; barrier(1); n[i + 1] += n[i]; }",
        np.uint64(0),
        "static data",
    ),
    "an atomic operation that is not aligned": (
        "kernel void f(ulong p) { __atomic_fetch_add((uint *)(p + 2), 1, 5); }",
        np.uint64(1 << 20),
        "allowed: multiples of 4",
    ),
}


@needs_compiler
@pytest.mark.parametrize("name", FAULTS)
def test_faults_of_a_kernel_end_the_run_with_their_reason(name):
    source, argument, text = FAULTS[name]
    with pytest.raises((RuntimeError, ValueError), match=text):
        simulate(lambda host: launch(host, source, (1,), None, argument))


@needs_compiler
def test_options_go_to_the_compiler():
    source = "kernel void f(global uint *p) { *p = VALUE; }"

    def main(host):
        out = host.malloc(1, np.uint32)
        launch(host, source, (1,), None, out, options=["-DVALUE=41"])
        return out[0]

    assert simulate(main)[0] == 41


def test_without_a_compiler_one_message_says_what_to_install(monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda _: None)
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    source = "kernel void f(void) {}"
    text = r"COMPILER_NOT_AVAILABLE: kernels in C .* clang lld\).* \(pip install ziglang\)"
    with pytest.raises(cl.Error, match=text):
        simulate(lambda host: launch(host, source, (1,), None))


def test_zigs_compiler_is_the_second_choice(monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda _: None)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: name == "ziglang" or None)
    command = _compile.compiler()
    assert command[1:4] == ["-m", "ziglang", "cc"]
    assert "wasm64-freestanding" in command
