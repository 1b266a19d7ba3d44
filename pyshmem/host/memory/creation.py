# SPDX-License-Identifier: BSD-3-Clause
"""Making arrays on the symmetric heaps: the ``numpy`` names, collective (``heap`` has the rules).

With a literal ``heap=`` type checkers know what comes back; with any other text it is either.
"""

from __future__ import annotations

from enum import IntFlag
from typing import Any, overload

import numpy as np

from ..._core.arrays import cupy_arrays
from ..._core.arrays.checks import SymmetricArray, as_ndarray, masked
from ..._core.arrays.types import DeviceArray
from ..._core.dtypes import DTypeLike, as_dtype, integer
from ..._core.library import check, lib
from ..._core.values import fitting, is_integer
from ..teams.team import TEAM_WORLD
from .heap import Either, OnDevice, OnHost, Shape, allocate, check_real


def _filled(routine: str, shape: Shape, dtype: DTypeLike, heap: str, values: Any) -> Any:
    """A new array of these values; no PE goes on before all have set theirs, so that no put is lost.

    The allocation sets them, before its meeting: so a call that is interrupted and made again is one
    allocation. Values on a GPU alone are assigned behind it.
    """
    fitting(as_dtype(dtype), values)
    if hasattr(values, "__cuda_array_interface__"):
        array = allocate(routine, shape, dtype, heap)
        if isinstance(array, np.ndarray):
            array[...] = values
        else:
            cupy_arrays.assign(array, values)
        check(lib.ishmemx_team_sync(TEAM_WORLD.handle))
        return array
    return allocate(routine, shape, dtype, heap, values=values)


class Hint(IntFlag):
    """What an array is going to be used for. The heaps here serve all uses alike."""

    ATOMICS_REMOTE = 1
    SIGNAL_REMOTE = 2


MALLOC_ATOMICS_REMOTE, MALLOC_SIGNAL_REMOTE = Hint.ATOMICS_REMOTE, Hint.SIGNAL_REMOTE


def alignment_of(align: Any, hints: Any) -> int:
    """The bytes that ``align`` asks for, 0 for none. Raises: TypeError, ValueError."""
    if align is not None:
        align = integer("align", align, np.int64)
        if align < 8 or align & (align - 1):
            raise ValueError(f"align is {align}; give a power of two, 8 or more")
    if not 0 <= integer("hints", hints) <= MALLOC_ATOMICS_REMOTE | MALLOC_SIGNAL_REMOTE:
        raise ValueError(f"hints is {hints}; give MALLOC_ATOMICS_REMOTE, MALLOC_SIGNAL_REMOTE or 0")
    return align or 0


