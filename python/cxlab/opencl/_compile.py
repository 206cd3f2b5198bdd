"""Compiling kernels in C for the processing elements, as WebAssembly with 64-bit pointers."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from cxlab.opencl._errors import Error

#: Flags of any compiler. The stack is private memory of a work-item.
_FLAGS = (
    "-std=c11",
    "-O2",
    "-ffreestanding",
    "-fvisibility=hidden",
    "-nostdlib",
    "-Werror=implicit-function-declaration",
    f"-I{Path(__file__).parent}",
    "-Wl,--no-entry",
    "-Wl,--export-dynamic",
    "-Wl,-z,stack-size=65536",
)
_CLANG = ("--target=wasm64", "-matomics", "-mbulk-memory", "-Wl,--stack-first")
_ZIG = ("-target", "wasm64-freestanding", "-mcpu=generic+atomics+bulk_memory")

MISSING = (
    "kernels in C need a compiler for WebAssembly: found neither clang with wasm-ld (Debian: "
    "apt-get install clang lld) nor the Python package ziglang (pip install ziglang)"
)


def compiler() -> list[str] | None:
    """The command of a compiler for wasm64, or None where there is none.

    clang comes first, where it has its linker, and else Zig's from the package ``ziglang``.
    """
    clang = shutil.which("clang")
    if clang is not None:
        targets = _output([clang, "--print-targets"])
        linker = _output([clang, "--target=wasm64", "--print-prog-name=wasm-ld"]).strip()
        if "wasm64" in targets and shutil.which(linker) is not None:
            return [clang, *_CLANG]
    if importlib.util.find_spec("ziglang") is not None:
        return [sys.executable, "-m", "ziglang", "cc", *_ZIG]
    return None


def _output(command: Sequence[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout


def compiled(source: Path, options: Sequence[str]) -> bytes:
    """Compiles a file to a module."""
    command = compiler()
    if command is None:
        raise Error("COMPILER_NOT_AVAILABLE", MISSING)
    with tempfile.TemporaryDirectory(prefix="cxlab-") as folder:
        module = Path(folder) / "kernels.wasm"
        arguments = [*command, *_FLAGS, *options, "-o", str(module), str(source)]
        done = subprocess.run(arguments, capture_output=True, text=True, check=False)
        if done.returncode != 0 or not module.exists():
            raise Error("BUILD_PROGRAM_FAILURE", f"{source}:\n{done.stderr}")
        return module.read_bytes()
