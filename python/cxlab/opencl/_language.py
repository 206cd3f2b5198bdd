"""What a kernel in Python sees: its work-item, pointers, and what it yields."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import DTypeLike, NDArray

from cxlab import op
from cxlab.op import Op
from cxlab.opencl._errors import Error
from cxlab.opencl._layout import Range

#: Fences of a barrier. A work-item awaits its accesses as it goes, so both mean the same.
LOCAL_MEM_FENCE = 1
GLOBAL_MEM_FENCE = 2

Code: TypeAlias = "Generator[Access | list[Access], Any, None]"
"""A work-item: yields accesses, or lists of accesses in flight together, and is sent values."""


@dataclass(frozen=True)
class Access:
    """What a work-item does next: an access to memory, a barrier, or computing.

    ``make`` makes the operation for the address, ``decode`` the value that is sent back.
    """

    make: Callable[[int], Op]
    decode: Callable[[Any], Any]
    address: int | None = None
    bytes: int = 0


def _nothing(_: Any) -> None:
    return None


@dataclass(frozen=True)
class Pointer:
    """An address with the type of what it points to. ``pointer + n`` counts elements."""

    address: int
    dtype: np.dtype[Any]

    def __add__(self, elements: int) -> Pointer:
        return Pointer(self.address + int(elements) * self.dtype.itemsize, self.dtype)

    def __getitem__(self, index: int) -> Access:
        """Loads an element."""
        return (self + index)._load()

    def store(self, index: int, value: Any) -> Access:
        """Stores an element."""
        at, data = self + index, np.asarray(value, self.dtype).tobytes()
        if _is_number(self.dtype):
            number = int.from_bytes(data, "little")
            make: Callable[[int], Op] = lambda address: op.store(address, number, len(data))  # noqa: E731
        else:
            make = lambda address: op.write(address, data)  # noqa: E731
        return Access(make, _nothing, at.address, len(data))

    def cast(self, dtype: DTypeLike, address: int | None = None) -> Pointer:
        """A pointer of another type, to the same address or another one."""
        return Pointer(self.address if address is None else int(address), np.dtype(dtype))

    def _load(self) -> Access:
        size = self.dtype.itemsize
        if not _is_number(self.dtype):
            return Access(lambda at: op.read(at, size), self._element, self.address, size)
        return Access(lambda at: op.load(at, size), self._number, self.address, size)

    def _element(self, data: bytes) -> Any:
        return np.frombuffer(data, self.dtype)[0]

    def _number(self, value: int) -> Any:
        return self._element(value.to_bytes(self.dtype.itemsize, "little"))


def _is_number(dtype: np.dtype[Any]) -> bool:
    return dtype.fields is None and dtype.itemsize <= 8


@dataclass(frozen=True)
class WorkItem:
    """A work-item: its place in the NDRange."""

    range: Range
    group: tuple[int, int, int]
    local: tuple[int, int, int]

    def get_work_dim(self) -> int:
        """Number of dimensions."""
        return self.range.dimensions

    def get_global_id(self, dimension: int) -> int:
        """Number of the work-item in the NDRange, with the offset; 0 for other dimensions."""
        if not 0 <= dimension < self.range.dimensions:
            return 0
        first = self.group[dimension] * self.range.local[dimension]
        return self.range.offset[dimension] + first + self.local[dimension]

    def get_local_id(self, dimension: int) -> int:
        """Number of the work-item in its work-group; 0 for other dimensions."""
        return self.local[dimension] if 0 <= dimension < 3 else 0

    def get_group_id(self, dimension: int) -> int:
        """Number of the work-group; 0 for other dimensions."""
        return self.group[dimension] if 0 <= dimension < 3 else 0

    def get_global_size(self, dimension: int) -> int:
        """Number of work-items; 1 for other dimensions."""
        return self.range.size[dimension] if 0 <= dimension < 3 else 1

    def get_local_size(self, dimension: int) -> int:
        """Number of work-items of a work-group; 1 for other dimensions."""
        return self.range.local[dimension] if 0 <= dimension < 3 else 1

    def get_num_groups(self, dimension: int) -> int:
        """Number of work-groups; 1 for other dimensions."""
        return self.range.groups[dimension] if 0 <= dimension < 3 else 1

    def get_global_offset(self, dimension: int) -> int:
        """Offset of the numbers of work-items; 0 for other dimensions."""
        return self.range.offset[dimension] if 0 <= dimension < 3 else 0


def barrier(flags: int = LOCAL_MEM_FENCE | GLOBAL_MEM_FENCE) -> Access:
    """Waits until all work-items of the work-group have reached a barrier."""
    if flags not in (1, 2, 3):
        raise Error("INVALID_VALUE", f"barrier: found flags {flags}; allowed: 1, 2 or 3")
    return Access(lambda _: op.barrier(), _nothing)


def compute(cycles: int) -> Access:
    """Computes for some cycles of the device. Not of OpenCL: Python's own time is not simulated."""
    return Access(lambda _: op.compute(cycles), _nothing)


