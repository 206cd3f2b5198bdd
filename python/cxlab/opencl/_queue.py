"""Contexts, memory objects, queues and events."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from cxlab import op
from cxlab.opencl import _layout as layout
from cxlab.opencl._device import Launch
from cxlab.opencl._errors import Error
from cxlab.opencl._host import Array, OpenDevice, _size
from cxlab.opencl._kernel import Kernel, LocalMemory
from cxlab.opencl._layout import Range
from cxlab.opencl._pages import Window


class mem_flags(enum.IntFlag):  # noqa: N801 (OpenCL's name in pyopencl)
    """Flags of buffers (``cl_mem_flags``)."""

    READ_WRITE = 1
    COPY_HOST_PTR = 1 << 5


class svm_mem_flags(enum.IntFlag):  # noqa: N801
    """Flags of shared virtual memory (``cl_svm_mem_flags``)."""

    READ_WRITE = 1
    SVM_FINE_GRAIN_BUFFER = 1 << 10
    SVM_ATOMICS = 1 << 11


class command_queue_properties(enum.IntFlag):  # noqa: N801
    """Properties of queues (``cl_command_queue_properties``)."""

    PROFILING_ENABLE = 1 << 1


class Context:
    """Devices of a host that share memory objects."""

    def __init__(self, devices: Sequence[OpenDevice]) -> None:
        if not devices:
            raise Error("INVALID_VALUE", "devices: found none; allowed: devices of the host")
        if len({id(device.host) for device in devices}) != 1:
            raise Error("INVALID_DEVICE", "devices: found devices of several hosts")
        self.devices = list(devices)
        self.host = devices[0].host


class Buffer:
    """Memory of the context's one device. The host reaches it by copies alone."""

    def __init__(
        self,
        context: Context,
        flags: mem_flags,
        size: int = 0,
        hostbuf: Array | None = None,
    ) -> None:
        """``hostbuf``, with ``COPY_HOST_PTR``, gives the size and the contents."""
        if len(context.devices) != 1:
            message = f"found a context of {len(context.devices)} devices; allowed: 1"
            raise Error("INVALID_CONTEXT", message)
        copies = mem_flags.COPY_HOST_PTR in flags
        if copies != (hostbuf is not None) or (copies and size not in (0, hostbuf.nbytes)):  # type: ignore[union-attr]
            message = "allowed: COPY_HOST_PTR with hostbuf and without size, or neither with size"
            raise Error("INVALID_HOST_PTR", message)
        if isinstance(hostbuf, SharedArray):
            raise Error("INVALID_HOST_PTR", "found a shared allocation; allowed: host memory")
        self.context = context
        self.device = context.devices[0]
        self.released = False
        self.size = size if hostbuf is None else hostbuf.nbytes
        if self.size < 1:
            raise Error("INVALID_BUFFER_SIZE", f"size: found {self.size}; allowed: 1 and more")
        self.address = self.device.allocate(self.size)
        if hostbuf is not None:
            self.device.host.compute(self.device.host.settings.call_cycles)
            words = [hostbuf.address, self.address, self.size]
            self.device.wait(self.device.submit(layout.COPY_IN, words))

    def release(self) -> None:
        """Releases the buffer (``clReleaseMemObject``). Its addresses are not used again."""
        if self.released:
            raise Error("INVALID_MEM_OBJECT", "release: found a buffer that was released before")
        self.released = True


class SharedArray(Array):
    """Elements of a shared allocation, whose pages move to the side that accesses them."""

    def __init__(
        self, device: OpenDevice, window: Window, count: int, dtype: np.dtype[Any]
    ) -> None:
        super().__init__(device.host, window.address, count, dtype)
        self.device = device
        self.window = window

    def _touch(self, address: int, count: int) -> None:
        """Brings pages back to the host, each by a page fault."""
        super()._touch(address, count)
        if not self.device.is_idle:
            message = (
                "found an access of the host while commands are in flight; allowed: after finish"
            )
            raise Error("INVALID_OPERATION", message)
        window = self.window
        for page in window.pages(address, count):
            if page not in window.resident:
                continue
            self._host.do(op.compute(self._host.settings.fault_cycles))
            words = [window.host_page(page), window.device_page(page), window.page]
            self.device.wait(self.device.submit(layout.COPY_OUT, words))
            window.resident.remove(page)


def svm_alloc(
    context: Context, flags: svm_mem_flags, count: int, dtype: DTypeLike = np.uint8
) -> Array:
    """Allocates fine-grained shared virtual memory, coherent as all memory is (``clSVMAlloc``)."""
    if svm_mem_flags.SVM_FINE_GRAIN_BUFFER not in flags:
        message = f"flags: found {flags!r}; allowed: with SVM_FINE_GRAIN_BUFFER (all is coherent)"
        raise Error("INVALID_VALUE", message)
    return context.host.malloc(count, dtype)


