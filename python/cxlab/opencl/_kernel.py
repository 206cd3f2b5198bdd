"""Programs, kernels and their arguments."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import numpy as np

from cxlab import _native, op
from cxlab.opencl import _layout as layout
from cxlab.opencl._compile import compiled
from cxlab.opencl._device import Body, Device, Thread, device_fault, run_item
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

    @property
    def rounded(self) -> int:
        """Size in whole lines."""
        return -(-self.size // 64) * 64

    def __post_init__(self) -> None:
        if self.size < 1:
            message = f"local memory: found {self.size} B; allowed: 1 and more"
            raise Error("INVALID_ARG_SIZE", message)


Argument: TypeAlias = "np.generic | Array | Buffer | SVMPointer | LocalMemory | None"


class Parameter(Protocol):
    """A parameter of a kernel."""

    def word(self, argument: Argument) -> int | None:
        """An argument as a word of a packet; None where the argument does not fit."""

    @property
    def allowed(self) -> str:
        """The arguments that fit."""


def _bits(argument: np.generic) -> int:
    return int.from_bytes(argument.tobytes(), "little")


def _pointer(argument: Argument) -> int | None:
    """The address of a global pointer."""
    if argument is None:
        return 0
    address = getattr(argument, "address", None)
    return address if isinstance(address, int) else None


_POINTERS = "an Array, a Buffer, an SVMPointer or None"


@dataclass(frozen=True)
class Typed:
    """A parameter of a kernel in Python: a scalar, or a pointer to global or local memory."""

    dtype: np.dtype[Any]
    space: str | None = None

    def word(self, argument: Argument) -> int | None:
        if self.space == "local":
            return argument.rounded if isinstance(argument, LocalMemory) else None
        if self.space == "global":
            return _pointer(argument)
        fits = isinstance(argument, np.generic) and argument.dtype == self.dtype
        return _bits(argument) if fits else None  # type: ignore[arg-type]

    @property
    def allowed(self) -> str:
        if self.space is None:
            return f"np.{self.dtype}"
        return _POINTERS if self.space == "global" else "LocalMemory"


def parameters(signature: str) -> list[Typed]:
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
        found.append(Typed(SCALARS[name], space))
    return found


class Function(Protocol):
    """The code of a kernel, with its parameters."""

    @property
    def name(self) -> str: ...

    @property
    def parameters(self) -> Sequence[Parameter]: ...

    def body(self, arguments: Sequence[Argument]) -> Body:
        """The code for a launch."""


@dataclass(frozen=True)
class PythonFunction:
    """A kernel in Python."""

    name: str
    parameters: Sequence[Typed]
    code: Callable[..., Code]

    def body(self, arguments: Sequence[Argument]) -> Body:  # noqa: ARG002 (of Function)
        return self

    def item(self, item: WorkItem, values: Sequence[int], device: Device, element: int) -> Thread:
        local = device.own.local(element)
        arguments = []
        for parameter, word in zip(self.parameters, values, strict=True):
            if parameter.space == "local":
                arguments.append(Pointer(local, parameter.dtype))
                local += word
            elif parameter.space == "global":
                arguments.append(Pointer(word, parameter.dtype))
            else:
                data = word.to_bytes(8, "little")[: parameter.dtype.itemsize]
                arguments.append(np.frombuffer(data, parameter.dtype)[0])
        return run_item(self.code(item, *arguments), device)


def kernel(signature: str) -> Callable[[Callable[..., Code]], PythonFunction]:
    """Makes a generator function a kernel. ``signature`` has its parameters as in OpenCL C.

    The function has the work-item as its first parameter, then those of the signature.
    """
    found = parameters(signature)
    return lambda code: PythonFunction(getattr(code, "__name__", "kernel"), found, code)


#: Types of NumPy for a C parameter, by its type in WebAssembly; other integers are extended to i32.
_WASM = {
    "i32": ("int8", "uint8", "int16", "uint16", "int32", "uint32"),
    "i64": ("int64", "uint64"),
    "f32": ("float32",),
    "f64": ("float64",),
}


@dataclass(frozen=True)
class Compiled:
    """A parameter of a kernel in C, by its type in WebAssembly."""

    type: str

    def word(self, argument: Argument) -> int | None:
        if isinstance(argument, np.generic):
            if str(argument.dtype) not in _WASM[self.type]:
                return None
            if self.type == "i32":
                return int(argument) % (1 << 32)
            return _bits(argument)
        if self.type != "i64":
            return None
        return argument.rounded if isinstance(argument, LocalMemory) else _pointer(argument)

    @property
    def allowed(self) -> str:
        scalars = ", ".join(f"np.{name}" for name in _WASM[self.type])
        return scalars if self.type != "i64" else f"{scalars}, {_POINTERS}, or LocalMemory"


@dataclass(frozen=True)
class CFunction:
    """A kernel in C."""

    program: _native.CompiledProgram
    name: str
    parameters: Sequence[Compiled]

    def body(self, arguments: Sequence[Argument]) -> Body:
        local = tuple(isinstance(argument, LocalMemory) for argument in arguments)
        return _CBody(self.program, self.name, local)


@dataclass(frozen=True)
class _CBody:
    """The code of a kernel in C for a launch; ``local`` says which arguments are local memory."""

    program: _native.CompiledProgram
    name: str
    local: tuple[bool, ...]

    def item(self, item: WorkItem, values: Sequence[int], device: Device, element: int) -> Thread:
        at = device.own.local(element)
        arguments = []
        for is_local, word in zip(self.local, values, strict=True):
            arguments.append(at if is_local else word)
            at += word if is_local else 0
        over = item.range
        axes = range(3)
        numbers = (
            over.dimensions,
            [item.get_global_id(axis) for axis in axes],
            list(item.local),
            list(item.group),
            list(over.size),
            list(over.local),
            list(over.offset),
        )
        pages = device.windows if device.windows.windows else None
        call = self.program.call(self.name, arguments, numbers, pages)
        while (missing := (yield op.call(call))) is not None:
            yield from device_fault(device, missing)


def c_functions(module: bytes) -> list[CFunction]:
    """The kernels of a compiled module."""
    try:
        program = _native.CompiledProgram(module)
    except ValueError as error:
        raise Error("BUILD_PROGRAM_FAILURE", str(error)) from error
    found = []
    for name, types, is_void in program.functions():
        if not is_void:
            message = f"`{name}` returns a value; allowed: kernels that return nothing"
            raise Error("BUILD_PROGRAM_FAILURE", message)
        found.append(CFunction(program, name, [Compiled(one) for one in types]))
    return found


class Program:
    """Kernels of a context. A kernel is an attribute: ``program.axpy``."""

    def __init__(self, context: Context, source: Sequence[Function] | str | Path) -> None:
        """``source`` has kernels in Python, made by :func:`kernel`, or in C.

        A kernel in C is text, or a file. It includes ``cxlab_kernel.h``.
        """
        self.context = context
        self._source = source
        self._functions: dict[str, Function] | None = None

    def build(self, options: Sequence[str] = ()) -> Program:
        """Compiles C, with further options, and returns the program. Takes no simulated time."""
        functions: Sequence[Function]
        if isinstance(self._source, Path):
            functions = c_functions(compiled(self._source, options))
        elif isinstance(self._source, str):
            with tempfile.TemporaryDirectory(prefix="cxlab-") as folder:
                file = Path(folder) / "kernels.c"
                file.write_text(self._source)
                functions = c_functions(compiled(file, options))
        elif options:
            message = "options: found some; allowed: for kernels in C"
            raise Error("INVALID_BUILD_OPTIONS", message)
        else:
            functions = self._source
        for function in functions:
            if len(function.parameters) > layout.MOST_ARGUMENTS:
                found = f"`{function.name}` has {len(function.parameters)} parameters"
                message = f"{found}; allowed: {layout.MOST_ARGUMENTS}"
                raise Error("BUILD_PROGRAM_FAILURE", message)
        self._functions = {function.name: function for function in functions}
        return self

    @property
    def kernel_names(self) -> list[str]:
        """Names of the kernels."""
        if self._functions is None:
            message = "found a program that is not built; allowed: after build"
            raise Error("INVALID_PROGRAM_EXECUTABLE", message)
        return sorted(self._functions)

    def function(self, name: str) -> Function:
        """The code of a kernel."""
        known = self.kernel_names
        if self._functions is None or name not in self._functions:
            raise Error("INVALID_KERNEL_NAME", f"found {name!r}; allowed: {', '.join(known)}")
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
        """The kernel's code for a launch."""
        return self._function.body(self.complete())

    def word(self, number: int, argument: Argument) -> int:
        """An argument as a word of a packet."""
        parameter = self._function.parameters[number]
        word = parameter.word(argument)
        if word is not None:
            return word
        found = f"np.{argument.dtype}" if isinstance(argument, np.generic) else type(argument)
        message = f"argument {number}: found {found}; allowed: {parameter.allowed}"
        raise Error("INVALID_ARG_VALUE", f"{self._function.name}: {message}")
