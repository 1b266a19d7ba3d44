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
import operator
import weakref
from enum import IntFlag
from typing import Any, SupportsIndex

import numpy as np

from .._core import cupy_arrays, errors
from .._core.arrays import SymmetricArray as SymmetricArray
from .._core.arrays import gone, heap_number, place, remember, retire
from .._core.dtypes import DTypeLike, as_dtype, kind_of
from .._core.library import check, ffi, lib
from . import runtime
from .teams import TEAM_WORLD

Shape = SupportsIndex | tuple[SupportsIndex, ...] | list[int]


class Block:
    """Memory handed out by a heap. It lives as long as an array or a view of it does."""

    __slots__ = (
        "__array_interface__", "__weakref__", "address", "array", "finalizer", "gone", "nbytes",
    )  # fmt: skip

    def __init__(self, address: int, nbytes: int) -> None:
        self.address = address
        self.nbytes = nbytes
        self.gone = ""  # why it can no longer be used
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
    block.gone = why
    array = block.array() if block.array is not None else None
    if isinstance(array, SymmetricArray):
        retire(array, why)


runtime.on_finalize(_job_ended)


# ---- making ------------------------------------------------------------------------------------


def _allocate(shape: Shape, dtype: DTypeLike, heap: str, zero: bool = False, align: int = 0) -> Any:
    """An array of ``shape``; the one place that takes new memory from a heap."""
    number = heap_number(heap)
    job = runtime.current()
    if heap == "device" and job.device == "none":
        raise errors.UnsupportedError(
            "there is no device heap: the job runs with device 'none'; use "
            "PYSHMEM_DEVICE=sim (needs numba) or cuda, or heap='host'"
        )
    kind = as_dtype(dtype)
    extents = _extents(shape)
    nbytes = math.prod(extents) * kind.itemsize
    on_gpu = heap == "device" and job.device == "cuda"
    if not nbytes:
        empty_array = np.empty(extents, kind).view(SymmetricArray)
        return cupy_arrays.array_over(0, 0, None, extents, kind) if on_gpu else empty_array
    address = ffi.new("uintptr_t *")
    check(lib.ishmemx_malloc(number, nbytes, align, zero, address))
    return _array_over(address[0], nbytes, extents, kind, on_gpu)


def _array_over(
    address: int, nbytes: int, extents: tuple[int, ...], kind: np.dtype[Any], on_gpu: bool
) -> Any:
    """The array of a block that a heap has handed out."""
    block = Block(address, nbytes)
    try:
        if on_gpu:
            array = cupy_arrays.array_over(block.address, nbytes, block, extents, kind)
        else:
            array = SymmetricArray(extents, kind, buffer=np.asarray(block))
            remember(array, block.address, nbytes, kind_of(kind))
    except TypeError as error:  # CuPy has fewer dtypes than NumPy
        raise errors.UnsupportedError(f"dtype {kind} on the device heap: {error}") from error
    block.array = weakref.ref(array)
    _blocks[block.address] = block
    return array


def _extents(shape: Shape) -> tuple[int, ...]:
    extents = tuple(shape) if isinstance(shape, (tuple, list)) else (shape,)
    found = tuple(operator.index(extent) for extent in extents)
    if any(extent < 0 for extent in found):
        raise ValueError(f"shape {found} has a negative extent")
    return found


def _filled(array: Any, values: Any) -> Any:
    """Set the elements of a new array; no PE goes on before all have, so that no put is lost."""
    if isinstance(array, np.ndarray):
        array[...] = values
    else:
        cupy_arrays.assign(array, values)
    check(lib.ishmemx_team_sync(TEAM_WORLD.handle))
    return array


class Hint(IntFlag):
    """What an array is going to be used for. The heaps here serve all uses alike."""

    ATOMICS_REMOTE = 1
    SIGNAL_REMOTE = 2


MALLOC_ATOMICS_REMOTE, MALLOC_SIGNAL_REMOTE = Hint.ATOMICS_REMOTE, Hint.SIGNAL_REMOTE


