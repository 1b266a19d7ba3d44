# SPDX-License-Identifier: BSD-3-Clause
"""Arrays on the symmetric heaps: making, freeing, looking at them.

Making and freeing are collective: all PEs make the same calls in the same order with the same
sizes. On return a new array is ready on every PE, its elements set: puts may follow at once. An
array on the host heap is a ``SymmetricArray`` (NumPy). On the device heap it is a CuPy
array, or, in the simulator, again a ``SymmetricArray``, which simulated kernels and NumPy share.

Garbage collection never synchronises. When the last reference to an array goes away its block is
only marked; it is freed once every PE has dropped it, by the next allocation, ``barrier_all`` or
``drain``. Arrays that outlive their job can be looked at, but no routine takes them.
"""

from __future__ import annotations

import math
import weakref
from typing import Any, NamedTuple, SupportsIndex

import numpy as np

from . import _cupy, _errors, runtime
from ._arrays import SymmetricArray as SymmetricArray
from ._arrays import gone, heap_number, place, remember, retire
from ._dtypes import DTypeLike, as_dtype, kind_of
from ._lib import check, ffi, lib
from .teams import TEAM_WORLD

Shape = SupportsIndex | tuple[SupportsIndex, ...] | list[int]


class Block:
    """Memory handed out by a heap. It lives as long as an array or a view of it does."""

    __slots__ = ("__array_interface__", "__weakref__", "address", "array", "finalizer", "nbytes")

    def __init__(self, address: int, nbytes: int) -> None:
        self.address = address
        self.nbytes = nbytes
        self.array: weakref.ref[Any] | None = None  # what the allocation returned
        self.__array_interface__ = {
            "data": (address, False), "shape": (nbytes,), "typestr": "|u1", "version": 3,
        }  # fmt: skip
        self.finalizer = weakref.finalize(self, lib.ishmemx_release, address)
        self.finalizer.atexit = False


_blocks: weakref.WeakValueDictionary[int, Block] = weakref.WeakValueDictionary()


def _job_ended() -> None:
    for block in list(_blocks.values()):
        _invalidate(block, "its job was finalized")
    _blocks.clear()


def _invalidate(block: Block, why: str) -> None:
    array = block.array() if block.array is not None else None
    if isinstance(array, SymmetricArray):
        retire(array, why)


runtime.on_finalize(_job_ended)


# ---- making ------------------------------------------------------------------------------------


def _allocate(shape: Shape, dtype: DTypeLike, heap: str, zero: bool = False) -> Any:
    """An array of ``shape``; the one place that takes memory from a heap."""
    number = heap_number(heap)
    job = runtime.current()
    if heap == "device" and job.device == "none":
        raise _errors.UnsupportedError(
            "there is no device heap: the job runs with device 'none'; use "
            "PYSHMEM_DEVICE=sim (needs numba) or cuda, or heap='host'"
        )
    kind = as_dtype(dtype)
    extents = _extents(shape)
    nbytes = math.prod(extents) * kind.itemsize
    on_gpu = heap == "device" and job.device == "cuda"
    if not nbytes:
        empty_array = np.empty(extents, kind).view(SymmetricArray)
        return _cupy.array_over(0, 0, None, extents, kind) if on_gpu else empty_array
    address = ffi.new("uintptr_t *")
    check(lib.ishmemx_malloc(number, nbytes, 0, zero, address))
    block = Block(address[0], nbytes)
    try:
        if on_gpu:
            array = _cupy.array_over(block.address, nbytes, block, extents, kind)
        else:
            array = SymmetricArray(extents, kind, buffer=np.asarray(block))
            remember(array, block.address, nbytes, kind_of(kind))
    except TypeError as error:  # CuPy has fewer dtypes than NumPy
        raise _errors.UnsupportedError(f"dtype {kind} on the device heap: {error}") from error
    block.array = weakref.ref(array)
    _blocks[block.address] = block
    return array


def _extents(shape: Shape) -> tuple[int, ...]:
    extents = tuple(shape) if isinstance(shape, (tuple, list)) else (shape,)
    found = tuple(int(extent.__index__()) for extent in extents)
    if any(extent < 0 for extent in found):
        raise ValueError(f"shape {found} has a negative extent")
    return found


def _filled(array: Any, values: Any) -> Any:
    """Set the elements of a new array; no PE goes on before all have, so that no put is lost."""
    if isinstance(array, np.ndarray):
        array[...] = values
    else:
        _cupy.assign(array, values)
    check(lib.ishmemx_team_sync(TEAM_WORLD.handle))
    return array