@overload
def empty(
    shape: Shape,
    dtype: DTypeLike = ...,
    *,
    heap: OnHost = ...,
    align: int | None = ...,
    hints: int = ...,
) -> SymmetricArray: ...
@overload
def empty(
    shape: Shape,
    dtype: DTypeLike = ...,
    *,
    heap: OnDevice,
    align: int | None = ...,
    hints: int = ...,
) -> DeviceArray: ...
@overload
def empty(
    shape: Shape, dtype: DTypeLike = ..., *, heap: str, align: int | None = ..., hints: int = ...
) -> Either: ...
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
    Example: ``box = pyshmem.empty((4, 4), np.float32)``
    Spec: shmem_malloc, shmem_align, shmem_malloc_with_hints (OpenSHMEM 1.5).
    """
    return allocate("empty", shape, dtype, heap, align=alignment_of(align, hints))


@overload
def zeros(shape: Shape, dtype: DTypeLike = ..., *, heap: OnHost = ...) -> SymmetricArray: ...
@overload
def zeros(shape: Shape, dtype: DTypeLike = ..., *, heap: OnDevice) -> DeviceArray: ...
@overload
def zeros(shape: Shape, dtype: DTypeLike = ..., *, heap: str) -> Either: ...
def zeros(shape: Shape, dtype: DTypeLike = float, *, heap: str = "host") -> Any:
    """Make a symmetric array of zeros. Collective; arguments, errors: ``empty``.

    Completes: all PEs' elements are set on return, so puts may follow at once.
    Example: ``box = pyshmem.zeros((4, 4), np.float32)``
    Spec: shmem_calloc (OpenSHMEM 1.5).
    """
    return allocate("zeros", shape, dtype, heap, zero=True)


@overload
def ones(shape: Shape, dtype: DTypeLike = ..., *, heap: OnHost = ...) -> SymmetricArray: ...
@overload
def ones(shape: Shape, dtype: DTypeLike = ..., *, heap: OnDevice) -> DeviceArray: ...
@overload
def ones(shape: Shape, dtype: DTypeLike = ..., *, heap: str) -> Either: ...
def ones(shape: Shape, dtype: DTypeLike = float, *, heap: str = "host") -> Any:
    """Make a symmetric array of ones. Collective; arguments, errors: ``empty``.

    Completes: all PEs' elements are set on return, so puts may follow at once.
    Example: ``box = pyshmem.ones(4)``
    Spec: shmem_malloc (OpenSHMEM 1.5).
    """
    return _filled("ones", shape, dtype, heap, 1)


@overload
def full(
    shape: Shape, fill_value: Any, dtype: DTypeLike = ..., *, heap: OnHost = ...
) -> SymmetricArray: ...
@overload
def full(
    shape: Shape, fill_value: Any, dtype: DTypeLike = ..., *, heap: OnDevice
) -> DeviceArray: ...
@overload
def full(shape: Shape, fill_value: Any, dtype: DTypeLike = ..., *, heap: str) -> Either: ...
def full(shape: Shape, fill_value: Any, dtype: DTypeLike = None, *, heap: str = "host") -> Any:
    """Make a symmetric array of one value. Collective; arguments, errors: ``empty``.

    Args:
        shape: extents, the same on all PEs.
        fill_value: the value of the elements here; PEs may give different ones.
        dtype: default the dtype NumPy gives ``fill_value``.
        heap: ``"host"`` or ``"device"``.

    Completes: all PEs' elements are set on return, so puts may follow at once.
    Example: ``box = pyshmem.full(4, -1, np.int64)``
    Spec: shmem_malloc (OpenSHMEM 1.5).
    """
    kind = np.asarray(fill_value).dtype if dtype is None else dtype
    return _filled("full", shape, kind, heap, fill_value)


@overload
def array(values: Any, dtype: DTypeLike = ..., *, heap: OnHost = ...) -> SymmetricArray: ...
@overload
def array(values: Any, dtype: DTypeLike = ..., *, heap: OnDevice) -> DeviceArray: ...
@overload
def array(values: Any, dtype: DTypeLike = ..., *, heap: str) -> Either: ...
def array(values: Any, dtype: DTypeLike = None, *, heap: str = "host") -> Any:
    """Make a symmetric array with the elements of an array or a nested sequence. Collective.

    Args:
        values: elements here; PEs may give different ones of the same shape and dtype.
        dtype: default the dtype NumPy gives ``values``.
        heap: ``"host"`` or ``"device"``.

    Completes: all PEs' elements are set on return, so puts may follow at once.
    Raises: as ``empty``.
    Example: ``box = pyshmem.array(np.linspace(0, 1, 4))``
    Spec: shmem_malloc (OpenSHMEM 1.5).
    """
    kind = None if dtype is None else as_dtype(dtype, of_values=True)
    seen = _seen(values)
    if isinstance(seen, np.ndarray) or not hasattr(seen, "__cuda_array_interface__"):
        if kind is not None:
            check_real(seen, kind)
        seen = _as_array(seen, kind)
        kind = seen.dtype
    return _filled("array", seen.shape, kind or seen.dtype, heap, seen)


def _as_array(values: Any, kind: Any) -> np.ndarray[Any, Any]:
    """NumPy's array of what a program gives as values."""
    try:
        return np.asarray(values, kind)
    except ValueError as error:
        if "inhomogeneous" not in str(error):
            raise
        raise ValueError(
            "values has rows of different lengths, and an array has one shape: make them of one length, "
            "or an array for each"
        ) from None