def vload(n: int, offset: int, pointer: Pointer) -> Access:
    """Loads ``n`` elements from ``pointer + offset * n`` (``vload2`` to ``vload16``)."""
    at, count = pointer + offset * _vector(n), n * pointer.dtype.itemsize
    decode = lambda data: np.frombuffer(data, pointer.dtype)  # noqa: E731
    return Access(lambda address: op.read(address, count), decode, at.address, count)


def vstore(values: Sequence[Any] | NDArray[Any], offset: int, pointer: Pointer) -> Access:
    """Stores elements at ``pointer + offset * n`` (``vstore2`` to ``vstore16``)."""
    data = np.asarray(values, pointer.dtype).tobytes()
    at = pointer + offset * _vector(len(values))
    return Access(lambda address: op.write(address, data), _nothing, at.address, len(data))


def _vector(n: int) -> int:
    if n not in (2, 3, 4, 8, 16):
        message = f"found a vector of {n} elements; allowed: 2, 3, 4, 8, 16"
        raise Error("INVALID_VALUE", message)
    return n


def _atomic(pointer: Pointer, value: Any, make: Callable[[int, int, int], Op]) -> Access:
    """An atomic operation: ``make`` has its address, its operand and the number's size."""
    dtype = pointer.dtype
    if dtype.kind not in "iu" or dtype.itemsize not in (4, 8):
        message = f"found an atomic operation on {dtype}; allowed: int32, uint32, int64, uint64"
        raise Error("INVALID_VALUE", message)
    size = dtype.itemsize
    number = int(value) % (1 << (8 * size))
    return Access(
        lambda address: make(address, number, size), pointer._number, pointer.address, size
    )


def atomic_load(pointer: Pointer) -> Access:
    """Loads a number."""
    return _atomic(pointer, 0, lambda address, _, size: op.load(address, size))


def atomic_store(pointer: Pointer, value: int) -> Access:
    """Stores a number."""
    done = _atomic(pointer, value, op.store)
    return Access(done.make, _nothing, done.address, done.bytes)


def atomic_exchange(pointer: Pointer, value: int) -> Access:
    """Replaces a number and returns the old value."""
    return _atomic(pointer, value, op.swap)


def atomic_cmpxchg(pointer: Pointer, compare: int, value: int) -> Access:
    """Replaces a number if it equals ``compare``, and returns the old value."""
    expected = int(compare) % (1 << (8 * pointer.dtype.itemsize))
    return _atomic(
        pointer, value, lambda at, number, size: op.compare_exchange(at, expected, number, size)
    )


def atomic_fetch_add(pointer: Pointer, operand: int) -> Access:
    """Adds to a number and returns the old value."""
    return _atomic(pointer, operand, op.fetch_add)


def atomic_fetch_sub(pointer: Pointer, operand: int) -> Access:
    """Subtracts from a number and returns the old value."""
    return _atomic(pointer, -int(operand), op.fetch_add)


def atomic_fetch_and(pointer: Pointer, operand: int) -> Access:
    """Ands a number with the operand and returns the old value."""
    return _atomic(pointer, operand, op.fetch_and)


def atomic_fetch_or(pointer: Pointer, operand: int) -> Access:
    """Ors a number with the operand and returns the old value."""
    return _atomic(pointer, operand, op.fetch_or)


def atomic_fetch_xor(pointer: Pointer, operand: int) -> Access:
    """Exclusive-ors a number with the operand and returns the old value."""
    return _atomic(pointer, operand, op.fetch_xor)


def atomic_fetch_min(pointer: Pointer, operand: int) -> Access:
    """Replaces a number by the operand if that is less, and returns the old value."""
    signed = pointer.dtype.kind == "i"
    return _atomic(
        pointer, operand, lambda at, value, size: op.fetch_min(at, value, size, signed=signed)
    )


def atomic_fetch_max(pointer: Pointer, operand: int) -> Access:
    """Replaces a number by the operand if that is greater, and returns the old value."""
    signed = pointer.dtype.kind == "i"
    return _atomic(
        pointer, operand, lambda at, value, size: op.fetch_max(at, value, size, signed=signed)
    )
