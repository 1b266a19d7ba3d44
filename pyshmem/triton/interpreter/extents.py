# SPDX-License-Identifier: BSD-3-Clause
"""The memory that a kernel's argument stands for: interpreted programs that leave it are told.

A pointer keeps the argument that it was made from, through arithmetic, changes of shape and casts. What
is loaded or stored by it lies in the memory of that argument: all of the array, or the tensor's storage,
whose part the argument may be, here or where a peer keeps the same. Of pointers made of integers nothing
is known, nor of those that stand for more than one argument, nor of one that has gone so far that it is
another array's by the difference of their addresses: they are taken as they are. The library's own
kernels go from array to array so, and are not looked at.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ..._foreign import triton_interpreter as foreign
from ...host.memory.heap import Block
from ..runtime import constants as words
from ..runtime import context as job

_BEYOND = 1 << 36  # bytes that no wrong index goes


class Extent(NamedTuple):
    """An argument's memory."""

    name: str
    dtype: str
    itemsize: int
    start: int  # address of the argument's element 0
    low: int  # addresses: the first of what may be touched, and the end
    high: int

    def nelems(self) -> int:
        """Elements from the argument's first on."""
        return (self.high - self.start) // self.itemsize


def of_argument(name: str, argument: Any, converted: Any) -> None:
    """Has the pointer that Triton made of an argument know its memory."""
    handle: Any = getattr(converted, "handle", None)
    array = getattr(argument, "array", argument)
    if hasattr(handle, "base"):  # of a descriptor that the host has made
        handle, array = handle.base, argument.base
    memory = None if handle is None or array is None else _memory_of(array)
    if memory is None:
        return
    (low, high), dtype = memory, handle.get_element_ty()
    size = max(1, dtype.primitive_bitwidth // 8)
    start = int(handle.data.reshape(-1)[0])
    if low <= start <= high:
        handle.extent = Extent(name, str(getattr(array, "dtype", dtype)), size, start, low, high)


def _memory_of(array: Any) -> tuple[int, int] | None:
    """Where the memory begins and ends that an array is a view of; None: nobody knows."""
    if hasattr(array, "untyped_storage"):
        storage = array.untyped_storage()
        return storage.data_ptr(), storage.data_ptr() + storage.nbytes()
    if not isinstance(array, np.ndarray):
        return None
    while isinstance(array.base, np.ndarray):
        array = array.base
    if array.base is not None and not isinstance(array.base, Block):
        return None  # a view of another object's memory, which may be larger
    if not array.flags.c_contiguous and not array.flags.f_contiguous:
        return None
    low = array.__array_interface__["data"][0]
    return low, low + array.nbytes


# ---- pointers made of pointers ---------------------------------------------------------------------


def _know(made: Any, pointer: Any) -> Any:
    """``made``, which is of the argument that ``pointer`` is of, if that is known."""
    extent = getattr(pointer, "extent", None)
    if extent is not None:
        made.extent = extent
    return made


def _kept(plain: Callable[..., Any]) -> Callable[..., Any]:
    """What is made of one pointer, the first argument, knows what that knew."""
    return lambda self, pointer, *more: _know(plain(self, pointer, *more), pointer)


def _splat(plain: Callable[..., Any]) -> Callable[..., Any]:
    return lambda self, ret_ty, arg: _know(plain(self, ret_ty, arg), arg)


def _select(plain: Callable[..., Any]) -> Callable[..., Any]:
    """Of two of one argument, it is of that one."""

    def create_select(self: Any, condition: Any, first: Any, second: Any) -> Any:
        made = plain(self, condition, first, second)
        extent = getattr(first, "extent", None)
        if extent is not None and getattr(second, "extent", None) == extent:
            made.extent = extent
        return made

    return create_select


def _materialized(plain: Callable[..., Any]) -> Callable[..., Any]:
    """The pointers of a descriptor, or of a block pointer, with their mask."""

    def materialize_pointers(self: Any, *given: Any) -> Any:
        made = plain(self, *given)
        _know(made[0], self.base)
        return made

    return materialize_pointers


# ---- what is touched -------------------------------------------------------------------------------


def touch(pointer: Any, mask: Any, nbytes: Any) -> None:
    """The same of what a kernel holds: a primitive of the library."""
    handle, on = getattr(pointer, "handle", None), getattr(mask, "handle", mask)
    if hasattr(handle, "extent"):
        size = getattr(nbytes, "handle", None)
        check(handle, on, nbytes if size is None else int(size.data.reshape(-1)[0]))


def check(pointers: Any, mask: Any, nbytes: int | None = None) -> None:
    """Raises IndexError where elements that a mask lets through are outside of their argument's memory.

    Args:
        pointers: a handle of the interpreter.
        mask: another, or an array; None: all.
        nbytes: that are touched from each pointer on; None: an element.
    """
    extent = getattr(pointers, "extent", None)
    if extent is None:
        return
    addresses = np.asarray(pointers.data)
    if mask is not None:
        on = np.asarray(getattr(mask, "data", mask)).astype(bool)
        if not on.all():
            addresses = np.broadcast_to(addresses, np.broadcast_shapes(addresses.shape, on.shape))
            addresses = addresses[np.broadcast_to(on, addresses.shape)]
    if not addresses.size or nbytes == 0:
        return
    size = nbytes or max(1, pointers.get_element_ty().primitive_bitwidth // 8)
    least, most = int(addresses.min()), int(addresses.max()) + size
    if (
        extent.low <= least and most <= extent.high
    ):  # here, as most are; peers need not be asked for
        return
    distances = (0, *_distances())
    if any(extent.low + d <= least and most <= extent.high + d for d in distances):
        return
    wrong = _outside(extent, addresses.reshape(-1).astype(np.int64), size, distances)
    if wrong is not None:
        raise IndexError(_told(extent, *wrong, addresses.size > 1))


def _distances() -> list[int]:
    """How far from here peers keep the same, in bytes; of those that loads and stores reach."""
    state = job.address()
    if not state or not job.is_running():
        return []
    n_pes = job.read(state + 8 * int(words.N_PES), 8, True)
    found = (job.read(state + 8 * (int(words.DELTA) + pe), 8, True) for pe in range(n_pes))
    return [distance for distance in found if distance != int(words.FAR)]


def _outside(
    extent: Extent, addresses: np.ndarray, size: int, distances: tuple[int, ...]
) -> tuple[int, int] | None:
    """First and last byte outside, as from the argument's begin on the PE meant; None: there is none."""
    ranges = [(extent.low + d, extent.high + d, d) for d in distances]
    for low, high, _ in ranges:
        addresses = addresses[(addresses < low) | (addresses + size > high)]
    if not addresses.size:
        return None
    # The PE that is meant is the one whose copy is the closest.
    copy = min(ranges, key=lambda one: min(abs(int(addresses[0]) - end) for end in one[:2]))
    if min(abs(int(addresses[0]) - end) for end in copy[:2]) > _BEYOND:
        return None
    begin = extent.start + copy[2]
    low, high = copy[0] - begin, copy[1] - begin
    places = addresses - begin
    behind, before = places[places + size > high], places[places < low]
    if behind.size:
        return max(int(behind.min()), high), int(behind.max()) + size - 1
    return int(before.min()), min(int(before.max()) + size, low) - 1


def _told(extent: Extent, first: int, last: int, is_tile: bool) -> str:
    size, n = extent.itemsize, extent.nelems()
    begin, end = first // size, last // size
    which = f"element {begin} is" if begin == end else f"elements {begin} to {end} are"
    if first < 0:
        return f"{which} before the begin of the memory of {extent.name}, of {extent.dtype}"
    part = "" if extent.start == extent.low else "of its array from there on, "
    mask = f"; a tile that reaches beyond them has a mask, as mask=offs < {n}" if is_tile else ""
    return f"{which} behind the end of {extent.name}, which has {part}{n} of {extent.dtype}{mask}"


def _load(plain: Callable[..., Any]) -> Callable[..., Any]:
    def load(self: Any, ptrs: Any, mask: Any, *more: Any) -> Any:
        check(ptrs, mask)
        return plain(self, ptrs, mask, *more)

    return load


def _store(plain: Callable[..., Any]) -> Callable[..., Any]:
    def store(self: Any, ptrs: Any, value: Any, mask: Any, *more: Any) -> Any:
        check(ptrs, mask)
        return plain(self, ptrs, value, mask, *more)

    return store


def _cas(plain: Callable[..., Any]) -> Callable[..., Any]:
    def cas(self: Any, ptr: Any, *more: Any) -> Any:
        check(ptr, None)
        return plain(self, ptr, *more)

    return cas


def _rmw(plain: Callable[..., Any]) -> Callable[..., Any]:
    def rmw(self: Any, op: Any, ptr: Any, value: Any, mask: Any, *more: Any) -> Any:
        check(ptr, mask)
        return plain(self, op, ptr, value, mask, *more)

    return rmw


def install() -> None:
    """Puts this around the interpreter's pointers, loads, stores and atomics."""
    for hook in foreign.OF_POINTERS:
        hook.wrap(_kept)
    foreign.SPLAT.wrap(_splat)
    foreign.SELECT.wrap(_select)
    for hook in foreign.MATERIALIZED:
        hook.wrap(_materialized)
    foreign.LOAD.wrap(_load)
    foreign.STORE.wrap(_store)
    foreign.ATOMICS[0].wrap(_cas)
    foreign.ATOMICS[1].wrap(_rmw)