def svm_free(context: Context, array: Array) -> None:
    """Frees an array of :func:`svm_alloc` (``clSVMFree``)."""
    context.host.free(array)


def shared_mem_alloc(
    context: Context, device: OpenDevice, count: int, dtype: DTypeLike = np.uint8
) -> SharedArray:
    """Allocates memory whose pages move on access.

    That is ``clSharedMemAllocINTEL`` of the extension ``cl_intel_unified_shared_memory``.
    """
    if device not in context.devices:
        raise Error("INVALID_DEVICE", "found a device of another context")
    kind = np.dtype(dtype)
    page = context.host.settings.page
    size = -(-_size(count, kind) // page) * page
    context.host.compute(context.host.settings.call_cycles)
    address = context.host.do(op.mmap(size))
    window = Window(address, size, page, device.allocate(size, page))
    device.device.windows.windows.append(window)
    return SharedArray(device, window, count, kind)


def mem_free(context: Context, array: SharedArray) -> None:
    """Frees a shared allocation (``clMemFreeINTEL``), while its device is idle."""
    if array.device not in context.devices or array._freed:
        message = "mem_free: allowed: a shared allocation of the context that is not freed"
        raise Error("INVALID_VALUE", message)
    array.device.wait(array.device.submitted)
    array._freed = True
    array.device.device.windows.windows.remove(array.window)
    context.host.do(op.munmap(array.window.address, array.window.bytes))


@dataclass(frozen=True)
class Profile:
    """Times of a command in nanoseconds of simulated time (``clGetEventProfilingInfo``)."""

    queued: float
    submit: float
    start: float
    end: float


class Event:
    """A command that has been submitted."""

    def __init__(self, queue: CommandQueue, packet: int, queued: int, submit: int) -> None:
        self._queue = queue
        self._packet = packet
        self._queued = queued
        self._submit = submit

    @property
    def device(self) -> OpenDevice:
        """The device of the command's queue."""
        return self._queue.device

    def wait(self) -> None:
        """Waits until the command is complete."""
        self.device.wait(self._packet)

    @property
    def profile(self) -> Profile:
        """Times of the command, once it is complete."""
        times = self.device.device.times.get(self._packet)
        profiles = command_queue_properties.PROFILING_ENABLE in self._queue.properties
        if not profiles or not self.device.is_known(self._packet) or times is None:
            message = "allowed: of a complete command in a queue with PROFILING_ENABLE"
            raise Error("PROFILING_INFO_NOT_AVAILABLE", message)
        start, end = times
        return Profile(*(time / 1000 for time in (self._queued, self._submit, start, end)))


class CommandQueue:
    """An in-order queue. All queues of a device share its one ring of packets."""

    def __init__(
        self,
        context: Context,
        device: OpenDevice | None = None,
        properties: command_queue_properties | int = 0,
    ) -> None:
        """``device`` may be left out where the context has one."""
        if device is None and len(context.devices) == 1:
            device = context.devices[0]
        if device is None or device not in context.devices:
            raise Error("INVALID_DEVICE", "device: allowed: one of the context's")
        if int(properties) & ~int(command_queue_properties.PROFILING_ENABLE):
            message = f"found {int(properties):#x}; allowed: PROFILING_ENABLE; queues are in order"
            raise Error("INVALID_QUEUE_PROPERTIES", message)
        self.context = context
        self.device = device
        self.properties = command_queue_properties(properties)

    def flush(self) -> None:
        """Does nothing: commands are submitted when they are enqueued."""

    def finish(self) -> None:
        """Waits until all commands are complete."""
        self.device.wait(self.device.submitted)

    def submit(
        self,
        opcode: int,
        words: list[int],
        wait_for: Sequence[Event] | None,
        launch: Launch | None = None,
    ) -> Event:
        """Calls the driver, which submits a packet."""
        for event in wait_for or ():
            if event.device is not self.device:
                message = "found an event of another device; allowed: of this one (or event.wait())"
                raise Error("INVALID_EVENT_WAIT_LIST", message)
        host = self.device.host
        queued = host.do(op.time())
        host.compute(host.settings.call_cycles)
        if launch is not None:
            self.device.device.launches[self.device.submitted + 1] = launch
        packet = self.device.submit(opcode, words)
        return Event(self, packet, queued, host.do(op.time()))


def enqueue_copy(
    queue: CommandQueue,
    dest: Buffer | Array,
    src: Buffer | Array,
    *,
    is_blocking: bool = True,
    wait_for: Sequence[Event] | None = None,
) -> Event:
    """Copies by DMA between host memory and a buffer of the same size.

    That is ``clEnqueueWriteBuffer`` or ``clEnqueueReadBuffer``.
    """
    if isinstance(dest, Buffer) and isinstance(src, Array):
        opcode, buffer, array = layout.COPY_IN, dest, src
    elif isinstance(src, Buffer) and isinstance(dest, Array):
        opcode, buffer, array = layout.COPY_OUT, src, dest
    else:
        found = f"{type(dest).__name__} from {type(src).__name__}"
        raise Error("INVALID_VALUE", f"found {found}; allowed: a Buffer and an Array of the host")
    if isinstance(array, SharedArray) or buffer.device is not queue.device or buffer.released:
        message = "allowed: a buffer of the queue's device that is not released, and host memory"
        raise Error("INVALID_MEM_OBJECT", message)
    if array.nbytes != buffer.size:
        message = f"found {array.nbytes} B and a buffer of {buffer.size} B; allowed: equal sizes"
        raise Error("INVALID_VALUE", message)
    event = queue.submit(opcode, [array.address, buffer.address, buffer.size], wait_for)
    if is_blocking:
        event.wait()
    return event


def enqueue_marker(queue: CommandQueue, wait_for: Sequence[Event] | None = None) -> Event:
    """Enqueues a command that does nothing, after all earlier ones."""
    return queue.submit(layout.MARKER, [], wait_for)


def enqueue_nd_range_kernel(
    queue: CommandQueue,
    kernel: Kernel,
    global_work_size: Sequence[int],
    local_work_size: Sequence[int] | None = None,
    global_work_offset: Sequence[int] | None = None,
    wait_for: Sequence[Event] | None = None,
) -> Event:
    """Runs a kernel over an NDRange.

    Args:
        queue: the queue.
        kernel: a kernel with all arguments set.
        global_work_size: work-items by dimension, one to three.
        local_work_size: work-items of a group; by default the largest divisor of the first
            dimension up to 64.
        global_work_offset: what the numbers of work-items begin with.
        wait_for: events of the same device, which are complete before in any case.

    """
    over = _range(global_work_size, local_work_size, global_work_offset)
    values = []
    for number, argument in enumerate(kernel.complete()):
        elsewhere = isinstance(argument, Buffer | SharedArray) and argument.device != queue.device
        freed = getattr(argument, "released", False) or getattr(argument, "_freed", False)
        if elsewhere or freed:
            message = f"argument {number}: found memory of another device, or freed memory"
            raise Error("INVALID_MEM_OBJECT", message)
        values.append(kernel.word(number, argument))
    local = sum(a.size for a in kernel.complete() if isinstance(a, LocalMemory))
    if local > layout.LOCAL_BYTES:
        message = f"found {local} B of local memory; allowed: {layout.LOCAL_BYTES} B"
        raise Error("OUT_OF_RESOURCES", message)
    words = [*over.words(), len(values), *values]
    return queue.submit(layout.LAUNCH, words, wait_for, Launch(kernel.body()))


def _range(size: Sequence[int], local: Sequence[int] | None, offset: Sequence[int] | None) -> Range:
    dimensions = len(size)
    if not 1 <= dimensions <= 3:
        message = f"found {dimensions} dimensions; allowed: 1 to 3"
        raise Error("INVALID_WORK_DIMENSION", message)
    if any(one < 1 for one in size):
        message = f"found {tuple(size)}; allowed: 1 and more in each dimension"
        raise Error("INVALID_GLOBAL_WORK_SIZE", message)
    if local is None:
        largest = max(one for one in range(1, 65) if size[0] % one == 0)
        local = (largest, *(1 for _ in size[1:]))
    items = int(np.prod(local))
    uneven = len(local) == dimensions and any(
        group < 1 or all_ % group for all_, group in zip(size, local, strict=True)
    )
    if len(local) != dimensions or uneven or items > layout.MOST_ITEMS:
        message = (
            f"found groups of {tuple(local)} in {tuple(size)}; allowed: divisors in each "
            f"dimension, and {layout.MOST_ITEMS} work-items in all"
        )
        raise Error("INVALID_WORK_GROUP_SIZE", message)
    if offset is not None and (len(offset) != dimensions or any(one < 0 for one in offset)):
        message = f"found {tuple(offset)}; allowed: a number of 0 or more for each dimension"
        raise Error("INVALID_GLOBAL_OFFSET", message)
    return Range(
        dimensions, _padded(size, 1), _padded(local, 1), _padded(offset or (0,) * dimensions, 0)
    )


def _padded(values: Sequence[int], other: int) -> tuple[int, int, int]:
    x, y, z = (*(int(value) for value in values), *(other,) * (3 - len(values)))
    return (x, y, z)
