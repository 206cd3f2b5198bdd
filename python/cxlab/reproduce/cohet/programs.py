"""AXPY, a histogram and a walk of a linked list, in three programming models.

The models are those of the paper's Fig. 4: explicit copies, unified memory whose pages move, and
one coherent memory. ``source`` of a host program has its kernels: :data:`PYTHON` or :data:`C`.
"""

from __future__ import annotations

import inspect
import io
import tokenize
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import cxlab.opencl as cl

#: The kernels in C.
C = Path(__file__).with_name("programs.c")


@cl.kernel("double a, global double *x, global double *y")
def axpy(item: cl.WorkItem, a: Any, x: cl.Pointer, y: cl.Pointer) -> cl.Code:
    """``y = a x + y``, an element for each work-item."""
    i = item.get_global_id(0)
    x_i, y_i = yield [x[i], y[i]]
    yield cl.compute(8)
    yield y.store(i, a * x_i + y_i)


@cl.kernel("ulong n, global uchar *data, global uint *bins")
def histogram(item: cl.WorkItem, n: Any, data: cl.Pointer, bins: cl.Pointer) -> cl.Code:
    """Counts bytes, every ``get_global_size``-th by a work-item."""
    for i in range(item.get_global_id(0), int(n), item.get_global_size(0)):
        value = yield data[i]
        yield cl.atomic_fetch_add(bins + value, 1)


@cl.kernel("global ulong *head, global ulong *total")
def walk(_: cl.WorkItem, head: cl.Pointer, total: cl.Pointer) -> cl.Code:
    """Adds the values of a list, whose nodes have the address of the next node and a value."""
    node, found = head.address, 0
    while node:
        following, value = yield [head.cast("u8", node)[0], head.cast("u8", node)[1]]
        node, found = int(following), found + int(value)
    yield total.store(0, found)


@cl.kernel("global ulong *nodes, ulong head, global ulong *total")
def walk_indices(_: cl.WorkItem, nodes: cl.Pointer, head: Any, total: cl.Pointer) -> cl.Code:
    """As :func:`walk`, of a list whose nodes have the number of the next node, from 1."""
    node, found = int(head), 0
    while node:
        following, value = yield [nodes[2 * node - 2], nodes[2 * node - 1]]
        node, found = int(following), found + int(value)
    yield total.store(0, found)


#: The kernels in Python.
PYTHON = (axpy, histogram, walk, walk_indices)


def axpy_explicit(host: cl.Host, source: Any, a: float, x0: Any, y0: Any) -> NDArray[Any]:
    """AXPY with copies to the accelerator and back."""
    context = cl.Context(host.get_devices()[:1])
    queue = cl.CommandQueue(context)
    kernel = cl.Program(context, source).build().axpy
    x = host.malloc(len(x0), np.float64)
    y = host.malloc(len(y0), np.float64)
    x[:] = x0
    y[:] = y0
    device_x = cl.Buffer(context, cl.mem_flags.READ_WRITE, x.nbytes)
    device_y = cl.Buffer(context, cl.mem_flags.READ_WRITE, y.nbytes)
    cl.enqueue_copy(queue, device_x, x)
    cl.enqueue_copy(queue, device_y, y)
    kernel.set_args(np.float64(a), device_x, device_y)
    cl.enqueue_nd_range_kernel(queue, kernel, (len(x0),))
    cl.enqueue_copy(queue, y, device_y)
    device_x.release()
    device_y.release()
    result: NDArray[Any] = y[:]
    host.free(x)
    host.free(y)
    return result


def axpy_unified(host: cl.Host, source: Any, a: float, x0: Any, y0: Any) -> NDArray[Any]:
    """AXPY on memory whose pages move on access."""
    context = cl.Context(host.get_devices()[:1])
    queue = cl.CommandQueue(context)
    kernel = cl.Program(context, source).build().axpy
    x = cl.shared_mem_alloc(context, queue.device, len(x0), np.float64)
    y = cl.shared_mem_alloc(context, queue.device, len(y0), np.float64)
    x[:] = x0
    y[:] = y0
    kernel.set_args(np.float64(a), x, y)
    cl.enqueue_nd_range_kernel(queue, kernel, (len(x0),))
    queue.finish()
    result: NDArray[Any] = y[:]
    cl.mem_free(context, x)
    cl.mem_free(context, y)
    return result


def axpy_cohet(host: cl.Host, source: Any, a: float, x0: Any, y0: Any) -> NDArray[Any]:
    """AXPY on coherent memory of the process."""
    context = cl.Context(host.get_devices()[:1])
    queue = cl.CommandQueue(context)
    kernel = cl.Program(context, source).build().axpy
    x = host.malloc(len(x0), np.float64)
    y = host.malloc(len(y0), np.float64)
    x[:] = x0
    y[:] = y0
    kernel.set_args(np.float64(a), x, y)
    cl.enqueue_nd_range_kernel(queue, kernel, (len(x0),))
    queue.finish()
    result: NDArray[Any] = y[:]
    host.free(x)
    host.free(y)
    return result


def histogram_explicit(host: cl.Host, source: Any, bytes0: Any, items: int) -> NDArray[Any]:
    """A histogram with copies to the accelerator and back."""
    context = cl.Context(host.get_devices()[:1])
    queue = cl.CommandQueue(context)
    kernel = cl.Program(context, source).build().histogram
    data = host.malloc(len(bytes0), np.uint8)
    bins = host.malloc(256, np.uint32)
    data[:] = bytes0
    bins[:] = 0
    device_data = cl.Buffer(context, cl.mem_flags.READ_WRITE, data.nbytes)
    device_bins = cl.Buffer(context, cl.mem_flags.READ_WRITE, bins.nbytes)
    cl.enqueue_copy(queue, device_data, data)
    cl.enqueue_copy(queue, device_bins, bins)
    kernel.set_args(np.uint64(len(bytes0)), device_data, device_bins)
    cl.enqueue_nd_range_kernel(queue, kernel, (items,))
    cl.enqueue_copy(queue, bins, device_bins)
    device_data.release()
    device_bins.release()
    result: NDArray[Any] = bins[:]
    host.free(data)
    host.free(bins)
    return result


