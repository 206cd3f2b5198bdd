"""Compiles kernels in C to a module, for accelerators of guests: see the guide on guests."""

import sys
from pathlib import Path

from cxlab.opencl._compile import compiled
from cxlab.opencl._errors import Error


def main() -> int:
    """Compiles SOURCE to MODULE, with further options of the compiler behind."""
    if len(sys.argv) < 3:
        print("usage: python -m cxlab.opencl SOURCE.c MODULE.wasm [OPTION...]", file=sys.stderr)
        return 2
    source, module, *options = sys.argv[1:]
    try:
        Path(module).write_bytes(compiled(Path(source), options))
    except (Error, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