def empty(shape: Shape, dtype: DTypeLike = float, *, heap: str = "host") -> Any:
    """Make a symmetric array without setting its elements. Collective.

    Args:
        shape: extents, the same on all PEs; an extent of 0 is allowed and takes no memory.
        dtype: any of fixed size: NumPy's, ``"bfloat16"`` and others of ml_dtypes, structured ones.
        heap: ``"host"`` or ``"device"``.

    Returns:
        ``SymmetricArray`` (host heap, simulator) or CuPy array (device heap on a GPU).

    Completes: the array exists on all PEs on return.
    Raises: HeapExhausted, MismatchError (sizes differ between PEs), UnsupportedError (no device
        heap), TypeError (dtype), ValueError (shape, heap), NotInitialized.
    Spec: shmem_malloc (OpenSHMEM 1.5).
    """
    return _allocate(shape, dtype, heap)


def zeros(shape: Shape, dtype: DTypeLike = float, *, heap: str = "host") -> Any:
    """Make a symmetric array of zeros. Collective; arguments, errors: ``empty``.

    Completes: all PEs' elements are set on return, so puts may follow at once.
    Spec: shmem_calloc (OpenSHMEM 1.5).
    """
    return _allocate(shape, dtype, heap, zero=True)


def ones(shape: Shape, dtype: DTypeLike = float, *, heap: str = "host") -> Any:
    """Make a symmetric array of ones. Collective; arguments, errors: ``empty``.

    Completes: all PEs' elements are set on return, so puts may follow at once.
    Spec: shmem_malloc (OpenSHMEM 1.5).
    """
    return _filled(_allocate(shape, dtype, heap), 1)


def full(shape: Shape, fill_value: Any, dtype: DTypeLike = None, *, heap: str = "host") -> Any:
    """Make a symmetric array of one value. Collective; arguments, errors: ``empty``.

    Args:
        shape: extents, the same on all PEs.
        fill_value: the value of the elements here; PEs may give different ones.
        dtype: default the dtype NumPy gives ``fill_value``.
        heap: ``"host"`` or ``"device"``.

    Completes: all PEs' elements are set on return, so puts may follow at once.
    Spec: shmem_malloc (OpenSHMEM 1.5).
    """
    kind = np.asarray(fill_value).dtype if dtype is None else dtype
    return _filled(_allocate(shape, kind, heap), fill_value)


def array(values: Any, dtype: DTypeLike = None, *, heap: str = "host") -> Any:
    """Make a symmetric array with the elements of an array or a nested sequence. Collective.

    Args:
        values: elements here; PEs may give different ones of the same shape and dtype.
        dtype: default the dtype NumPy gives ``values``.
        heap: ``"host"`` or ``"device"``.

    Completes: all PEs' elements are set on return, so puts may follow at once.
    Raises: as ``empty``.
    Spec: shmem_malloc (OpenSHMEM 1.5).
    """
    if not hasattr(values, "__cuda_array_interface__"):
        values = np.asarray(values, None if dtype is None else as_dtype(dtype))
    kind = values.dtype if dtype is None else dtype
    return _filled(_allocate(values.shape, kind, heap), values)


def arange(
    start: Any, stop: Any = None, step: Any = 1, dtype: DTypeLike = None, *, heap: str = "host"
) -> Any:
    """Make a symmetric array of evenly spaced values, as ``numpy.arange``. Collective.

    Args:
        start: first value, or the end when ``stop`` is not given.
        stop: end, not included.
        step: distance.
        dtype: default the dtype ``numpy.arange`` gives.
        heap: ``"host"`` or ``"device"``.

    Completes: all PEs' elements are set on return, so puts may follow at once.
    Raises: as ``empty``.
    Spec: shmem_malloc (OpenSHMEM 1.5).
    """
    bounds: tuple[Any, ...] = (0, start, step) if stop is None else (start, stop, step)
    values = np.arange(*bounds, dtype=None if dtype is None else as_dtype(dtype))
    return array(values, heap=heap)


def _like(prototype: Any, dtype: DTypeLike, heap: str | None) -> tuple[Any, DTypeLike, str]:
    """Shape, dtype and heap of a new array; the heap is the prototype's where that has one."""
    if heap is None:
        on_gpu = hasattr(prototype, "__cuda_array_interface__")
        heap = getattr(prototype, "heap", None) or ("device" if on_gpu else "host")
    return prototype.shape, prototype.dtype if dtype is None else dtype, heap


def empty_like(prototype: Any, dtype: DTypeLike = None, *, heap: str | None = None) -> Any:
    """``empty`` with shape, dtype and heap of another array, unless given. Collective."""
    shape, kind, place = _like(prototype, dtype, heap)
    return empty(shape, kind, heap=place)


def zeros_like(prototype: Any, dtype: DTypeLike = None, *, heap: str | None = None) -> Any:
    """``zeros`` with shape, dtype and heap of another array, unless given. Collective."""
    shape, kind, place = _like(prototype, dtype, heap)
    return zeros(shape, kind, heap=place)


