"""Shared allocations, whose pages are in the host's or in the device's memory."""

from __future__ import annotations

from dataclasses import dataclass, field

from cxlab.opencl._errors import Error


@dataclass
class Window:
    """A shared allocation: its pages move whole between the host and one device.

    Pages come to the device while it handles a fault, and leave it while it is idle. So the driver
    and the device never change the set at the same simulated time.
    """

    address: int
    bytes: int
    page: int
    device_address: int
    resident: set[int] = field(default_factory=set)

    def pages(self, address: int, count: int) -> range:
        """The pages that contain these bytes."""
        first = (address - self.address) // self.page
        return range(first, (address + count - 1 - self.address) // self.page + 1)

    def host_page(self, page: int) -> int:
        """First address of a page in the host's memory."""
        return self.address + page * self.page

    def device_page(self, page: int) -> int:
        """First address of a page in the device's memory."""
        return self.device_address + page * self.page


@dataclass
class Windows:
    """The shared allocations of a device."""

    windows: list[Window] = field(default_factory=list)

    def find(self, address: int) -> Window | None:
        """The shared allocation that contains an address, if any does."""
        for window in self.windows:
            if window.address <= address < window.address + window.bytes:
                return window
        return None

    def translated(self, address: int, count: int) -> int | None:
        """Where the device finds bytes: at the address, or in its own memory.

        None if a page of them is not in the device's memory.
        """
        window = self.find(address)
        if window is None:
            return address
        if address + count > window.address + window.bytes:
            message = f"found {count} B at {address:#x}, which end outside of a shared allocation"
            raise Error("OUT_OF_RESOURCES", message)
        if not window.resident.issuperset(window.pages(address, count)):
            return None
        return window.device_address + address - window.address

    def missing(self, address: int, count: int) -> int:
        """The first of these bytes whose page is not in the device's memory."""
        window = self.find(address)
        if window is not None:
            for page in window.pages(address, count):
                if page not in window.resident:
                    return max(address, window.host_page(page))
        return address
