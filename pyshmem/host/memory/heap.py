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
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any, Literal, SupportsIndex, TypeVar, cast

import numpy as np

from ..._core import errors
from ..._core.arrays import cupy_arrays, freed
from ..._core.arrays.checks import SymmetricArray as SymmetricArray
from ..._core.arrays.checks import gone, heap_number, masked, place, remember, retire
from ..._core.arrays.types import AnyArray, DeviceArray
from ..._core.dtypes import DTypeLike, as_dtype, kind_of, nelems_of
from ..._core.library import check, checks_args, ffi, lib, owned
from ..._core.values import with_article
from ..job import runtime
from . import names, sites
from .sites import HeapSite

Shape = SupportsIndex | Sequence[SupportsIndex] | np.ndarray[Any, Any]

OnHost = Literal["host"]
OnDevice = Literal["device"]
Heap = Literal["host", "device"]
#: What is made on a heap that only the running program knows.
Either = SymmetricArray | DeviceArray
#: An array in is such an array out.
ArrayT = TypeVar("ArrayT", SymmetricArray, DeviceArray)


class Block:
    """Memory handed out by a heap. It lives as long as an array or a view of it does."""

    __slots__ = (
        "__array_interface__", "__weakref__", "address", "array", "cell", "gone", "line", "nbytes",
    )  # fmt: skip

    def __init__(self, cell: Any, nbytes: int) -> None:
        self.cell = cell  # owns it; 0: the heap has it back
        self.address = address = int(cell[0])
        self.nbytes = nbytes
        self.gone = ""  # why it can no longer be used
        self.line = sites.OWN  # in checking mode the program's line that it is of
        self.array: weakref.ref[Any] | None = None  # what the allocation returned
        self.__array_interface__ = {
            "data": (address, False), "shape": (nbytes,), "typestr": "|u1", "version": 3,
        }  # fmt: skip


_blocks: weakref.WeakValueDictionary[int, Block] = weakref.WeakValueDictionary()
_changes = 0  # of what is allocated, in checking mode
#: Each says what uses memory still, by its address and size; "": nothing. What is above adds itself.
users: list[Callable[[int, int], str]] = []


def _held() -> list[sites.Held]:
    """What is allocated."""
    return [sites.Held(one.address, one.nbytes, one.line) for one in list(_blocks.values())]