def _seen(values: Any) -> Any:
    """The values of a new array as NumPy takes them: of tensors too that it has no dtype for.

    Raises: TypeError (masked, or a tensor whose memory has not its values).
    """
    if isinstance(values, np.ma.MaskedArray):
        raise masked("values")
    if isinstance(values, (np.ndarray, np.generic)) or not hasattr(values, "__dlpack__"):
        return values
    in_host_memory = as_ndarray(values, "values")
    return values if in_host_memory is None else in_host_memory


@overload
def arange(
    start: Any, stop: Any = ..., step: Any = ..., dtype: DTypeLike = ..., *, heap: OnHost = ...
) -> SymmetricArray: ...
@overload
def arange(
    start: Any, stop: Any = ..., step: Any = ..., dtype: DTypeLike = ..., *, heap: OnDevice
) -> DeviceArray: ...
@overload
def arange(
    start: Any, stop: Any = ..., step: Any = ..., dtype: DTypeLike = ..., *, heap: str
) -> Either: ...
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
    Example: ``box = pyshmem.arange(0, 8, 2)``
    Spec: shmem_malloc (OpenSHMEM 1.5).
    """
    if start is None:
        raise TypeError("start is None; give the first value, or the end alone")
    if is_integer(step) and step == 0:
        raise ValueError("step is 0, so the values would have no end")
    bounds: tuple[Any, ...] = (0, start, step) if stop is None else (start, stop, step)
    values = np.arange(*bounds, dtype=None if dtype is None else as_dtype(dtype))
    return _filled("arange", values.shape, values.dtype, heap, values)


def _like(prototype: Any, dtype: DTypeLike, heap: str | None) -> tuple[Any, DTypeLike, str]:
    """Shape, dtype and heap of a new array; the heap is the prototype's where that has one."""
    if not hasattr(prototype, "shape"):
        raise TypeError(f"prototype is {prototype!r} ({type(prototype).__name__}), not an array")
    on_gpu = hasattr(prototype, "__cuda_array_interface__")
    place: str = heap or getattr(prototype, "heap", None) or ("device" if on_gpu else "host")
    return prototype.shape, prototype.dtype if dtype is None else dtype, place


@overload
def empty_like(
    prototype: np.ndarray[Any, Any], dtype: DTypeLike = ..., *, heap: OnHost | None = ...
) -> SymmetricArray: ...
@overload
def empty_like(prototype: Any, dtype: DTypeLike = ..., *, heap: OnHost) -> SymmetricArray: ...
@overload
def empty_like(prototype: Any, dtype: DTypeLike = ..., *, heap: OnDevice) -> DeviceArray: ...
@overload
def empty_like(
    prototype: DeviceArray, dtype: DTypeLike = ..., *, heap: None = ...
) -> DeviceArray: ...
@overload
def empty_like(prototype: Any, dtype: DTypeLike = ..., *, heap: str | None = ...) -> Either: ...
def empty_like(prototype: Any, dtype: DTypeLike = None, *, heap: str | None = None) -> Any:
    """``empty`` with shape, dtype and heap of another array, unless given. Collective.

    Example: ``box = pyshmem.empty_like(source)``
    """
    shape, kind, place = _like(prototype, dtype, heap)
    return allocate("empty_like", shape, kind, place)


