"""Programs, kernels and their arguments."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from cxlab.opencl import _layout as layout
from cxlab.opencl._device import Body, Device, Thread, run_item
from cxlab.opencl._errors import Error
from cxlab.opencl._host import Array, SVMPointer
from cxlab.opencl._language import Code, Pointer, WorkItem

if TYPE_CHECKING:
    from cxlab.opencl._queue import Buffer, Context

#: OpenCL C's scalar types.
SCALARS: dict[str, np.dtype[Any]] = {
    "char": np.dtype(np.int8),
    "uchar": np.dtype(np.uint8),
    "short": np.dtype(np.int16),
    "ushort": np.dtype(np.uint16),
    "int": np.dtype(np.int32),
    "uint": np.dtype(np.uint32),
    "long": np.dtype(np.int64),
    "ulong": np.dtype(np.uint64),
    "float": np.dtype(np.float32),
    "double": np.dtype(np.float64),
}

_PARAMETER = re.compile(r"(?:(global|local)\s+)?(\w+)\s*(\*?)\s*\w*")


@dataclass(frozen=True)
class LocalMemory:
    """Local memory of each work-group, in bytes, as an argument of a kernel."""

    size: int

    def __post_init__(self) -> None:
        if self.size < 1:
            message = f"local memory: found {self.size} B; allowed: 1 and more"
            raise Error("INVALID_ARG_SIZE", message)


Argument: TypeAlias = "np.generic | Array | Buffer | SVMPointer | LocalMemory | None"


@dataclass(frozen=True)
class Parameter:
    """A parameter of a kernel: a scalar, or a pointer to memory of all or of the work-group."""

    dtype: np.dtype[Any]
    space: str | None = None

    def __str__(self) -> str:
        name = next(name for name, dtype in SCALARS.items() if dtype == self.dtype)
        return name if self.space is None else f"{self.space} {name} *"


def parameters(signature: str) -> list[Parameter]:
    """Reads parameters as OpenCL C writes them: ``"double a, global double *x"``."""
    found = []
    for text in filter(None, (part.strip() for part in signature.split(","))):
        match = _PARAMETER.fullmatch(text)
        space, name, star = match.groups() if match else (None, "", "")
        if name not in SCALARS or bool(space) != bool(star):
            types = ", ".join(SCALARS)
            raise Error(
                "INVALID_KERNEL_DEFINITION",
                f"found parameter {text!r}; allowed: a type ({types}), or `global TYPE *` or "
                "`local TYPE *`, and a name",
            )
        found.append(Parameter(SCALARS[name], space))
    return found


@dataclass(frozen=True)
class Function:
    """A kernel's code in Python, with its parameters."""

    name: str
    parameters: Sequence[Parameter]
    code: Callable[..., Code]

    def body(self) -> Body:
        return PythonBody(self)


@dataclass(frozen=True)
class PythonBody:
    """The code of a kernel in Python."""

    function: Function

    def item(self, item: WorkItem, values: Sequence[int], device: Device, element: int) -> Thread:
        local = device.own.local(element)
        arguments = []
        for parameter, word in zip(self.function.parameters, values, strict=True):
            if parameter.space == "local":
                arguments.append(Pointer(local, parameter.dtype))
                local += word
            elif parameter.space == "global":
                arguments.append(Pointer(word, parameter.dtype))
            else:
                data = word.to_bytes(8, "little")[: parameter.dtype.itemsize]
                arguments.append(np.frombuffer(data, parameter.dtype)[0])
        return run_item(self.function.code(item, *arguments), device)


def kernel(signature: str) -> Callable[[Callable[..., Code]], Function]:
    """Makes a generator function a kernel. ``signature`` has its parameters as in OpenCL C.

    The function has the work-item as its first parameter, then those of the signature.
    """
    found = parameters(signature)
    if len(found) > layout.MOST_ARGUMENTS:
        message = f"found {len(found)} parameters; allowed: {layout.MOST_ARGUMENTS}"
        raise Error("INVALID_KERNEL_DEFINITION", message)
    return lambda code: Function(getattr(code, "__name__", "kernel"), found, code)


class Program:
    """Kernels of a context. A kernel is an attribute: ``program.axpy``."""

    def __init__(self, context: Context, source: Sequence[Function]) -> None:
        """``source`` has functions that :func:`kernel` has made."""
        self.context = context
        self._functions = {function.name: function for function in source}

    def build(self) -> Program:
        """Returns the program: loading it takes no simulated time."""
        return self

    @property
    def kernel_names(self) -> list[str]:
        """Names of the kernels."""
        return sorted(self._functions)

    def function(self, name: str) -> Function:
        """The code of a kernel."""
        if name not in self._functions:
            known = ", ".join(self.kernel_names)
            raise Error("INVALID_KERNEL_NAME", f"found {name!r}; allowed: {known}")
        return self._functions[name]

    def __getattr__(self, name: str) -> Kernel:
        if name.startswith("_"):
            raise AttributeError(name)
        return Kernel(self, name)


class Kernel:
    """A kernel with its arguments."""

    def __init__(self, program: Program, name: str) -> None:
        self._function = program.function(name)
        self._arguments: list[Argument] | None = None

    @property
    def num_args(self) -> int:
        """Number of parameters."""
        return len(self._function.parameters)

    def set_args(self, *arguments: Argument) -> None:
        """Sets all arguments: scalars of NumPy, arrays, buffers, pointers and local memory."""
        if len(arguments) != self.num_args:
            message = f"found {len(arguments)} arguments; allowed: {self.num_args}"
            raise Error("INVALID_KERNEL_ARGS", f"{self._function.name}: {message}")
        for number, argument in enumerate(arguments):
            self.word(number, argument)
        self._arguments = list(arguments)

    def complete(self) -> list[Argument]:
        """The arguments."""
        if self._arguments is None:
            message = f"{self._function.name}: found no arguments; allowed: after set_args"
            raise Error("INVALID_KERNEL_ARGS", message)
        return self._arguments

    def body(self) -> Body:
        """The kernel's code."""
        return self._function.body()

    def word(self, number: int, argument: Argument) -> int:
        """An argument as a word of a packet."""
        parameter = self._function.parameters[number]
        if parameter.space == "local" and isinstance(argument, LocalMemory):
            return -(-argument.size // 64) * 64
        if parameter.space == "global":
            if argument is None:
                return 0
            address = getattr(argument, "address", None)
            if isinstance(address, int):
                return address
        if parameter.space is None and isinstance(argument, np.generic):
            if argument.dtype == parameter.dtype:
                return int.from_bytes(argument.tobytes(), "little")
            found = f"a scalar of type {argument.dtype}"
        else:
            found = type(argument).__name__
        allowed = {
            None: f"a scalar of type {parameter.dtype} of NumPy",
            "global": "an Array, a Buffer, an SVMPointer or None",
            "local": "LocalMemory",
        }[parameter.space]
        message = f"argument {number}, `{parameter}`: found {found}; allowed: {allowed}"
        raise Error("INVALID_ARG_VALUE", f"{self._function.name}: {message}")
