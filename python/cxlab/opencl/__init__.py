"""Host programs and kernels in the style of OpenCL 3.0, on a simulated CPU and its accelerators.

Names are those of OpenCL, as PyOpenCL has them. A host program is a function that
:class:`Application` runs on the first core; see ``docs/guide/kernels.md`` for programs, and
``docs/explain/kernels.md`` for the model.
"""

from typing import NoReturn

from cxlab.opencl._application import Application
from cxlab.opencl._errors import Error
from cxlab.opencl._host import Array, Host, SVMPointer
from cxlab.opencl._host import OpenDevice as Device
from cxlab.opencl._kernel import Kernel, LocalMemory, Program, kernel
from cxlab.opencl._language import (
    GLOBAL_MEM_FENCE,
    LOCAL_MEM_FENCE,
    Access,
    Code,
    Pointer,
    WorkItem,
    atomic_cmpxchg,
    atomic_exchange,
    atomic_fetch_add,
    atomic_fetch_and,
    atomic_fetch_max,
    atomic_fetch_min,
    atomic_fetch_or,
    atomic_fetch_sub,
    atomic_fetch_xor,
    atomic_load,
    atomic_store,
    barrier,
    compute,
    vload,
    vstore,
)
from cxlab.opencl._queue import (
    Buffer,
    CommandQueue,
    Context,
    Event,
    Profile,
    SharedArray,
    command_queue_properties,
    enqueue_copy,
    enqueue_marker,
    enqueue_nd_range_kernel,
    mem_flags,
    mem_free,
    shared_mem_alloc,
    svm_alloc,
    svm_free,
    svm_mem_flags,
)

__all__ = [
    "GLOBAL_MEM_FENCE",
    "LOCAL_MEM_FENCE",
    "Access",
    "Application",
    "Array",
    "Buffer",
    "Code",
    "CommandQueue",
    "Context",
    "Device",
    "Error",
    "Event",
    "Host",
    "Kernel",
    "LocalMemory",
    "Pointer",
    "Profile",
    "Program",
    "SVMPointer",
    "SharedArray",
    "WorkItem",
    "atomic_cmpxchg",
    "atomic_exchange",
    "atomic_fetch_add",
    "atomic_fetch_and",
    "atomic_fetch_max",
    "atomic_fetch_min",
    "atomic_fetch_or",
    "atomic_fetch_sub",
    "atomic_fetch_xor",
    "atomic_load",
    "atomic_store",
    "barrier",
    "command_queue_properties",
    "compute",
    "enqueue_copy",
    "enqueue_marker",
    "enqueue_nd_range_kernel",
    "kernel",
    "mem_flags",
    "mem_free",
    "shared_mem_alloc",
    "svm_alloc",
    "svm_free",
    "svm_mem_flags",
    "vload",
    "vstore",
]


def __getattr__(name: str) -> NoReturn:
    allowed = ", ".join(__all__)
    raise AttributeError(
        f"cxlab.opencl: found {name!r}, which is not supported; allowed: {allowed}"
    )
