"""The requests of requests.c, from Python with ctypes.

python examples/coupling/requests.py libcxlab.so SCENARIO REQUESTS GAP_PS
"""

import ctypes
import sys
from ctypes import POINTER, byref, c_char_p, c_int32, c_size_t, c_uint32, c_uint64, c_void_p

OK, FULL = 0, -6
READ, WRITE = 0, 1
MASK = (1 << 64) - 1


class Options(ctypes.Structure):
    """`struct cxlab_options`."""

    _fields_ = (
        ("bytes", c_size_t),
        ("path", c_char_p),
        ("text", c_char_p),
        ("folder", c_char_p),
        ("set", POINTER(c_char_p)),
        ("set_count", c_size_t),
        ("seed", POINTER(c_uint64)),
        ("can_save", c_uint32),
    )


class PortInfo(ctypes.Structure):
    """`struct cxlab_port_info`."""

    _fields_ = (
        ("memory_bytes", c_uint64),
        ("line_bytes", c_uint32),
        ("most_bytes", c_uint32),
        ("depth", c_uint32),
        ("outstanding", c_uint32),
    )


class Completed(ctypes.Structure):
    """`struct cxlab_completed`."""

    _fields_ = (
        ("id", c_uint64),
        ("issued", c_uint64),
        ("completed", c_uint64),
        ("port", c_uint32),
        ("outcome", c_uint32),
    )


SIGNATURES = {
    "cxlab_create": (POINTER(Options), POINTER(c_uint64)),
    "cxlab_destroy": (c_uint64,),
    "cxlab_find_port": (c_uint64, c_char_p, POINTER(c_uint32)),
    "cxlab_get_port_info": (c_uint64, c_uint32, POINTER(PortInfo)),
    "cxlab_submit": (c_uint64, c_uint32, c_uint64, c_uint64, c_uint64, c_uint32, c_uint64),
    "cxlab_close_port": (c_uint64, c_uint32),
    "cxlab_next_event": (c_uint64, POINTER(c_uint64)),
    "cxlab_advance": (c_uint64, c_uint64),
    "cxlab_drain": (c_uint64,),
    "cxlab_take_completed": (c_uint64, c_void_p, c_size_t, POINTER(c_size_t)),
    "cxlab_digest": (c_uint64, POINTER(c_uint64)),
}


def load(path: str) -> ctypes.CDLL:
    """Load the library and declare the functions that are used here."""
    library = ctypes.CDLL(path)
    library.cxlab_last_error.restype = c_char_p
    for name, arguments in SIGNATURES.items():
        function = getattr(library, name)
        function.argtypes = arguments
        function.restype = c_int32
    return library


class Generator:
    """The numbers of a xorshift generator."""

    def __init__(self) -> None:
        """Begin with the seed of requests.c."""
        self.state = 0x9E3779B97F4A7C15

    def next(self) -> int:
        """Return the next number."""
        x = self.state
        x ^= x << 13 & MASK
        x ^= x >> 7
        x ^= x << 17 & MASK
        self.state = x
        return x


class Run:
    """A system, and a hash (FNV-1a) of what has completed."""

    def __init__(self, library: ctypes.CDLL, scenario: str) -> None:
        """Make the system."""
        self.library = library
        self.system = c_uint64()
        self.count = 0
        self.hash = 0xCBF29CE484222325
        self.room = (Completed * 1024)()
        options = Options(bytes=ctypes.sizeof(Options), path=scenario.encode())
        self.check(library.cxlab_create(byref(options), byref(self.system)))

    def check(self, status: int) -> None:
        """End the program with the text of an error."""
        if status != OK:
            sys.exit(f"error: {self.library.cxlab_last_error().decode()}")

    def take(self) -> None:
        """Add the requests that have completed to the hash."""
        count = c_size_t(len(self.room))
        while count.value == len(self.room):
            taken = self.library.cxlab_take_completed(
                self.system, self.room, len(self.room), byref(count)
            )
            self.check(taken)
            for one in self.room[: count.value]:
                self.count += 1
                for number in (one.id, one.issued, one.completed):
                    for byte in number.to_bytes(8, "little"):
                        self.hash = (self.hash ^ byte) * 0x100000001B3 & MASK

    def advance(self, time: int) -> None:
        """Advance to a time and take what has completed."""
        self.check(self.library.cxlab_advance(self.system, time))
        self.take()

    def submit_all(self, requests: int, gap: int) -> None:
        """Submit the requests, and run until all have completed."""
        library, port, info = self.library, c_uint32(), PortInfo()
        self.check(library.cxlab_find_port(self.system, b"outside", byref(port)))
        self.check(library.cxlab_get_port_info(self.system, port, byref(info)))
        lines = info.memory_bytes // 64
        generator, time = Generator(), 0
        for number in range(requests):
            address = generator.next() % lines * 64
            kind = WRITE if generator.next() % 4 == 0 else READ
            self.advance(time)
            status = library.cxlab_submit(self.system, port, number, address, 64, kind, time)
            while status == FULL:
                event = c_uint64()
                self.check(library.cxlab_next_event(self.system, byref(event)))
                time = event.value + 1
                self.advance(time)
                status = library.cxlab_submit(self.system, port, number, address, 64, kind, time)
            self.check(status)
            time += 1 + generator.next() % (2 * gap)
        self.check(library.cxlab_close_port(self.system, port))
        self.check(library.cxlab_drain(self.system))
        self.take()


def main() -> None:
    """Run with the arguments of the command line."""
    path, scenario, requests, gap = sys.argv[1:]
    library = load(path)
    run = Run(library, scenario)
    run.submit_all(int(requests), int(gap))
    digest = c_uint64()
    run.check(library.cxlab_digest(run.system, byref(digest)))
    print(f"completed {run.count} hash {run.hash:016x} digest {digest.value:016x}")
    run.check(library.cxlab_destroy(run.system))


if __name__ == "__main__":
    main()