def empty(
    shape: Shape,
    dtype: DTypeLike = float,
    *,
    heap: str = "host",
    align: int | None = None,
    hints: int = 0,
) -> Any:
    """Make a symmetric array without setting its elements. Collective.

    Args:
        shape: extents, the same on all PEs; an extent of 0 is allowed and takes no memory.
        dtype: any of fixed size: NumPy's, ``"bfloat16"`` and others of ml_dtypes, structured ones.
        heap: ``"host"`` or ``"device"``.
        align: bytes that the address is a multiple of, a power of two, at least 8; default 64.
        hints: ``MALLOC_ATOMICS_REMOTE``, ``MALLOC_SIGNAL_REMOTE``, or both with ``|``.

    Returns:
        ``SymmetricArray`` (host heap, simulator) or CuPy array (device heap on a GPU).

    Completes: the array exists on all PEs on return.
    Raises: HeapExhausted, MismatchError (sizes differ between PEs), UnsupportedError (no device
        heap), TypeError (dtype), ValueError (shape, heap, align, hints), NotInitialized.
    Spec: shmem_malloc, shmem_align, shmem_malloc_with_hints (OpenSHMEM 1.5).
    """
    if align is not None and (align < 8 or align & (align - 1)):
        raise ValueError(f"align is {align}; give a power of two, 8 or more")
    if not 0 <= hints <= MALLOC_ATOMICS_REMOTE | MALLOC_SIGNAL_REMOTE:
        raise ValueError(f"hints is {hints}; give MALLOC_ATOMICS_REMOTE, MALLOC_SIGNAL_REMOTE or 0")
    return _allocate(shape, dtype, heap, align=align or 0)


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
    block = _block_of(array, "freed")
    if block is None:
        return
    check(lib.ishmemx_free(block.address))
    _drop(block, "it was freed")


def realloc(array: Any, shape: Shape) -> Any:
    """Make an array of another shape from an array, on the same heap. Collective.

    Args:
        array: what ``empty``, ``zeros``, ... returned; not a view of it. It and its views must not
            be used afterwards. After a failure it stays as it was.
        shape: new extents, the same on all PEs; an extent of 0 frees the memory.

    Returns:
        The new array of the same dtype. In C order its elements are the old ones, as far as there
        are; further ones are not set.

    Completes: the array exists on all PEs on return.
    Raises: ValueError (a view, freed before, shape), HeapExhausted, MismatchError, NotInitialized,
        ShmemError.
    Spec: shmem_realloc (OpenSHMEM 1.5).
    """
    job = runtime.current()
    extents = _extents(shape)
    nbytes = math.prod(extents) * array.dtype.itemsize
    heap = "device" if hasattr(array, "__cuda_array_interface__") else getattr(array, "heap", None)
    block = _block_of(array, "reallocated")
    if block is None or not nbytes:
        if block is not None:
            free(array)
        return _allocate(extents, array.dtype, heap or "host")
    address = ffi.new("uintptr_t *")
    check(lib.ishmemx_realloc(block.address, nbytes, address))
    _drop(block, "it was reallocated")
    on_gpu = heap == "device" and job.device == "cuda"
    return _array_over(address[0], nbytes, extents, array.dtype, on_gpu)


def _block_of(array: Any, verb: str) -> Block | None:
    """The block of what an allocation returned; None for an array without elements."""
    if isinstance(array, SymmetricArray) and (why := gone(array)):
        raise ValueError(f"the array cannot be {verb}: {why}")
    address, nbytes, _ = place(array, "array", symmetric=True)
    if not nbytes:
        return None
    block = _blocks.get(address)
    if block is None or block.array is None or block.array() is not array:
        raise ValueError(
            f"the array at {address:#x} is a view or another object than the allocation "
            f"returned and cannot be {verb}; give that one"
        )
    return block


def _drop(block: Block, why: str) -> None:
    """The heap has taken the block back."""
    block.finalizer.detach()
    del _blocks[block.address]
    _invalidate(block, why)


def drain() -> None:
    """Free the blocks of arrays that every PE has dropped. Collective.

    ``barrier_all`` and every allocation do the same.

    Extension.
    """
    check(lib.ishmemx_drain())


# ---- looking -----------------------------------------------------------------------------------


def to_numpy(array: Any) -> np.ndarray:
    """A copy of an array's elements in ordinary host memory, whatever heap it is on.

    Args:
        array: NumPy, CuPy or any array NumPy can convert.

    Returns:
        A new ``np.ndarray``. For the device heap of a GPU it waits for the current CuPy stream.

    Extension.
    """
    if hasattr(array, "__cuda_array_interface__"):
        return cupy_arrays.to_numpy(array)
    if isinstance(array, SymmetricArray) and (why := gone(array)):
        raise ValueError(f"the array cannot be used any more: {why}")
    return np.array(array, copy=True, subok=False)
