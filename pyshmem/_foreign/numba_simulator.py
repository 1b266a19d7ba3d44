# SPDX-License-Identifier: BSD-3-Clause
"""What of Numba's simulator is replaced and read. Seen in numba-cuda 0.30.4.

Importing this imports ``numba.cuda`` with its simulator, which must have been chosen.
"""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import Any

from numba import cuda
from numba.cuda import config, libdevice, vectorizers
from numba.cuda.simulator import api, bf16, cudadrv, kernel, kernelapi
from numba.cuda.simulator.cudadrv import devicearray
from numba.cuda.simulator.cudadrv.devicearray import FakeCUDAArray, FakeWithinKernelCUDAArray

from .hooks import Hook

#: Launches from the host, and calls of kernels' functions.
LAUNCH = Hook(kernel.FakeCUDAKernel, "__call__", "self args")
CONFIGURE = Hook(kernel.FakeCUDAKernel, "__getitem__", "self configuration")
FOR_ALL = Hook(kernel.FakeCUDAKernel, "forall", "self ntasks tpb stream sharedmem")
COOPERATIVE_BLOCKS = Hook(kernel.FakeOverload, "max_cooperative_grid_blocks", "self blockdim")
OVERLOADS = Hook(kernel.FakeCUDAKernel, "overloads")
#: By which kernels are told who they are.
THREADING = Hook(kernelapi, "threading")
GRID_SYNC = Hook(kernelapi.GridGroup, "sync", "self")
SHARED = Hook(kernelapi.FakeCUDAModule, "shared")
#: What waits for all, or copies in the order of a stream.
COPY_TO_HOST = Hook(FakeCUDAArray, "copy_to_host", "self ary stream")
COPY_TO_DEVICE = Hook(FakeCUDAArray, "copy_to_device", "self ary stream")
#: Of an attribute that those arrays have not, NumPy's.
ATTRIBUTE = Hook(FakeCUDAArray, "__getattr__", "self attrname")
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
    *(JIT, STORE, *STREAM, OVERLOADS, Hook(bf16, "bfloat16")),
    *(ATTRIBUTE, Hook(api, "is_bfloat16_supported", "")),
)


def allocates() -> bool:
    """Do kernels make arrays while they run, as ``NUMBA_CUDA_ENABLE_NRT=1`` has it?"""
    return bool(getattr(config, "CUDA_ENABLE_NRT", False))


def add(names: dict[str, Callable[..., Any]]) -> None:
    """Give the ``cuda`` that kernels see methods that it has not, or has otherwise."""
    for name, function in names.items():
        Hook(kernelapi.FakeCUDAModule, name).replace(function)


def add_to_halves(names: dict[str, Callable[..., Any]]) -> None:
    """Give ``cuda.fp16`` of kernels functions that it has otherwise."""
    for name, function in names.items():
        Hook(kernelapi.FakeCUDAFp16, name).replace(function)


def time_events(record: Callable[[Any], None], elapsed: Callable[..., float]) -> None:
    """Have events know when they were recorded; Numba's say -1 of any two."""

    def around(plain: Callable[..., Any]) -> Callable[..., None]:
        def recorded(event: Any, stream: Any = 0) -> None:
            plain(event, stream)
            record(event)

        return recorded

    EVENT_RECORD.wrap(around)
    Hook(api.Event, "elapsed_time", "self event").replace(elapsed)
    Hook(api.Event, "query").offer(lambda _event: True)
    for module in (cuda, api):
        Hook(module, "managed_array").offer(devicearray.managed_array)


def replace_libdevice(function_of: Callable[[str], Callable[..., Any]]) -> None:
    """Give functions of ``cuda.libdevice`` bodies: Numba's return None."""
    for name, plain in list(vars(libdevice).items()):
        if isinstance(plain, FunctionType):
            Hook(libdevice, name).replace(function_of(name))


def refuse_vectorize(refuse: Callable[..., Any]) -> None:
    """Who is called where ``vectorize`` and ``guvectorize`` are about to make a ufunc for GPUs."""
    for maker in (vectorizers.CUDAVectorize, vectorizers.CUDAGUFuncVectorize):
        Hook(maker, "__init__").replace(refuse)


def add_to_arrays(names: dict[str, Any]) -> None:
    """Give the arrays of ``cuda.to_device`` what they have not, which they would look for in NumPy's."""
    for name, value in names.items():
        Hook(FakeCUDAArray, name).replace(value)


def add_to_kernels(names: dict[str, Any]) -> None:
    """Give kernels attributes that they have not."""
    for name, value in names.items():
        Hook(kernel.FakeCUDAKernel, name).replace(value)


def add_to_package(names: dict[str, Any]) -> None:
    """Give ``numba.cuda`` what it has not, or has otherwise."""
    for name, value in names.items():
        for module in (cuda, api):
            Hook(module, name).replace(value)


def take_streams(kind: type, array: Callable[..., Any]) -> None:
    """Have ``cuda.stream()`` make streams of this kind, and ``DeviceNDArray(...)`` such an array."""
    add_to_package(
        {"stream": kind, "external_stream": kind, "default_stream": kind,
         "legacy_default_stream": lambda: kind(1), "per_thread_default_stream": lambda: kind(2)}
    )  # fmt: skip
    Hook(cudadrv.driver, "Stream").replace(kind)
    Hook(cudadrv.devicearray, "DeviceNDArray").replace(array)


def look_up(in_kernels: Callable[[Any, str], Any], in_package: Callable[[str], Any]) -> None:
    """Who is asked for names that the ``cuda`` of kernels has not, or ``numba.cuda`` itself."""
    Hook(kernelapi.FakeCUDAModule, "__getattr__").replace(in_kernels)
    Hook(cuda, "__getattr__").replace(in_package)


def around_atomics(wrapper: Callable[[Callable[..., Any]], Callable[..., Any]]) -> None:
    """Put a wrapper around each of ``cuda.atomic``'s operations."""
    for name in [name for name in vars(kernelapi.FakeCUDAAtomic) if not name.startswith("_")]:
        Hook(kernelapi.FakeCUDAAtomic, name).wrap(wrapper)


#: What ``cuda.jit`` takes for GPUs, and its simulator's does not: they change no result.
_OF_COMPILERS = frozenset(["forceinline", "launch_bounds", "lineinfo", "lto", "max_registers"])


def take_options() -> None:
    """Have ``cuda.jit`` take the options that only compilers for GPUs ask for."""

    def around(plain: Callable[..., Any]) -> Callable[..., Any]:
        def jit(func_or_sig: Any = None, *given: Any, **options: Any) -> Any:
            return plain(
                func_or_sig, *given, **{k: v for k, v in options.items() if k not in _OF_COMPILERS}
            )

        return jit

    JIT.wrap(around)


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
