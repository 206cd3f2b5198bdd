"""Operations that threads of a :class:`cxlab.Kernel` yield, and their return values.

Numbers have 1 to 8 bytes, little endian, within a line of 64 B. Ranges have any length. Addresses
are those of the kernel's regions, of memory from :func:`mmap`, or, on a processing element of an
accelerator, of its own buffers (:func:`scratch`).
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from typing import Any, NewType

from cxlab import _native

Op = NewType("Op", tuple[object, ...])
"""An operation."""

_SCRATCH_BASE = 1 << 52
_SCRATCH_SPAN = 1 << 40


def scratch(accelerator: int) -> int:
    """First address of the buffers of an accelerator."""
    return _SCRATCH_BASE + accelerator * _SCRATCH_SPAN


def load(address: int, size: int = 8) -> Op:
    """Loads a number and returns it."""
    return Op(("load", address, size))


def store(address: int, value: int, size: int = 8) -> Op:
    """Stores a number. Returns None when the store is visible to all."""
    return Op(("store", address, size, value))


def fetch_add(address: int, operand: int, size: int = 8) -> Op:
    """Adds to a number and returns the old value."""
    return Op(("fetch_add", address, size, operand))


def swap(address: int, value: int, size: int = 8) -> Op:
    """Replaces a number and returns the old value."""
    return Op(("swap", address, size, value))


def compare_exchange(address: int, compare: int, value: int, size: int = 8) -> Op:
    """Replaces a number if it equals ``compare``, and returns the old value."""
    return Op(("compare_exchange", address, size, value, compare))


def fetch_and(address: int, operand: int, size: int = 8) -> Op:
    """Ands a number with the operand and returns the old value."""
    return Op(("fetch_and", address, size, operand))


def fetch_or(address: int, operand: int, size: int = 8) -> Op:
    """Ors a number with the operand and returns the old value."""
    return Op(("fetch_or", address, size, operand))


def fetch_xor(address: int, operand: int, size: int = 8) -> Op:
    """Exclusive-ors a number with the operand and returns the old value."""
    return Op(("fetch_xor", address, size, operand))


def fetch_min(address: int, operand: int, size: int = 8, *, signed: bool = False) -> Op:
    """Replaces a number by the operand if that is less, and returns the old value."""
    return Op(("fetch_min", address, size, operand, signed))


def fetch_max(address: int, operand: int, size: int = 8, *, signed: bool = False) -> Op:
    """Replaces a number by the operand if that is greater, and returns the old value."""
    return Op(("fetch_max", address, size, operand, signed))


def await_change(address: int, value: int, size: int = 8) -> Op:
    """Waits until a number differs from ``value``, and returns the new value."""
    return Op(("await_change", address, size, value))


def read(address: int, count: int) -> Op:
    """Loads a range, with as many lines in flight as possible, and returns its bytes."""
    return Op(("read", address, count))


def write(address: int, data: bytes) -> Op:
    """Stores a range. Returns None."""
    return Op(("write", address, data))


def push(address: int, data: bytes) -> Op:
    """Pushes a range into the host's last-level cache (NC-P). Returns None."""
    return Op(("push", address, data))


def flush(address: int) -> Op:
    """Writes a line back and invalidates it in all caches (CLFLUSH)."""
    return Op(("flush", address))


def write_back(address: int) -> Op:
    """Writes a line back, which may stay cached (CLWB)."""
    return Op(("write_back", address))


def demote(address: int) -> Op:
    """Moves a line to the last-level cache (CLDEMOTE)."""
    return Op(("demote", address))


def prefetch(address: int) -> Op:
    """Prefetches a line."""
    return Op(("prefetch", address))


def compute(cycles: int) -> Op:
    """Computes for some cycles of the core's or the accelerator's clock."""
    return Op(("compute", cycles))


def fence() -> Op:
    """Completes when all earlier operations have completed."""
    return Op(("fence",))


def dma_to_device(host: int, device: int, count: int) -> Op:
    """Copies bytes by DMA from the host's memory to the accelerator. For processing elements."""
    return Op(("dma_to_device", host, device, count))


def dma_to_host(host: int, device: int, count: int) -> Op:
    """Copies bytes by DMA from the accelerator to the host's memory. For processing elements."""
    return Op(("dma_to_host", host, device, count))


def mmio_read(accelerator: int, register: int) -> Op:
    """Reads a register of 8 B and returns its value."""
    return Op(("mmio_read", accelerator, register))


def mmio_write(accelerator: int, register: int, value: int) -> Op:
    """Writes a register."""
    return Op(("mmio_write", accelerator, register, value))


def mmio_await(register: int, value: int) -> Op:
    """Waits until a register of the element's accelerator differs, and returns the new value."""
    return Op(("mmio_await", register, value))


def interrupt(vector: int) -> Op:
    """Sends an interrupt to the host. For processing elements."""
    return Op(("interrupt", vector))


def wait_interrupt(vector: int) -> Op:
    """Waits for an interrupt and consumes it. For cores."""
    return Op(("wait_interrupt", vector))


def mmap(count: int, placement: int = 0) -> Op:
    """Maps memory and returns its address. ``placement`` is a number of ``os.mappings``."""
    return Op(("mmap", count, placement))


def munmap(address: int, count: int) -> Op:
    """Unmaps memory."""
    return Op(("munmap", address, count))


def together(threads: Iterable[Generator[Any, Any, None]]) -> Op:
    """Runs generators side by side on this core or element, until all have ended.

    They share its hardware thread: one operation begins in a cycle, and all of them may have
    operations in flight.
    """
    return Op(("together", list(threads)))


def barrier() -> Op:
    """Waits until all generators of the same :func:`together` have reached a barrier."""
    return Op(("barrier",))


def call(compiled: _native.CompiledCall) -> Op:
    """Runs a call of a compiled function on a processing element.

    Returns None when the function has returned, or an address of a shared allocation of
    :mod:`cxlab.opencl` whose page the device does not have; yield the call again then.
    """
    return Op(("call", compiled))


def time() -> Op:
    """Returns the simulated time in picoseconds. Takes no time."""
    return Op(("time",))


def mark(phase: int) -> Op:
    """Assigns the following operations to this phase. Takes no time."""
    return Op(("mark", phase))


def count(operations: int = 1) -> Op:
    """Counts completed operations of the phase, in the kernel's own unit. Takes no time."""
    return Op(("count", operations))