def ones_like(prototype: Any, dtype: DTypeLike = None, *, heap: str | None = None) -> Any:
    """``ones`` with shape, dtype and heap of another array, unless given. Collective."""
    shape, kind, place = _like(prototype, dtype, heap)
    return ones(shape, kind, heap=place)


def full_like(
    prototype: Any, fill_value: Any, dtype: DTypeLike = None, *, heap: str | None = None
) -> Any:
    """``full`` with shape, dtype and heap of another array, unless given. Collective."""
    shape, kind, place = _like(prototype, dtype, heap)
    return full(shape, fill_value, kind, heap=place)


def new_signal(shape: Shape = 1, *, heap: str = "host") -> Any:
    """Make signal words: a symmetric uint64 array of zeros. Collective; errors: ``empty``."""
    return zeros(shape, np.uint64, heap=heap)


# ---- freeing -----------------------------------------------------------------------------------


def free(array: Any) -> None:
    """Give an array's memory back to the heap. Collective; begins with a barrier.

    Args:
        array: what ``empty``, ``zeros``, ... returned; not a view of it. It and its views must not
            be used afterwards.

    Raises: ValueError (a view, freed before, or not on a heap), NotInitialized, ShmemError.
    Spec: shmem_free (OpenSHMEM 1.5).
    """
    runtime.current()
    if isinstance(array, SymmetricArray) and (why := gone(array)):
        raise ValueError(f"the array cannot be freed: {why}")
    address, nbytes, _ = place(array, "array", symmetric=True)
    if not nbytes:
        return
    block = _blocks.get(address)
    if block is None or block.array is None or block.array() is not array:
        raise ValueError(
            f"the array at {address:#x} is a view or another object than the allocation "
            "returned; free that one"
        )
    check(lib.ishmemx_free(block.address))
    block.finalizer.detach()
    del _blocks[block.address]
    _invalidate(block, "it was freed")


def drain() -> None:
    """Free the blocks of arrays that every PE has dropped. Collective.

    ``barrier_all`` and every allocation do the same.

    Extension.
    """
    check(lib.ishmemx_drain())


class HeapInfo(NamedTuple):
    """The state of a heap of this PE, in bytes where not said otherwise."""

    nbytes: int
    used: int  # with rounding
    free: int
    largest_free: int
    allocations: int  # blocks in use
    released: int  # blocks dropped here that other PEs still hold


def heap_info(heap: str = "host") -> HeapInfo:
    """How full a heap is here.

    Raises: ValueError (heap), NotInitialized, UnsupportedError (no device heap).
    Extension.
    """
    stats = ffi.new("ishmemx_heap_stats_t *")
    check(lib.ishmemx_heap_stats(heap_number(heap), stats))
    return HeapInfo(*(int(getattr(stats, field)) for field in HeapInfo._fields))


# ---- looking -----------------------------------------------------------------------------------


def ptr(array: Any, pe: int) -> Any:
    """Another PE's copy of a symmetric array, for loads and stores without a call.

    Args:
        array: contiguous symmetric array or view.
        pe: PE whose copy is meant, ``0 <= pe < n_pes()``.

    Returns:
        An array of the same shape and dtype (NumPy, or CuPy for the device heap of a GPU) that
        views the copy on ``pe``; None where that memory cannot be reached from here. It is valid
        until the array is freed; the one it came from is kept alive.

    Raises: ValueError (pe, array), NotInitialized.
    Spec: shmem_ptr (OpenSHMEM 1.5).
    """
    address, nbytes, _ = place(array, "array", symmetric=True)
    peer = ffi.new("uintptr_t *")
    check(lib.ishmemx_ptr(address, pe, peer))
    if not peer[0]:
        return None
    if not isinstance(array, np.ndarray):
        return _cupy.array_over(peer[0], nbytes, array, array.shape, array.dtype)
    if not nbytes:
        return np.empty(array.shape, array.dtype)
    window = _Window(peer[0], nbytes, array)
    return np.ndarray(array.shape, array.dtype, buffer=np.asarray(window))


class _Window:
    """Memory of a peer, which must not outlive the array it mirrors."""

    def __init__(self, address: int, nbytes: int, keep: Any) -> None:
        self.keep = keep
        self.__array_interface__ = {
            "data": (address, False), "shape": (nbytes,), "typestr": "|u1", "version": 3,
        }  # fmt: skip


def to_numpy(array: Any) -> np.ndarray:
    """A copy of an array's elements in ordinary host memory, whatever heap it is on.

    Args:
        array: NumPy, CuPy or any array NumPy can convert.

    Returns:
        A new ``np.ndarray``. For the device heap of a GPU it waits for the current CuPy stream.

    Extension.
    """
    if hasattr(array, "__cuda_array_interface__"):
        return _cupy.to_numpy(array)
    if isinstance(array, SymmetricArray) and (why := gone(array)):
        raise ValueError(f"the array cannot be used any more: {why}")
    return np.array(array, copy=True, subok=False)
