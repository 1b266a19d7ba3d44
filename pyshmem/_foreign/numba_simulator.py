# SPDX-License-Identifier: BSD-3-Clause
"""What of Numba's simulator is replaced and read. Seen in numba-cuda 0.30.4.

Importing this imports ``numba.cuda`` with its simulator, which must have been chosen.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba import cuda
from numba.cuda.simulator import api, kernel, kernelapi
from numba.cuda.simulator.cudadrv.devicearray import FakeCUDAArray, FakeWithinKernelCUDAArray

from .hooks import Hook

#: Launches from the host, and calls of kernels' functions.
LAUNCH = Hook(kernel.FakeCUDAKernel, "__call__", "self args")
CONFIGURE = Hook(kernel.FakeCUDAKernel, "__getitem__", "self configuration")
FOR_ALL = Hook(kernel.FakeCUDAKernel, "forall", "self ntasks tpb stream sharedmem")
COOPERATIVE_BLOCKS = Hook(kernel.FakeOverload, "max_cooperative_grid_blocks", "self blockdim")
#: By which kernels are told who they are.
THREADING = Hook(kernelapi, "threading")
GRID_SYNC = Hook(kernelapi.GridGroup, "sync", "self")
SHARED = Hook(kernelapi.FakeCUDAModule, "shared")
#: What waits for all, or copies in the order of a stream.
COPY_TO_HOST = Hook(FakeCUDAArray, "copy_to_host", "self ary stream")
COPY_TO_DEVICE = Hook(FakeCUDAArray, "copy_to_device", "self ary stream")
#: Stores of kernels into arrays that they are given.
STORE = Hook(FakeWithinKernelCUDAArray, "__setitem__", "self idx val")
EVENT_RECORD = Hook(api.Event, "record", "self stream")
EVENT_SYNCHRONIZE = Hook(api.Event, "synchronize", "self")
EVENT_WAIT = Hook(api.Event, "wait", "self stream")
#: Makes streams.
STREAM = (Hook(cuda, "stream", ""), Hook(api, "stream", ""))
SYNCHRONIZE = (Hook(cuda, "synchronize", ""), Hook(api, "synchronize", ""))

#: Makes kernels.
JIT = Hook(cuda, "jit", "func_or_sig")

#: Makes a module the ``cuda`` of the thread's kernel.
PUSH_CONTEXT = Hook(kernel, "_push_kernel_context", "mod")
push_context = kernel._push_kernel_context

HOOKS = (
    *(LAUNCH, CONFIGURE, FOR_ALL, COOPERATIVE_BLOCKS, THREADING, GRID_SYNC, SHARED, COPY_TO_HOST),
    *(COPY_TO_DEVICE, EVENT_RECORD, EVENT_SYNCHRONIZE, EVENT_WAIT, *SYNCHRONIZE, PUSH_CONTEXT),
    *(JIT, STORE, *STREAM),
)


def add(names: dict[str, Callable[..., Any]]) -> None:
    """Give the ``cuda`` that kernels see methods that it has not, or has otherwise."""
    for name, function in names.items():
        Hook(kernelapi.FakeCUDAModule, name).replace(function)


def look_up(in_kernels: Callable[[Any, str], Any], in_package: Callable[[str], Any]) -> None:
    """Who is asked for names that the ``cuda`` of kernels has not, or ``numba.cuda`` itself."""
    Hook(kernelapi.FakeCUDAModule, "__getattr__").replace(in_kernels)
    Hook(cuda, "__getattr__").replace(in_package)


def around_atomics(wrapper: Callable[[Callable[..., Any]], Callable[..., Any]]) -> None:
    """Put a wrapper around each of ``cuda.atomic``'s operations."""
    for name in [name for name in vars(kernelapi.FakeCUDAAtomic) if not name.startswith("_")]:
        Hook(kernelapi.FakeCUDAAtomic, name).wrap(wrapper)


def keep_signatures(name: str, read: Callable[[Any], Any]) -> None:
    """Have kernels keep as ``name`` what ``read`` makes of the signature that ``cuda.jit`` was given."""

    def around(plain: Callable[..., Any]) -> Callable[..., Any]:
        def jit(func_or_sig: Any = None, *given: Any, **options: Any) -> Any:
            made = plain(func_or_sig, *given, **options)
            if func_or_sig is None or isinstance(made, kernel.FakeCUDAKernel):
                return made

            def decorate(function: Any) -> Any:
                kept = made(function)
                setattr(kept, name, read(func_or_sig))
                return kept

            return decorate

        return jit

    JIT.wrap(around)