def _show() -> None:
    """Let who looks from outside see it; of many blocks not each single one."""
    global _changes
    _changes += 1
    if _changes % (1 + len(_blocks) // 100) == 0:
        sites.show(_held())


def _job_ended() -> None:
    tells = runtime.ends_in_order() and checks_args() and not lib.ishmemx_my_pe()
    held = _held() if tells else []
    for block in list(_blocks.values()):
        _invalidate(block, "its job was finalized")
    _blocks.clear()
    sites.warn_of_left(held)


def _invalidate(block: Block, why: str) -> None:
    block.gone = why
    array = block.array() if block.array is not None else None
    if isinstance(array, SymmetricArray):
        retire(array, why)
        if not why.startswith("its job"):  # what outlives its job can be looked at
            freed.close(array)


runtime.on_finalize(_job_ended)


#: No values: the elements are what they are.
_NONE: Any = object()
#: An array that memory without values is filled with; None: it is as it is.
unset: Any = None


# ---- making ------------------------------------------------------------------------------------


def allocate(
    routine: str,
    shape: Shape,
    dtype: DTypeLike,
    heap: str,
    zero: bool = False,
    align: int = 0,
    values: Any = _NONE,
    what_for: str = "",
) -> Any:
    """An array of ``shape``; the one place that takes new memory from a heap.

    ``routine`` is what the user called, for errors and reports, where no other routine of the library
    allocates for itself. ``values``, if any, are what the elements are set to, as an assignment to all
    of them would. ``what_for`` is what the caller makes of it, where that is another array: members
    compare it in place of shape and dtype.
    """
    number = heap_number(heap)
    job = runtime.current()
    if heap == "device" and job.device == "none":
        raise errors.UnsupportedError(
            "there is no device heap: the job runs with device 'none'; use "
            "PYSHMEM_DEVICE=sim (needs numba) or cuda, or heap='host'"
        )
    kind = as_dtype(dtype)
    extents = _extents(shape)
    nbytes = _nbytes(extents, kind)
    on_gpu = heap == "device" and job.device == "cuda"
    if not nbytes:  # no allocation: nobody waits
        if on_gpu:
            return cupy_arrays.array_over(0, 0, None, extents, kind)
        return SymmetricArray(extents, kind, buffer=_nothing_on(number))
    cell = owned(lib.end_block)
    name, line = names.name_here() if names.compared() else ("", sites.OWN)
    called, own = sites.routine_here(routine)
    if own and not what_for:  # of its shape the program knows nothing
        what_for = f"{nbytes} bytes of working memory"
    contents = what_for.encode() or _contents(extents, kind)
    contents += f"\n{name}".encode() if name else b""
    what = called.encode(), contents, number, nbytes, align
    if values is _NONE and not zero and unset is not None:
        check(lib.ishmemx_malloc_filled(*what, unset.ctypes.data, unset.nbytes, cell))
    elif values is _NONE:
        check(lib.ishmemx_malloc_as(*what, zero, cell))
    else:
        fill = _fill(values, extents, kind)
        check(lib.ishmemx_malloc_filled(*what, fill.ctypes.data, fill.nbytes, cell))
    array = _array_over(cell, nbytes, extents, kind, on_gpu)
    if name:
        names.compare(name, line)
    return array


def check_real(values: Any, kind: np.dtype[Any]) -> None:
    """Raises TypeError for complex values of another dtype: NumPy drops their imaginary part."""
    if kind.kind != "c" and np.iscomplexobj(values):
        raise TypeError(
            f"values are complex, and dtype {kind} has no imaginary part; give their real"
        )


def _fill(
    values: Any, extents: tuple[int, ...], kind: np.dtype[Any]
) -> np.ndarray[Any, np.dtype[Any]]:
    """The bytes that are repeated until all elements have their values: a single one, or all."""
    check_real(values, kind)
    single = np.ndim(values) == 0
    fill = np.empty(() if single else extents, kind)
    fill[...] = values
    return fill


def _nothing_on(number: int) -> np.ndarray[Any, Any]:
    """No bytes at the beginning of a heap: what tells the heap of an array without elements."""
    base = ffi.new("uintptr_t *")
    lib.ishmemx_heap_range(number, base, ffi.new("int64_t *"))
    interface = {"data": (base[0], False), "shape": (0,), "typestr": "|u1", "version": 3}
    return np.asarray(SimpleNamespace(__array_interface__=interface))


def _array_over(
    cell: Any, nbytes: int, extents: tuple[int, ...], kind: np.dtype[Any], on_gpu: bool
) -> Any:
    """The array of a block that a heap has handed out."""
    block = Block(cell, nbytes)
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
    if runtime.current().checks:
        block.line = sites.line_here()
        _show()
    return array


def _extents(shape: Shape) -> tuple[int, ...]:
    several = hasattr(shape, "__len__") and hasattr(shape, "__getitem__")
    several = several and getattr(shape, "ndim", 1) > 0  # an array without dimensions is a number
    extents: tuple[Any, ...] = tuple(shape) if several else (shape,)  # type: ignore[arg-type]
    name = f"an extent of shape {shape!r}" if several else "shape"
    for extent in extents:
        if isinstance(extent, (bool, np.bool_)):
            raise TypeError(f"{name} is {extent}, a bool; give an integer")
    found = tuple(nelems_of(name, extent) for extent in extents)
    if any(extent < 0 for extent in found):
        raise ValueError(f"shape {found} has a negative extent")
    return found


def _contents(extents: tuple[int, ...], kind: np.dtype[Any]) -> bytes:
    """What an array is, for the other PEs: they compare it in checking mode."""
    return f"shape {extents} {kind}".encode()


def _nbytes(extents: tuple[int, ...], kind: np.dtype[Any]) -> int:
    nbytes = math.prod(extents) * kind.itemsize
    if nbytes >= 1 << 63:
        raise errors.HeapExhausted(f"shape {extents} of {kind} has {nbytes} bytes; no heap has")
    return nbytes


# ---- freeing -----------------------------------------------------------------------------------


def free(array: AnyArray) -> None:
    """Give an array's memory back to the heap. Collective; begins with a barrier.

    Args:
        array: what ``empty``, ``zeros``, ... returned; not a view of it. It and its views must not
            be used afterwards: a NumPy array raises ValueError; its views, ``np.asarray(array)``
            among them, have whatever the heap has there.

    Raises: ValueError (a view, freed before, or not on a heap), NotInitialized, ShmemError.
    Example: ``box = pyshmem.zeros(4); pyshmem.free(box)``
    Spec: shmem_free (OpenSHMEM 1.5).
    """
    runtime.current()
    block = _block_of(array, "freed")
    if block is None:
        return
    check(lib.free_block(block.cell))
    _drop(block, "it was freed")


def realloc(array: ArrayT, shape: Shape) -> ArrayT:
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
    Example: ``box = pyshmem.zeros(4); box = pyshmem.realloc(box, 8)``
    Spec: shmem_realloc (OpenSHMEM 1.5).
    """
    job = runtime.current()
    extents = _extents(shape)
    block = _block_of(array, "reallocated")
    nbytes = _nbytes(extents, array.dtype)
    heap = "device" if hasattr(array, "__cuda_array_interface__") else getattr(array, "heap", None)
    if block is None or not nbytes:
        if block is not None:
            free(array)
        return cast(ArrayT, allocate("realloc", extents, array.dtype, heap or "host"))
    cell = owned(lib.end_block)
    check(lib.realloc_block(_contents(extents, array.dtype), block.cell, nbytes, cell))
    _drop(
        block, "it was reallocated; go on with what realloc returned: a = pyshmem.realloc(a, shape)"
    )
    on_gpu = heap == "device" and job.device == "cuda"
    return cast(ArrayT, _array_over(cell, nbytes, extents, array.dtype, on_gpu))


def _block_of(array: Any, verb: str) -> Block | None:
    """The block of what an allocation returned; None for an array without elements."""
    if isinstance(array, SymmetricArray) and (why := gone(array)):
        raise ValueError(f"the array cannot be {verb}: {why}")
    address, nbytes, _ = place(array, "array", symmetric=False, writable=False)
    if nbytes and lib.heap_of(address, nbytes) < 0:
        raise ValueError(_left_alone(array, address, nbytes, verb))
    if not nbytes:
        return None
    block = _blocks.get(address)
    if block is None or block.array is None or block.array() is not array:
        if type(array).__module__.partition(".")[0] == "torch":
            raise ValueError(
                f"a tensor of torch cannot be {verb} so: pyshmem.interop.torch.free(tensor) gives its "
                "memory back"
            )
        raise ValueError(
            f"the array at {address:#x} is a view or another object than the allocation "
            f"returned and cannot be {verb}; give that one"
        )
    if not block.cell[0]:  # a call that gave it back was interrupted behind that
        raise ValueError(f"the array cannot be {verb}: the heap has its memory back already")
    for user in users:
        if why := user(block.address, block.nbytes):
            raise ValueError(f"the array cannot be {verb}: {why}")
    return block


def _left_alone(array: Any, address: int, nbytes: int, verb: str) -> str:
    """What is told of an array that no heap has allocated."""
    if lib.ishmemx_is_registered(address, nbytes):
        return f"registered memory is not {verb}: pyshmem.unregister(registration) ends it"
    what = (
        f"shape {tuple(getattr(array, 'shape', ()))}, {getattr(array, 'dtype', 'other elements')}"
    )
    return (
        f"the array ({what}) is not on a symmetric heap and need not be {verb}: its memory goes with "
        "it; give what pyshmem.empty, zeros, array, ... returned"
    )


def _drop(block: Block, why: str) -> None:
    """The heap has taken the block back."""
    if _blocks.get(block.address) is block:
        del _blocks[block.address]
    _invalidate(block, why)
    if runtime.current().checks:
        _show()


def drain() -> None:
    """Free the blocks of arrays that every PE has dropped. Collective.

    ``barrier_all`` and every allocation do the same.

    Example: ``pyshmem.drain()``
    Extension.
    """
    check(lib.ishmemx_drain())


def heap_trim(heap: str = "device") -> None:
    """Give memory that a heap no longer needs back to the system. Collective; begins with a barrier.

    A device heap that grows (``PYSHMEM_DEVICE_HEAP_GROWS``) gives back what it has behind its last
    block, in the parts in which it has grown. Other heaps keep what they have. Blocks of arrays that
    all PEs have dropped are freed before; one of which a PE has a view stays, with all before it.

    Args:
        heap: ``"host"`` or ``"device"``, the same on all PEs.

    Completes: on return the calling PE's memory is given back, and peers' is no longer mapped here.
    Raises: ValueError (heap), MismatchError, NotInitialized, UnsupportedError (no device heap).
    Example: ``box = pyshmem.zeros(4); pyshmem.free(box); pyshmem.heap_trim("host")``
    Extension.
    """
    runtime.current()
    check(lib.ishmemx_heap_trim(heap_number(heap)))


def heap_sites(heap: str = "host") -> list[HeapSite]:
    """Which lines of the program hold how much of a heap here; in checking mode (``PYSHMEM_CHECK=1``).

    What the library has allocated for itself is of the file ``"(pyshmem)"``. ``heap_info`` has the
    sums, always. Lines that still hold something at ``finalize`` are a RuntimeWarning of PE 0, in
    checking mode, if the job ends in order.

    Returns:
        A ``HeapSite`` a line, with ``file``, ``line``, ``nbytes`` and ``allocations``; the most first.

    Raises: ValueError (heap), NotInitialized, UnsupportedError (no checking mode).
    Example: ``held = pyshmem.heap_sites() if job.checks else []``
    Extension.
    """
    number = heap_number(heap)
    if not runtime.current().checks:
        raise errors.UnsupportedError(
            "heap_sites: lines are noted in checking mode; set PYSHMEM_CHECK=1"
        )
    return sites.by_line(_held(), number)


# ---- looking -----------------------------------------------------------------------------------


def to_numpy(array: Any) -> np.ndarray[Any, np.dtype[Any]]:
    """A copy of an array's elements in ordinary host memory, whatever heap it is on.

    Also of one whose job has ended: its memory stays, with what it had.

    Args:
        array: NumPy, CuPy or any array NumPy can convert.

    Returns:
        A new ``np.ndarray``. For the device heap of a GPU it waits for the current CuPy stream.

    Raises: TypeError (a masked array; a tensor of torch that NumPy cannot have), ValueError (the array
        was freed, or reallocated).

    Example: ``print(pyshmem.to_numpy(dest).sum())``
    Extension.
    """
    on_gpu = hasattr(array, "__cuda_array_interface__")
    if on_gpu and not hasattr(array, "__array_interface__"):
        return cupy_arrays.to_numpy(array)
    if isinstance(array, freed.FreedArray):
        raise ValueError(f"the array cannot be used any more: {gone(array)}")
    if isinstance(array, np.ma.MaskedArray):
        raise masked("array")
    try:
        return np.array(array, copy=True, subok=False)
    except (
        RuntimeError
    ) as error:  # torch's: elements that are not what its memory has, or no memory
        raise TypeError(
            f"array is {with_article(type(array).__name__)} without such elements: {error}"
        ) from error
