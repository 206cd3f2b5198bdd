"""Kernels whose threads are Python generators."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from cxlab import _native
from cxlab.op import Op

Memory = _native.Memory

Code = Generator[Op | list[Op], Any, None]
"""A thread: yields an operation or a list of them, and is sent the value or a list of values."""


@dataclass(frozen=True)
class Region:
    """Memory that a kernel may use.

    Args:
        first: its first address.
        bytes: its size in bytes.

    """

    first: int
    bytes: int


@dataclass(frozen=True)
class Machine:
    """The machine that a kernel runs on.

    Args:
        seed: seed of the run.
        cxl: CXL memory.
        local: the host's own memory; with an operating system the process's heap.
        cores: number of cores that run threads.
        accelerators: number of accelerators of the host.
        elements: number of processing elements of each accelerator.

    """

    seed: int
    cxl: Region
    local: Region
    cores: int
    accelerators: int
    elements: int


@dataclass(frozen=True)
class Core:
    """A core of the host."""

    number: int


@dataclass(frozen=True)
class Element:
    """A processing element of an accelerator."""

    accelerator: int
    number: int


class Kernel:
    """Threads on cores and accelerators that share one simulated memory with real values.

    Override :meth:`threads`, and the other methods as needed. Threads share only the simulated
    memory. A thread may depend on the values that its operations return, but not on Python state
    that another thread changes. Otherwise results differ with the number of threads.
    """

    phases: Sequence[str | tuple[str, int]] = ("kernel",)
    """Names of phases, with the bytes of an operation where they have any."""

    def bound(self, machine: Machine) -> Kernel:  # noqa: ARG002 (for those that override it)
        """The kernel for one host: this one, or another where a kernel keeps state of a host."""
        return self

    def prepare(self, memory: Memory, machine: Machine) -> None:
        """Writes the initial memory before any thread runs."""

    def threads(self, place: Core | Element, machine: Machine) -> Iterable[Code]:
        """Returns the threads of a core or of a processing element."""
        raise NotImplementedError

    def check(self, memory: Memory, machine: Machine) -> None:
        """Raises if the result is wrong. Called when all threads have ended."""


class Offer:
    """A kernel in the form that the extension module expects."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel

    def bind(
        self,
        seed: int,
        cxl: tuple[int, int],
        local: tuple[int, int],
        cores: int,
        accelerators: int,
        elements: int,
    ) -> _Bound:
        machine = Machine(seed, Region(*cxl), Region(*local), cores, accelerators, elements)
        return _Bound(self._kernel, machine)


class _Bound:
    def __init__(self, kernel: Kernel, machine: Machine) -> None:
        self._kernel = kernel = kernel.bound(machine)
        self._machine = machine
        named = [phase if isinstance(phase, tuple) else (phase, 0) for phase in kernel.phases]
        if not 1 <= len(named) <= 256:
            raise ValueError(f"found {len(named)} phases; allowed: 1 to 256")
        self.phases = named

    def prepare(self, memory: Memory) -> None:
        self._kernel.prepare(memory, self._machine)

    def threads(self, accelerator: int | None, number: int) -> list[Code]:
        place = Core(number) if accelerator is None else Element(accelerator, number)
        made = list(self._kernel.threads(place, self._machine) or ())
        for thread in made:
            if not isinstance(thread, Generator):
                raise TypeError(
                    f"found {type(thread).__name__} among a kernel's threads; allowed: generators "
                    "that yield operations of cxlab.op"
                )
        return made

    def check(self, memory: Memory) -> None:
        self._kernel.check(memory, self._machine)