def histogram_unified(host: cl.Host, source: Any, bytes0: Any, items: int) -> NDArray[Any]:
    """A histogram on memory whose pages move on access."""
    context = cl.Context(host.get_devices()[:1])
    queue = cl.CommandQueue(context)
    kernel = cl.Program(context, source).build().histogram
    data = cl.shared_mem_alloc(context, queue.device, len(bytes0), np.uint8)
    bins = cl.shared_mem_alloc(context, queue.device, 256, np.uint32)
    data[:] = bytes0
    bins[:] = 0
    kernel.set_args(np.uint64(len(bytes0)), data, bins)
    cl.enqueue_nd_range_kernel(queue, kernel, (items,))
    queue.finish()
    result: NDArray[Any] = bins[:]
    cl.mem_free(context, data)
    cl.mem_free(context, bins)
    return result


def histogram_cohet(host: cl.Host, source: Any, bytes0: Any, items: int) -> NDArray[Any]:
    """A histogram on coherent memory of the process."""
    context = cl.Context(host.get_devices()[:1])
    queue = cl.CommandQueue(context)
    kernel = cl.Program(context, source).build().histogram
    data = host.malloc(len(bytes0), np.uint8)
    bins = host.malloc(256, np.uint32)
    data[:] = bytes0
    bins[:] = 0
    kernel.set_args(np.uint64(len(bytes0)), data, bins)
    cl.enqueue_nd_range_kernel(queue, kernel, (items,))
    queue.finish()
    result: NDArray[Any] = bins[:]
    host.free(data)
    host.free(bins)
    return result


def walk_explicit(host: cl.Host, source: Any, order: Any, values: Any) -> int:
    """A walk of a list with copies. Pointers mean nothing in a buffer, so nodes have numbers."""
    context = cl.Context(host.get_devices()[:1])
    queue = cl.CommandQueue(context)
    kernel = cl.Program(context, source).build().walk_indices
    nodes = host.malloc(2 * len(order), np.uint64)
    total = host.malloc(1, np.uint64)
    nodes[:] = linked(order, values, np.asarray(order) + 1)
    device_nodes = cl.Buffer(context, cl.mem_flags.READ_WRITE, nodes.nbytes)
    device_total = cl.Buffer(context, cl.mem_flags.READ_WRITE, total.nbytes)
    cl.enqueue_copy(queue, device_nodes, nodes)
    kernel.set_args(device_nodes, np.uint64(order[0] + 1), device_total)
    cl.enqueue_nd_range_kernel(queue, kernel, (1,))
    cl.enqueue_copy(queue, total, device_total)
    device_nodes.release()
    device_total.release()
    result = int(total[0])
    host.free(nodes)
    host.free(total)
    return result


def walk_unified(host: cl.Host, source: Any, order: Any, values: Any) -> int:
    """A walk of a list on memory whose pages move on access."""
    context = cl.Context(host.get_devices()[:1])
    queue = cl.CommandQueue(context)
    kernel = cl.Program(context, source).build().walk
    nodes = cl.shared_mem_alloc(context, queue.device, 2 * len(order), np.uint64)
    total = cl.shared_mem_alloc(context, queue.device, 1, np.uint64)
    nodes[:] = linked(order, values, nodes.address + 16 * np.asarray(order))
    kernel.set_args(nodes.pointer(2 * order[0]), total)
    cl.enqueue_nd_range_kernel(queue, kernel, (1,))
    queue.finish()
    result = int(total[0])
    cl.mem_free(context, nodes)
    cl.mem_free(context, total)
    return result


def walk_cohet(host: cl.Host, source: Any, order: Any, values: Any) -> int:
    """A walk of a list on coherent memory of the process."""
    context = cl.Context(host.get_devices()[:1])
    queue = cl.CommandQueue(context)
    kernel = cl.Program(context, source).build().walk
    nodes = host.malloc(2 * len(order), np.uint64)
    total = host.malloc(1, np.uint64)
    nodes[:] = linked(order, values, nodes.address + 16 * np.asarray(order))
    kernel.set_args(nodes.pointer(2 * order[0]), total)
    cl.enqueue_nd_range_kernel(queue, kernel, (1,))
    queue.finish()
    result = int(total[0])
    host.free(nodes)
    host.free(total)
    return result


def linked(order: Any, values: Any, links: Any) -> NDArray[Any]:
    """Nodes of a list: each has the link of the next one in the order, and its own value."""
    nodes = np.zeros((len(order), 2), np.uint64)
    nodes[order[:-1], 0] = links[1:]
    nodes[:, 1] = values
    return nodes.reshape(-1)


def code_lines(function: Callable[..., Any]) -> int:
    """Lines of a function's source, without its docstring, comments and blank lines."""
    source = inspect.getsource(function)
    lines: set[int] = set()
    statement: list[tokenize.TokenInfo] = []
    skipped = (tokenize.COMMENT, tokenize.NL, tokenize.INDENT, tokenize.DEDENT)
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.NEWLINE:
            if [one.type for one in statement] != [tokenize.STRING]:
                for one in statement:
                    lines.update(range(one.start[0], one.end[0] + 1))
            statement = []
        elif token.type not in skipped:
            statement.append(token)
    return len(lines)
