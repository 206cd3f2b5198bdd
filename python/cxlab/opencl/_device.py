"""The device's side: the command processor, and the processing elements that run work-groups."""

from __future__ import annotations

import itertools
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, TypeAlias

from cxlab import op
from cxlab.op import Op
from cxlab.opencl import _layout as layout
from cxlab.opencl._errors import Error
from cxlab.opencl._language import Access, Code, WorkItem
from cxlab.opencl._layout import OwnMemory, Range
from cxlab.opencl._pages import Window, Windows

Thread: TypeAlias = "Generator[Op | list[Op], Any, None]"
Fetch: TypeAlias = Literal["load", "dma"]


class Body(Protocol):
    """The code of a kernel for a launch."""

    def item(self, item: WorkItem, values: Sequence[int], device: Device, element: int) -> Thread:
        """The thread of a work-item. ``values`` are the arguments as the packet has them."""


@dataclass
class Launch:
    """A launch, as far as it is no data: the kernel's code."""

    body: Body


@dataclass
class Device:
    """The state of a device that takes no simulated time: code, page table, and timestamps."""

    number: int
    elements: int
    fetch: Fetch
    launches: dict[int, Launch] = field(default_factory=dict)
    windows: Windows = field(default_factory=Windows)
    #: Pages that the fault unit has to bring. All threads that change them are of this device.
    wanted: list[tuple[Window, int]] = field(default_factory=list)
    requests: int = 0
    #: Begin and end of each packet, in picoseconds, by its number.
    times: dict[int, tuple[int, int]] = field(default_factory=dict)

    @property
    def own(self) -> OwnMemory:
        return OwnMemory.of(self.number)


def command_processor(device: Device) -> Thread:
    """The thread that takes packets from the ring, one after the other."""
    number, own = device.number, device.own
    done = 0
    while True:
        written = yield op.mmio_await(layout.DOORBELL, done)
        ring = yield op.mmio_read(number, layout.RING)
        while done < written:
            packet = yield from _fetched(device, ring + done % layout.SLOTS * layout.PACKET)
            opcode, *words = layout.unpacked(packet)
            begin = yield op.time()
            if opcode == layout.STOP:
                yield op.mmio_write(number, layout.GO, done + 1)
                yield op.mmio_write(number, layout.WANTED, layout.NO_MORE)
                return
            if opcode == layout.LAUNCH:
                yield [op.write(own.packet, packet), op.store(own.finished, 0)]
                before = yield op.mmio_read(number, layout.ENDED)
                yield op.mmio_write(number, layout.GO, done + 1)
                yield op.mmio_await(layout.ENDED, before)
            elif opcode == layout.COPY_IN:
                yield op.dma_to_device(*words[:3])
            elif opcode == layout.COPY_OUT:
                yield op.dma_to_host(*words[:3])
            end = yield op.time()
            done += 1
            device.times[done] = (begin, end)
            yield op.mmio_write(number, layout.DONE, done)
            yield op.interrupt(number)


def _fetched(device: Device, address: int) -> Generator[Op, Any, bytes]:
    """Reads a packet from the host's memory, by CXL.cache or by DMA."""
    if device.fetch == "load":
        data: bytes = yield op.read(address, layout.PACKET)
        return data
    yield op.dma_to_device(address, device.own.packet + layout.PACKET, layout.PACKET)
    data = yield op.read(device.own.packet + layout.PACKET, layout.PACKET)
    return data


def processing_element(device: Device, element: int, phase: int) -> Thread:
    """The thread of a processing element: every ``elements``-th work-group of each launch."""
    number, own = device.number, device.own
    yield op.mark(phase)
    launch = 0
    while True:
        launch = yield op.mmio_await(layout.GO, launch)
        if launch not in device.launches:
            return
        packet = yield op.read(own.packet, layout.PACKET)
        words = layout.unpacked(packet)
        over = Range.of(words[1:11])
        values = words[12 : 12 + words[11]]
        body = device.launches[launch].body
        for group in itertools.islice(_groups(over), element, None, device.elements):
            items = [WorkItem(over, group, local) for local in _locals(over)]
            yield op.together([body.item(item, values, device, element) for item in items])
            yield op.count(len(items))
        ended = yield op.fetch_add(own.finished, 1)
        if ended + 1 == device.elements:
            yield op.mmio_write(number, layout.ENDED, launch)


def _groups(over: Range) -> Iterator[tuple[int, int, int]]:
    """Work-groups, the first dimension first."""
    x, y, z = over.groups
    return ((a, b, c) for c in range(z) for b in range(y) for a in range(x))


def _locals(over: Range) -> Iterator[tuple[int, int, int]]:
    """Work-items of a group, the first dimension first."""
    x, y, z = over.local
    return ((a, b, c) for c in range(z) for b in range(y) for a in range(x))


def run_item(code: Code, device: Device) -> Thread:
    """The thread of a work-item in Python: its accesses, after their page faults."""
    value: Any = None
    while True:
        try:
            asked = code.send(value)
        except StopIteration:
            return
        accesses = asked if isinstance(asked, list) else [asked]
        ops = []
        for access in accesses:
            if not isinstance(access, Access):
                raise Error(
                    "INVALID_KERNEL_DEFINITION",
                    f"found {type(access).__name__} yielded by a kernel; allowed: accesses of "
                    "pointers and functions of cxlab.opencl, or a list of them",
                )
            ops.append((yield from _operation(access, device)))
        if isinstance(asked, list):
            values = yield ops
            value = [access.decode(one) for access, one in zip(accesses, values, strict=True)]
        else:
            value = asked.decode((yield ops[0]))


def _operation(access: Access, device: Device) -> Generator[Op, Any, Op]:
    """The operation of an access, once its pages are there."""
    if access.address is None:
        return access.make(0)
    while (at := device.windows.translated(access.address, access.bytes)) is None:
        yield from device_fault(device, device.windows.missing(access.address, access.bytes))
    return access.make(at)


def device_fault(device: Device, address: int) -> Generator[Op, Any, None]:
    """Brings the page of an address to the device."""
    window = device.windows.find(address)
    if window is None:
        raise Error("OUT_OF_RESOURCES", f"found no shared allocation at {address:#x}")
    for page in window.pages(address, 1):
        yield from fault(device, window, page)


def fault(device: Device, window: Window, page: int) -> Generator[Op, Any, None]:
    """Requests a page of a shared allocation from the fault unit, and waits for it."""
    wanted = (window, page)
    if wanted not in device.wanted:
        device.wanted.append(wanted)
        device.requests += 1
        yield op.mmio_write(device.number, layout.WANTED, device.requests)
    arrived = yield op.mmio_read(device.number, layout.ARRIVED)
    while page not in window.resident:
        arrived = yield op.mmio_await(layout.ARRIVED, arrived)


def fault_unit(device: Device) -> Thread:
    """The thread that brings pages to the device, one after the other, with the driver's help.

    It is a hardware thread of its own, because accesses to registers stay in order within one.
    """
    number = device.number
    seen = faults = 0
    while seen != layout.NO_MORE:
        seen = yield op.mmio_await(layout.WANTED, seen)
        while device.wanted:
            window, page = device.wanted[0]
            faults += 1
            yield op.mmio_write(number, layout.FAULT_ADDRESS, window.host_page(page))
            yield op.mmio_write(number, layout.FAULTS, faults)
            yield op.interrupt(number)
            yield op.mmio_await(layout.GRANT, faults - 1)
            yield op.dma_to_device(window.host_page(page), window.device_page(page), window.page)
            window.resident.add(page)
            device.wanted.pop(0)
            yield op.mmio_write(number, layout.ARRIVED, faults)
