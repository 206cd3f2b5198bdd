"""The host program: an ordinary function whose calls take simulated time on a core."""

from __future__ import annotations

import operator
import threading
from collections.abc import Callable, Generator
from dataclasses import dataclass
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from cxlab import op
from cxlab.op import Op
from cxlab.opencl import _layout as layout
from cxlab.opencl._device import Device
from cxlab.opencl._errors import Error

if TYPE_CHECKING:
    from cxlab.opencl._application import Settings

#: Allocations of at least this size are mappings of their own (M_MMAP_THRESHOLD of glibc).
MMAP_THRESHOLD = 128 << 10
#: Memory that smaller allocations share, and their alignment (glibc: 16 B).
ARENA = 1 << 20
ALIGNMENT = 16


class _Stop(BaseException):
    """Ends the host program's thread when the run has ended."""


@dataclass
class _Ended:
    """The end of the host program."""

    value: Any = None
    error: BaseException | None = None


class Thread:
    """Runs a function beside the simulation, of which it is a thread. Only one of both runs."""

    def __init__(self, function: Callable[[], Any]) -> None:
        self._function = function
        self._asked: SimpleQueue[Op | list[Op] | _Ended] = SimpleQueue()
        self._given: SimpleQueue[tuple[Any, bool]] = SimpleQueue()
        self._stopped = False

    def do(self, asked: Any) -> Any:
        """Executes an operation, or a list of them, and returns the value. For the function."""
        if self._stopped:
            raise _Stop
        self._asked.put(asked)
        value, goes_on = self._given.get()
        if not goes_on:
            self._stopped = True
            raise _Stop
        return value

    def _run(self) -> None:
        try:
            self._asked.put(_Ended(self._function()))
        except _Stop:
            pass
        except BaseException as error:
            self._asked.put(_Ended(error=error))

    def operations(self) -> Generator[Op | list[Op], Any, Any]:
        """Yields the function's operations, and returns what it returns."""
        thread = threading.Thread(target=self._run, name="cxlab.opencl", daemon=True)
        thread.start()
        try:
            while True:
                asked = self._asked.get()
                if isinstance(asked, _Ended):
                    if asked.error is not None:
                        raise asked.error
                    return asked.value
                self._given.put(((yield asked), True))
        finally:
            self._given.put((None, False))
            thread.join()


@dataclass(frozen=True)
class SVMPointer:
    """An address of the process, as an argument of a kernel (``clSetKernelArgSVMPointer``)."""

    address: int


class Array:
    """Elements in the host's simulated memory. Indexing loads and stores by the core."""

    def __init__(self, host: Host, address: int, count: int, dtype: np.dtype[Any]) -> None:
        self._host = host
        self.address = address
        self.dtype = dtype
        self._count = count
        self._freed = False

    def __len__(self) -> int:
        return self._count

    @property
    def nbytes(self) -> int:
        """Size in bytes."""
        return self._count * self.dtype.itemsize

    def __getitem__(self, at: int | slice) -> Any:
        """Loads an element, or the elements of a slice of step 1 as an array of NumPy."""
        first, count = self._span(at)
        if count == 0:
            return np.empty(0, self.dtype)
        address, size = self.address + first * self.dtype.itemsize, self.dtype.itemsize
        self._touch(address, count * size)
        data = self._host.do(op.read(address, count * size))
        values: NDArray[Any] = np.frombuffer(data, self.dtype).copy()
        return values if isinstance(at, slice) else values[0]

    def __setitem__(self, at: int | slice, value: Any) -> None:
        """Stores an element, or the elements of a slice of step 1."""
        first, count = self._span(at)
        if count == 0:
            return
        values = np.asarray(value, self.dtype)
        data = np.broadcast_to(values, (count,) if values.ndim < 2 else values.shape)
        if data.shape != (count,):
            raise ValueError(f"found an array of shape {data.shape}; allowed: ({count},)")
        address = self.address + first * self.dtype.itemsize
        self._touch(address, count * self.dtype.itemsize)
        self._host.do(op.write(address, data.tobytes()))

    def pointer(self, index: int = 0) -> SVMPointer:
        """The address of an element, as an argument of a kernel."""
        first, _ = self._span(index)
        return SVMPointer(self.address + first * self.dtype.itemsize)

    def _touch(self, address: int, count: int) -> None:
        """Makes bytes accessible to the core, where that takes the driver."""
        if self._freed:
            raise Error("INVALID_VALUE", f"found {count} B at {address:#x}, which were freed")

    def _span(self, at: int | slice) -> tuple[int, int]:
        if isinstance(at, slice):
            first, last, step = at.indices(self._count)
            if step != 1:
                raise IndexError(f"found a slice of step {step}; allowed: 1")
            return first, max(last - first, 0)
        at = operator.index(at)
        if not -self._count <= at < self._count:
            raise IndexError(f"found element {at}; allowed: below {self._count}")
        return at % self._count, 1


