"""A host program and its devices as a kernel of the simulator."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from cxlab import op
from cxlab._kernel import Code, Core, Element, Kernel, Machine
from cxlab.opencl._device import Device, Fetch, command_processor, fault_unit, processing_element
from cxlab.opencl._host import Host, Thread


@dataclass(frozen=True)
class Settings:
    """What the driver and its devices cost, and the names of the host program's phases."""

    phases: tuple[str, ...]
    call_cycles: int
    fault_cycles: int
    page: int
    fetch: Fetch


class Application(Kernel):
    """A host program in the style of OpenCL, for ``cxlab.run(..., workloads={name: ...})``.

    It runs on the first core of the host. Its kernels run on the processing elements of the host's
    accelerators.
    """

    def __init__(
        self,
        main: Callable[[Host], Any],
        *,
        phases: Sequence[str] = ("host",),
        call_cycles: int = 2_400,
        fault_cycles: int = 24_000,
        page: int = 64 << 10,
        fetch: Fetch = "load",
    ) -> None:
        """Makes an application.

        Args:
            main: the host program. Each call of the host, of a queue or of an array takes simulated
                time; other Python code takes none.
            phases: names of phases that :meth:`Host.mark` may begin. The first has begun.
            call_cycles: cycles of the core for a call of the driver: a command that is enqueued, or
                an allocation of a buffer's contents or of shared memory. 1 us at 2.4 GHz, assumed.
            fault_cycles: cycles of the core for a page fault of a shared allocation, beside
                messages and DMA. 10 us at 2.4 GHz, assumed.
            page: bytes of a page of shared allocations, a multiple of 4 KiB. Assumed.
            fetch: how a device reads the packets of its queue: ``"load"`` over CXL.cache, or
                ``"dma"``, which a PCIe device needs.

        """
        for name, value in (("call_cycles", call_cycles), ("fault_cycles", fault_cycles)):
            if not 0 <= value < 1 << 32:
                raise ValueError(f"{name}: found {value}; allowed: 0 to {2**32 - 1}")
        if page < 4096 or page % 4096:
            raise ValueError(f"page: found {page}; allowed: a multiple of 4096")
        if fetch not in ("load", "dma"):
            raise ValueError(f'fetch: found {fetch!r}; allowed: "load", "dma"')
        if not phases:
            raise ValueError("phases: found none; allowed: one and more")
        self._main = main
        self._settings = Settings(tuple(phases), call_cycles, fault_cycles, page, fetch)
        self._results: list[list[Any]] = []
        self.phases = (*phases, "commands", "kernel")

    @property
    def results(self) -> list[Any]:
        """What ``main`` returned: on each host in their order, run after run."""
        return [result[0] for result in self._results if result]

    def bound(self, machine: Machine) -> Kernel:
        """The application on one host."""
        result: list[Any] = []
        self._results.append(result)
        return _Bound(self._main, self._settings, machine, self.phases, result)

    def threads(self, place: Core | Element, machine: Machine) -> Iterable[Code]:
        """Not called: :meth:`bound` has them."""
        raise NotImplementedError


def _marked(code: Code, phase: int) -> Code:
    """The code, in a phase."""
    yield op.mark(phase)
    yield from code


class _Bound(Kernel):
    """An application on one host."""

    def __init__(
        self,
        main: Callable[[Host], Any],
        settings: Settings,
        machine: Machine,
        phases: Sequence[str | tuple[str, int]],
        result: list[Any],
    ) -> None:
        self.phases = phases
        self._main = main
        self._settings = settings
        self._result = result
        numbers = range(machine.accelerators)
        self._devices = [Device(number, machine.elements, settings.fetch) for number in numbers]

    def threads(self, place: Core | Element, machine: Machine) -> Iterable[Code]:
        match place:
            case Core(0):
                yield self._host(machine)
            case Element(accelerator, number):
                device = self._devices[accelerator]
                last = len(self.phases) - 1
                if number == 0:
                    yield _marked(command_processor(device), last - 1)
                    yield _marked(fault_unit(device), last - 1)
                yield processing_element(device, number, last)

    def _host(self, machine: Machine) -> Code:
        host = Host(self._devices, self._settings, machine.seed)

        def program() -> Any:
            value = self._main(host)
            for device in host.get_devices():
                device.stop()
            return value

        thread = Thread(program)
        host.attach(thread)
        try:
            value = yield from thread.operations()
            self._result.append(value)
        finally:
            host.attach(None)
