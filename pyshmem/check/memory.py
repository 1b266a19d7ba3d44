# SPDX-License-Identifier: BSD-3-Clause
"""From arrays and addresses to places on a heap: PE, heap, and ranges of bytes from its beginning.

And which of them were allocated and never written.
"""

from __future__ import annotations

import itertools
import sys
import zlib
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator
from types import FrameType
from typing import Any, NamedTuple

import numpy as np

from .._core.arrays.checks import place
from .._core.library import ffi, lib
from ..host.job import tracebacks

_MOST_DIGESTED = 64 << 20  # bytes of a put
MOST_FLAGS = 1024  # elements of one write that are looked at for a value that all have
_MOST_RANGES = 1024  # of one access to an array with gaps; of more, the first


class Unknown(Exception):
    """An argument that the routine itself refuses."""


#: Ranges of addresses: begin, end, PE, heap. One's own are first; those of registered arrays last.
_windows: list[tuple[int, int, int, Any]] = []
_counts: Counter[tuple[Any, int]] = Counter()
_peers: list[int] = []
me = 0
#: Of an allocation of bytes for elements of another library: their size, and their extents.
elements: tuple[int, Any] | None = None


def know_heaps(my_pe: int, n_pes: int, device: bool) -> None:
    """Where the heaps of all PEs are in this process."""
    global me
    me = my_pe
    _windows.clear()
    _in_use.clear()
    base, nbytes = ffi.new("uintptr_t *"), ffi.new("int64_t *")
    for heap in range(1 + device):
        if not lib.ishmemx_heap_range(heap, base, nbytes) and base[0]:
            _windows.append((base[0], base[0] + nbytes[0], my_pe, heap))
    _peers[:] = [pe for pe in range(n_pes) if pe != my_pe]


def _know_peers(heap: int, address: int, offset: int) -> None:
    """Where peers' copies of a heap are, by the first block on it: ``ptr`` knows blocks alone."""
    peer = ffi.new("uintptr_t *")
    nbytes = next(high - low for low, high, pe, of in _windows if of == heap and pe == me)
    for pe in _peers:
        if not lib.ishmemx_ptr(address, pe, peer) and peer[0]:
            low = peer[0] - offset
            _windows.append((low, low + nbytes, pe, heap))


def windows() -> tuple[tuple[int, int, int, Any], ...]:
    """Ranges of addresses where heaps are: begin, end, PE, heap."""
    return tuple(_windows)


def where(address: int) -> tuple[int, Any, int] | None:
    """PE, heap and offset of an address; None: it is on no heap."""
    for low, high, pe, heap in _windows:
        if low <= address < high:
            return pe, heap, address - low
    return None


def own(address: int) -> tuple[Any, int]:
    """Heap and offset of what is symmetric. Raises: Unknown."""
    found = where(address)
    if found is None or found[0] != me:
        raise Unknown
    return found[1], found[2]


def base_of(pe: int, heap: int) -> int:
    """Where a heap begins in this process."""
    return next(low for low, _, of, number in _windows if (of, number) == (pe, heap))


class Span:
    """Elements of an array in a row: an address, and what an element is."""

    __slots__ = ("address", "dtype", "nelems")

    def __init__(self, array: Any) -> None:
        self.address, nbytes, kind = place(array, "array", symmetric=False, writable=False)
        self.dtype: np.dtype[Any] = kind.dtype
        self.nelems = nbytes // max(1, self.dtype.itemsize)

    def ranges(self, offset: int, nelems: int, step: int = 1, block: int = 1) -> Any:
        """Bytes of ``nelems`` blocks of elements, ``step`` apart, from ``offset`` on.

        Raises: Unknown: there are not as many, and the routine refuses them.
        """
        if nelems and (nelems - 1) * step + block > self.nelems:
            raise Unknown
        size = self.dtype.itemsize
        if step == block:
            return ((offset, offset + nelems * block * size),) if nelems else ()
        return tuple(
            (offset + n * step * size, offset + (n * step + block) * size)
            for n in range(min(nelems, _MOST_RANGES))
        )

    def value(self) -> int | None:
        """Element 0, if that is an integer that may be waited for."""
        return peek(self.address, self.dtype)

    def value_of_each(self, nelems: int) -> int | None:
        """What each of ``nelems`` elements is, as of flags that are set at once."""
        if nelems == 1:
            return self.value()
        if self.dtype.kind not in "iu" or not 0 < nelems <= min(self.nelems, MOST_FLAGS):
            return None
        nbytes = nelems * self.dtype.itemsize
        data = ffi.buffer(ffi.cast("char *", self.address), nbytes)
        some = np.frombuffer(data, self.dtype)
        return int(some[0]) if (some == some[0]).all() else None

    def digest(self, nelems: int) -> int | None:
        """What tells other elements from these; None: they are very many."""
        nbytes = nelems * self.dtype.itemsize
        if nelems > self.nelems or nbytes > _MOST_DIGESTED:
            return None
        return zlib.crc32(ffi.buffer(ffi.cast("char *", self.address), nbytes))


