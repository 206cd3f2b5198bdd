"""What driver and device agree on: registers, packets, and the device's own memory."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass

from cxlab import op

#: Registers of a device, of 8 B each. The driver writes the first three.
RING = 0  # Address of the ring of packets in the host's memory.
DOORBELL = 1  # Number of packets that the driver has written.
GRANT = 2  # Number of page faults that the driver has handled.
DONE = 3  # Number of packets that the device has completed.
GO = 4  # Number of the launch that the processing elements work on.
ENDED = 5  # Number of the last launch that all processing elements have ended.
FAULTS = 6  # Number of page faults so far.
FAULT_ADDRESS = 7  # Address of the last page fault.
WANTED = 8  # Number of pages that were wanted so far; NO_MORE at the end.
ARRIVED = 9  # Number of pages that have arrived.

#: Value of WANTED after the last packet.
NO_MORE = 1 << 32

#: Packets in a ring, and their size.
SLOTS = 64
PACKET = 256
#: Most arguments of a kernel: the words of a packet that a launch does not use.
MOST_ARGUMENTS = 20

#: Opcodes of packets.
LAUNCH = 1
COPY_IN = 2
COPY_OUT = 3
MARKER = 4
STOP = 5

#: Local memory of a processing element, in bytes (CL_DEVICE_LOCAL_MEM_SIZE; assumed).
LOCAL_BYTES = 64 << 10
#: Most work-items of a work-group (CL_DEVICE_MAX_WORK_GROUP_SIZE; assumed).
MOST_ITEMS = 256
#: Bytes of device memory for buffers and shared allocations (CL_DEVICE_GLOBAL_MEM_SIZE; assumed).
GLOBAL_BYTES = 64 << 30


@dataclass(frozen=True)
class OwnMemory:
    """Addresses in a device's own memory."""

    first: int

    @staticmethod
    def of(device: int) -> OwnMemory:
        return OwnMemory(op.scratch(device))

    @property
    def packet(self) -> int:
        """The packet that the processing elements work on."""
        return self.first

    @property
    def finished(self) -> int:
        """Number of processing elements that have ended their part of a launch."""
        return self.first + 1024

    def local(self, element: int) -> int:
        """Local memory of a processing element."""
        return self.first + (1 << 20) + element * LOCAL_BYTES

    @property
    def buffers(self) -> int:
        """First address of buffers and of pages of shared allocations."""
        return self.first + (1 << 30)


def packed(words: Sequence[int]) -> bytes:
    """A packet of these words."""
    return struct.pack(f"<{len(words)}Q", *words).ljust(PACKET, b"\0")


def unpacked(data: bytes) -> tuple[int, ...]:
    """The words of a packet."""
    return struct.unpack(f"<{PACKET // 8}Q", data)


@dataclass(frozen=True)
class Range:
    """An NDRange: sizes by dimension."""

    dimensions: int
    size: tuple[int, int, int]
    local: tuple[int, int, int]
    offset: tuple[int, int, int]

    @property
    def groups(self) -> tuple[int, int, int]:
        """Number of work-groups by dimension."""
        (x, y, z), (u, v, w) = self.size, self.local
        return (x // u, y // v, z // w)

    def words(self) -> list[int]:
        """The range as words of a packet."""
        return [self.dimensions, *self.size, *self.local, *self.offset]

    @staticmethod
    def of(words: Sequence[int]) -> Range:
        """The range in words of a packet."""
        dimensions, *rest = words
        size, local, offset = (tuple(rest[at : at + 3]) for at in (0, 3, 6))
        return Range(dimensions, _three(size), _three(local), _three(offset))


def _three(values: tuple[int, ...]) -> tuple[int, int, int]:
    x, y, z = values
    return (x, y, z)