class Host:
    """The process that the host program runs in, with the devices of its machine."""

    def __init__(self, devices: list[Device], settings: Settings, seed: int) -> None:
        self.seed = seed
        self.settings = settings
        self._devices = [OpenDevice(self, device) for device in devices]
        self._arena = (0, 0)
        self._free: dict[int, list[int]] = {}
        self._thread: Thread | None = None

    def do(self, asked: Any) -> Any:
        """Executes an operation of :mod:`cxlab.op` on the core, or a list of them."""
        if self._thread is None:
            raise Error("INVALID_OPERATION", "found a call outside of the host program")
        return self._thread.do(asked)

    def attach(self, thread: Thread | None) -> None:
        """Says which thread executes operations."""
        self._thread = thread

    def get_devices(self) -> list[OpenDevice]:
        """The accelerators of the host (``clGetDeviceIDs``)."""
        return list(self._devices)

    def malloc(self, count: int, dtype: DTypeLike = np.uint8, *, placement: int = 0) -> Array:
        """Allocates memory of the process, which devices may access as it is.

        Args:
            count: number of elements, at least 1.
            dtype: type of an element.
            placement: placement policy, as a number of ``os.mappings``. A number other than 0
                makes a mapping of its own, and so does a size of 128 KiB or more.

        """
        kind = np.dtype(dtype)
        size = _size(count, kind)
        return Array(self, self.allocate(size, placement), count, kind)

    def allocate(self, size: int, placement: int = 0) -> int:
        """Address of new memory."""
        if size >= MMAP_THRESHOLD or placement != 0:
            return int(self.do(op.mmap(size, placement)))
        rounded = -(-size // ALIGNMENT) * ALIGNMENT
        if free := self._free.get(rounded):
            return free.pop()
        address, end = self._arena
        if address + rounded > end:
            address = int(self.do(op.mmap(ARENA)))
            end = address + ARENA
        self._arena = (address + rounded, end)
        return address

    def free(self, array: Array) -> None:
        """Frees an array of :meth:`malloc`."""
        if array._freed or type(array) is not Array:
            raise Error("INVALID_VALUE", "free: found no array of malloc that is allocated")
        array._freed = True
        size = -(-array.nbytes // ALIGNMENT) * ALIGNMENT
        if array.nbytes >= MMAP_THRESHOLD:
            self.do(op.munmap(array.address, array.nbytes))
        else:
            self._free.setdefault(size, []).append(array.address)

    def mark(self, phase: str) -> None:
        """Assigns the following operations of the core to one of the application's phases."""
        known = self.settings.phases
        if phase not in known:
            raise ValueError(f"phase: found {phase!r}; allowed: {', '.join(known)}")
        self.do(op.mark(known.index(phase)))

    def compute(self, cycles: int) -> None:
        """Computes for some cycles of the core: Python's own time is not simulated."""
        self.do(op.compute(cycles))

    def time_ns(self) -> float:
        """The simulated time in nanoseconds."""
        return float(self.do(op.time())) / 1000


class OpenDevice:
    """A device, as the driver sees it: its ring of packets and its memory."""

    def __init__(self, host: Host, device: Device) -> None:
        self.host = host
        self.device = device
        self.name = f"accelerator {device.number}"
        self.max_compute_units = device.elements
        self.max_work_group_size = layout.MOST_ITEMS
        self.local_mem_size = layout.LOCAL_BYTES
        self.global_mem_size = layout.GLOBAL_BYTES
        self._ring = 0
        self._submitted = 0
        self._completed = 0
        self._faults = 0
        self._buffers = 0

    @property
    def submitted(self) -> int:
        """Number of packets submitted so far."""
        return self._submitted

    @property
    def is_idle(self) -> bool:
        """Whether all packets are known to be complete."""
        return self._completed >= self._submitted

    def is_known(self, packet: int) -> bool:
        """Whether the driver knows that a packet is complete."""
        return packet <= self._completed

    def allocate(self, size: int, alignment: int = 64) -> int:
        """Address of new memory of the device."""
        first = -(-self._buffers // alignment) * alignment
        if first + size > layout.GLOBAL_BYTES:
            message = f"found {size} B more; allowed: {layout.GLOBAL_BYTES} B in all"
            raise Error("MEM_OBJECT_ALLOCATION_FAILURE", message)
        self._buffers = first + size
        return self.device.own.buffers + first

    def submit(self, opcode: int, words: list[int]) -> int:
        """Writes a packet and rings the doorbell. Returns the packet's number."""
        if self._ring == 0:
            self._ring = self.host.allocate(layout.SLOTS * layout.PACKET)
            self.host.do(op.mmio_write(self.device.number, layout.RING, self._ring))
        if self._submitted - self._completed >= layout.SLOTS:
            self.wait(self._submitted - layout.SLOTS + 1)
        slot = self._ring + self._submitted % layout.SLOTS * layout.PACKET
        self._submitted += 1
        self.host.do(op.write(slot, layout.packed([opcode, *words])))
        self.host.do(op.mmio_write(self.device.number, layout.DOORBELL, self._submitted))
        return self._submitted

    def wait(self, packet: int) -> None:
        """Waits until a packet is complete, and handles page faults meanwhile."""
        number = self.device.number
        while self._completed < packet:
            self.host.do(op.wait_interrupt(number))
            if self.device.windows.windows:
                faults = self.host.do(op.mmio_read(number, layout.FAULTS))
                if faults > self._faults:
                    self.host.do(op.mmio_read(number, layout.FAULT_ADDRESS))
                    self.host.do(op.compute(self.host.settings.fault_cycles))
                    self._faults = faults
                    self.host.do(op.mmio_write(number, layout.GRANT, faults))
                    continue
            self._completed = self.host.do(op.mmio_read(number, layout.DONE))

    def stop(self) -> None:
        """Ends the device's threads, after all packets."""
        self.wait(self._submitted)
        self.submit(layout.STOP, [])


def _size(count: int, dtype: np.dtype[Any]) -> int:
    if dtype.hasobject or dtype.itemsize == 0:
        raise TypeError(f"dtype: found {dtype}; allowed: types of a fixed size without objects")
    if count < 1:
        raise ValueError(f"count: found {count}; allowed: 1 and more")
    return count * dtype.itemsize