@overload
def zeros_like(
    prototype: np.ndarray[Any, Any], dtype: DTypeLike = ..., *, heap: OnHost | None = ...
) -> SymmetricArray: ...
@overload
def zeros_like(prototype: Any, dtype: DTypeLike = ..., *, heap: OnHost) -> SymmetricArray: ...
@overload
def zeros_like(prototype: Any, dtype: DTypeLike = ..., *, heap: OnDevice) -> DeviceArray: ...
@overload
def zeros_like(
    prototype: DeviceArray, dtype: DTypeLike = ..., *, heap: None = ...
) -> DeviceArray: ...
@overload
def zeros_like(prototype: Any, dtype: DTypeLike = ..., *, heap: str | None = ...) -> Either: ...
def zeros_like(prototype: Any, dtype: DTypeLike = None, *, heap: str | None = None) -> Any:
    """``zeros`` with shape, dtype and heap of another array, unless given. Collective.

    Example: ``box = pyshmem.zeros_like(source)``
    """
    shape, kind, place = _like(prototype, dtype, heap)
    return allocate("zeros_like", shape, kind, place, zero=True)


@overload
def ones_like(
    prototype: np.ndarray[Any, Any], dtype: DTypeLike = ..., *, heap: OnHost | None = ...
) -> SymmetricArray: ...
@overload
def ones_like(prototype: Any, dtype: DTypeLike = ..., *, heap: OnHost) -> SymmetricArray: ...
@overload
def ones_like(prototype: Any, dtype: DTypeLike = ..., *, heap: OnDevice) -> DeviceArray: ...
@overload
def ones_like(
    prototype: DeviceArray, dtype: DTypeLike = ..., *, heap: None = ...
) -> DeviceArray: ...
@overload
def ones_like(prototype: Any, dtype: DTypeLike = ..., *, heap: str | None = ...) -> Either: ...
def ones_like(prototype: Any, dtype: DTypeLike = None, *, heap: str | None = None) -> Any:
    """``ones`` with shape, dtype and heap of another array, unless given. Collective.

    Example: ``box = pyshmem.ones_like(source)``
    """
    shape, kind, place = _like(prototype, dtype, heap)
    return _filled("ones_like", shape, kind, place, 1)


@overload
def full_like(
    prototype: np.ndarray[Any, Any],
    fill_value: Any,
    dtype: DTypeLike = ...,
    *,
    heap: OnHost | None = ...,
) -> SymmetricArray: ...
@overload
def full_like(
    prototype: Any, fill_value: Any, dtype: DTypeLike = ..., *, heap: OnHost
) -> SymmetricArray: ...
@overload
def full_like(
    prototype: Any, fill_value: Any, dtype: DTypeLike = ..., *, heap: OnDevice
) -> DeviceArray: ...
@overload
def full_like(
    prototype: DeviceArray, fill_value: Any, dtype: DTypeLike = ..., *, heap: None = ...
) -> DeviceArray: ...
@overload
def full_like(
    prototype: Any, fill_value: Any, dtype: DTypeLike = ..., *, heap: str | None = ...
) -> Either: ...
def full_like(
    prototype: Any, fill_value: Any, dtype: DTypeLike = None, *, heap: str | None = None
) -> Any:
    """``full`` with shape, dtype and heap of another array, unless given. Collective.

    Example: ``box = pyshmem.full_like(source, 7)``
    """
    shape, kind, place = _like(prototype, dtype, heap)
    return _filled("full_like", shape, kind, place, fill_value)


@overload
def new_signal(shape: Shape = ..., *, heap: OnHost = ...) -> SymmetricArray: ...
@overload
def new_signal(shape: Shape = ..., *, heap: OnDevice) -> DeviceArray: ...
@overload
def new_signal(shape: Shape = ..., *, heap: str) -> Either: ...
def new_signal(shape: Shape = 1, *, heap: str = "host") -> Any:
    """Make signal words: a symmetric uint64 array of zeros. Collective; errors: ``empty``.

    Example: ``sig = pyshmem.new_signal()``
    """
    return allocate("new_signal", shape, np.uint64, heap, zero=True)