def peek(address: int, dtype: np.dtype[Any]) -> int | None:
    """The integer at an address; None: there is another kind of element."""
    if dtype.kind not in "iu" or dtype.itemsize > 8:
        return None
    data = bytes(ffi.buffer(ffi.cast("char *", address), dtype.itemsize))
    return int.from_bytes(data, "little", signed=dtype.kind == "i")


def ranges_of(array: np.ndarray[Any, Any]) -> tuple[int, int, Any] | None:
    """PE, heap and byte ranges of an array's elements, also of one with gaps; None: it is on no heap."""
    address = array.__array_interface__["data"][0]
    return ranges_from(address, list(array.shape), list(array.strides), array.itemsize)


def ranges_from(
    address: int, shape: list[int], strides: list[int], size: int
) -> tuple[int, int, Any] | None:
    """The same of elements of ``size`` bytes from an address on, with ``strides`` in bytes."""
    found = where(address) if all(shape) else None
    if found is None:
        return None
    pe, heap, offset = found
    for axis, stride in enumerate(strides):
        if stride < 0:
            offset += stride * (shape[axis] - 1)
            strides[axis] = -stride
    axes = sorted(
        (abs(stride), n) for n, stride in zip(shape, strides, strict=True) if n > 1 and stride
    )
    run = size
    while axes and axes[0][0] == run:
        run *= axes.pop(0)[1]
    starts = [offset]
    for stride, n in reversed(axes):
        if len(starts) * n > _MOST_RANGES:
            n = max(1, _MOST_RANGES // len(starts))
        starts = [start + stride * k for start in starts for k in range(n)]
    return pe, heap, tuple((start, start + run) for start in starts)


def joined(places: list[int], size: int) -> tuple[tuple[int, int], ...]:
    """Ranges of elements of ``size`` bytes at places that ascend; neighbours are one range."""
    ranges: list[tuple[int, int]] = []
    for low in places:
        if ranges and ranges[-1][1] == low:
            ranges[-1] = ranges[-1][0], low + size
        else:
            ranges.append((low, low + size))
    return tuple(ranges[:_MOST_RANGES])


def allocated(array: Any, *, zero: bool, internal: bool) -> tuple[Any, ...] | None:
    """The effect of an allocation; None: there are no elements."""
    span = Span(array)
    if not span.nelems:
        return None
    heap, offset = own(span.address)
    if isinstance(heap, int) and not any(pe != me and of == heap for _, _, pe, of in _windows):
        _know_peers(heap, span.address, offset)
    _counts[heap, offset] += 1
    size, end = span.dtype.itemsize, offset + span.nelems * span.dtype.itemsize
    shape = tuple(int(n) for n in getattr(array, "shape", (span.nelems,)))
    if elements is not None:
        size, shape = elements[0], tuple(np.ravel(elements[1]).tolist())
    about = size, shape, zero, internal
    return ("M", heap, offset, end, _counts[heap, offset], *about)


def registered(array: Any, name: Any) -> list[tuple[Any, ...]]:
    """The effect of having registered an array, which is a heap by itself from here on."""
    span = Span(array)
    _windows.append((span.address, span.address + span.nelems * span.dtype.itemsize, me, name))
    made = allocated(array, zero=True, internal=False)
    return [] if made is None else [made]


def unregistered(array: Any) -> None:
    """It is none any more."""
    low = Span(array).address
    _windows[:] = [one for one in _windows if one[0] != low]


# ---- memory on no heap that is in use ------------------------------------------------------------

#: By first address: how many use it, and what it is called as a heap.
_in_use: dict[int, tuple[int, Any]] = {}


def use(address: int, nbytes: int) -> tuple[Any, bool] | None:
    """Memory is followed from here to ``unuse``, as a heap by itself: its name, and whether it is new.

    None: it is on a heap, or followed with other memory, already.
    """
    count, heap = _in_use.get(address, (0, None))
    if not count:
        if where(address) is not None:
            return None
        heap = "lent", me, next(_lendings)
        _windows.append((address, address + nbytes, me, heap))
    _in_use[address] = count + 1, heap
    return heap, not count


def unuse(address: int) -> None:
    """One user less; of the last the memory is followed no more."""
    count, heap = _in_use.pop(address, (0, None))
    if count > 1:
        _in_use[address] = count - 1, heap
    elif count:
        _windows[:] = [one for one in _windows if one[3] != heap]


# ---- what was never written ------------------------------------------------------------------------
# New memory is filled with eight bytes that nobody writes. Who reads them has read what nobody has set,
# and what a put or a collective has copied from there is found where it is read.

#: Of an allocation without values. Neither a small number nor one that adds up to one.
UNWRITTEN = np.array([0xA7D3_5B1F_E94C_86F5], np.uint64)
_UNWRITTEN = UNWRITTEN.tobytes()
#: Where such memory was taken, by address: begin and end. It may have gone back since.
_begins: list[int] = []
_ends: dict[int, int] = {}
_LEAST_TOLD = 4  # bytes that are told from others; of less, the eight around them


def know_unwritten(address: int, nbytes: int) -> None:
    """Memory was allocated without values."""
    if address not in _ends:
        _begins.insert(bisect_right(_begins, address), address)
    _ends[address] = nbytes + address


def forget_unwritten() -> None:
    """Another job begins."""
    _begins.clear()
    _ends.clear()


def never_written(place: tuple[int, int, Any], *, whole: bool = False) -> list[tuple[Any, ...]]:
    """The effect of reading what was never written at PE, heap and ranges of bytes; none: it was."""
    pe, heap, ranges = place
    if not _begins or pe != me:
        return []
    found = first_unwritten(base_of(pe, heap), ranges, whole=whole)
    return [] if found is None else [("u", pe, heap, (found,))]


def first_unwritten(
    address: int, ranges: Iterable[tuple[int, int]], *, whole: bool = False, there: bool = False
) -> Any:
    """The first range of bytes that was never written, of those that are read; None: there is none.

    Args:
        address: of byte 0 of the heap in this process.
        ranges: of bytes from there on.
        whole: only if none of them was written, as of what is copied.
        there: they are a copy of such memory from its begin, or a multiple of eight bytes behind that.
    """
    if not _begins:
        return None
    found = None
    for low, high in ranges:
        one = _in_range(address + low, address + high, there)
        if one is None:
            if whole:
                return None
        elif not whole:
            return one[0] - address, one[1] - address
        elif one != (address + low, address + high):
            return None
        found = found or (one and (low, high))
    return found


def is_unwritten(value: Any, dtype: np.dtype[Any]) -> bool:
    """Is that an element of what was never written? Of small ones nobody can tell."""
    if not _begins or dtype.itemsize < _LEAST_TOLD:
        return False
    return np.asarray(value, dtype).tobytes() in _UNWRITTEN + _UNWRITTEN


def _in_range(low: int, high: int, there: bool = False) -> tuple[int, int] | None:
    """The first such bytes from an address to another."""
    n = bisect_right(_begins, low) - 1
    if not there and (n < 0 or high > _ends[_begins[n]]):
        return None
    begin = low if there else _begins[n]
    if high - low < _LEAST_TOLD:
        around = begin + (low - begin) // 8 * 8
        if there or around + 8 > _ends[begin]:
            return None
        return (low, high) if _in_range(around, around + 8) else None
    phase = (low - begin) % 8
    data = bytes(ffi.buffer(ffi.cast("char *", low), high - low))
    if high - low < 8:
        wanted = (_UNWRITTEN + _UNWRITTEN)[phase : phase + high - low]
        return (low, high) if data == wanted else None
    skip = -phase % 8
    words = np.frombuffer(data, np.uint64, (high - low - skip) // 8, skip)
    hits = np.flatnonzero(words == UNWRITTEN[0])
    if not hits.size:
        return None
    if hits.size == words.size:
        return low, high
    at = int(hits[0])
    more = np.flatnonzero(np.diff(hits) != 1)
    count = int(more[0]) + 1 if more.size else int(hits.size)
    return low + skip + 8 * at, low + skip + 8 * (at + count)


# ---- ordinary arrays that a non-blocking put reads -------------------------------------------------
# What a program stores to arrays of its own nobody sees. So the bytes are kept that such a put may still
# read, and looked at when the next routine is called: each array is a heap by itself until then.

_MOST_LENT, _MOST_LENT_BYTES = 64, 1 << 20


class Lent(NamedTuple):
    """An array that is in use until ``quiet``."""

    array: Any  # which keeps its memory from being another's
    address: int
    data: bytes
    itemsize: int
    use: tuple[Any, int]  # context, and PE that it goes to
    frame: tuple[str, int, str]  # file, line and function of the call
    name: str  # of the variable; empty: it has none
    heap: tuple[str, int, int]


_lent: list[Lent] = []
_lendings = itertools.count()


def lend(array: Any, span: Span, nelems: int, ctx: Any, pe: int) -> list[tuple[Any, ...]]:
    """The effect of reading elements that are on no heap, until ``quiet``."""
    nbytes, frame = nelems * span.dtype.itemsize, tracebacks.program_frame(sys._getframe(1))
    if frame is None or nelems > span.nelems or not 0 < nbytes <= _MOST_LENT_BYTES:
        return []
    data = bytes(ffi.buffer(ffi.cast("char *", span.address), nbytes))
    at = frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_qualname
    of = (ctx, pe), at, variable(frame, array), ("lent", me, next(_lendings))
    _lent.append(Lent(array, span.address, data, span.dtype.itemsize, *of))
    del _lent[:-_MOST_LENT]
    return [("rq", me, _lent[-1].heap, ((0, nbytes),), ctx, pe)]


def variable(frame: FrameType, array: Any) -> str:
    """What the program calls an array, or the one that it is a view of."""
    bases = (getattr(array, name, None) for name in ("base", "_base"))  # NumPy's and torch's
    wanted = [array, *(one for one in bases if one is not None)]
    for variables in (frame.f_locals, frame.f_globals):
        for name, value in list(variables.items()):
            if any(value is one for one in wanted):
                return name
    return ""


def lent_by(effects: list[tuple[Any, ...]]) -> Lent | None:
    """The array on no heap that these effects read until ``quiet``: the one that was lent last."""
    last = _lent[-1] if _lent else None
    return last if last and any(one[:3] == ("rq", me, last.heap) for one in effects) else None


def stored_meanwhile() -> Iterator[tuple[Lent, int, int]]:
    """Arrays that were changed while a put may read them, and the first and the end of the bytes."""
    for n, one in enumerate(_lent):
        there = ffi.buffer(ffi.cast("char *", one.address), len(one.data))
        if there != one.data:  # compared where it lies: this is asked at each call
            data = bytes(there)
            _lent[n] = one._replace(data=data)
            differ = np.frombuffer(data, np.uint8) != np.frombuffer(one.data, np.uint8)
            places = np.flatnonzero(differ) // one.itemsize * one.itemsize
            yield one, int(places[0]), int(places[-1]) + one.itemsize


def give_back(done: Iterable[tuple[Any, ...]]) -> None:
    """What these effects complete is in use no more."""
    for _, ctx, pes in [one for one in done if one[0] == "Q"] if _lent else ():
        _lent[:] = [
            one
            for one in _lent
            if (ctx is not None and one.use[0] != ctx)
            or (pes is not None and one.use[1] not in pes)
        ]
