# SPDX-License-Identifier: BSD-3-Clause
"""Leaf primitives on arrays and elements: atomics, copies and the arithmetic of reductions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...._core.arrays.checks import SymmetricArray
from ...._core.library import ffi, lib
from ...._core.type_table import ATOMIC_OPS, BY_DTYPE, ELEMENT_NUMBER
from ...families import BY_NUMBER
from ..bulk import BARRIER_BYTES, BULK_BYTES, BULK_THREADS, bulk_share
from .arrays import (
    bits_in,
    cast,
    contiguous,
    dtype_name,
    kernel_array,
    match,
    ndarray_of,
    require,
    value_in,
)  # fmt: skip
from .greenlets import current
from .threads import COMPARE_SWAP, MASK, block_threads, fence, thread_in_block

__all__ = [
    "address_of", "array_from", "atomic_add", "atomic_and", "atomic_compare_swap",
    "atomic_fetch_add", "atomic_fetch_and", "atomic_fetch_or", "atomic_fetch_xor", "atomic_or",
    "atomic_swap", "atomic_xor", "bits_of", "bulk_copy", "bulk_room", "cast", "combine", "copy16",
    "copy16x2", "copy16x4", "copy_narrow", "copy_narrow_x4", "high_bits_of", "in_global",
    "itemsize_of", "load16_near", "load_near", "match", "narrow", "no_bulk_copies", "no_sum", "pull16",
    "pull16x2", "pull16x4", "pull_narrow", "pull_narrow_x4", "raw1", "raw16", "raw_of", "read",
    "read_acquire", "require", "rounded", "store16_near", "store_acc1",
    "store_acc16", "store_near", "to_int64", "type_number", "value_of", "widen", "write",
]  # fmt: skip

# -- arrays --------------------------------------------------------------------------------------


def address_of(array: Any) -> int:
    array = ndarray_of(array)
    if type(array) is SymmetricArray and array._nbytes >= 0:
        return array._address
    array = contiguous(array)
    try:
        return int(ffi.cast("intptr_t", ffi.from_buffer(array)))  # in half the time of what follows
    except (ValueError, BufferError):
        address: int = array.ctypes.data  # in Fortran's order
        return address


def array_from(locate: Callable[[Any, Any], int]) -> Callable[[Any, Any], np.ndarray]:
    def view(array: Any, pe: int) -> np.ndarray:
        current()  # of kernels alone
        address, array = locate(array, pe), ndarray_of(array)
        memory = ffi.buffer(ffi.cast("char *", address), array.nbytes)
        order = "C" if array.flags.c_contiguous else "F"
        flat = np.frombuffer(memory, np.uint8).view(array.dtype)
        flat.flags.writeable = array.flags.writeable
        return kernel_array(flat.reshape(array.shape, order=order))

    view.__doc__ = locate.__doc__
    return view


# -- one element ---------------------------------------------------------------------------------


def read(address: int, like: Any) -> Any:
    dtype = like.dtype
    if dtype.itemsize > 8:
        return np.frombuffer(bytes(ffi.buffer(ffi.cast("char *", address), 16)), dtype)[0]
    return value_in(dtype, lib.ishmemx_leaf_load(address, dtype.itemsize))


def read_acquire(address: int, like: Any) -> Any:
    value = read(address, like)
    fence()
    return value


def write(address: int, like: Any, value: Any) -> None:
    dtype = like.dtype
    if dtype.itemsize > 8:
        ffi.memmove(ffi.cast("char *", address), np.asarray(value).astype(dtype).tobytes(), 16)
    else:
        lib.ishmemx_leaf_store(address, bits_in(dtype, value), dtype.itemsize)


def bits_of(like: Any, value: Any) -> int:
    return bits_in(like.dtype, value) & MASK


def high_bits_of(like: Any, value: Any) -> int:
    return bits_in(like.dtype, value) >> 64


def value_of(like: Any, low: int, high: int) -> Any:
    bits = int(low) & MASK | (int(high) & MASK) << 64
    return value_in(like.dtype, bits & ((1 << 8 * like.dtype.itemsize) - 1))


def type_number(like: Any) -> int:
    return BY_NUMBER[dtype_name(like.dtype)]


def itemsize_of(like: Any) -> int:
    itemsize: int = like.dtype.itemsize
    return itemsize


def in_global(address: int) -> bool:
    return True


narrow = int


def to_int64(value: Any) -> int:
    return int(value)


# -- atomics ---------------------------------------------------------------------------------------

_TYPE = {name: ELEMENT_NUMBER[element.name] for name, element in BY_DTYPE.items()}


def _atomic(name: str) -> Any:
    op = ATOMIC_OPS.index(name)

    def atomic(address: int, like: Any, value: Any) -> Any:
        dtype = like.dtype
        kind = _TYPE[dtype_name(dtype)]
        return value_in(dtype, lib.ishmemx_leaf_atomic(op, kind, address, bits_in(dtype, value), 0))

    return atomic


atomic_swap = _atomic("swap")
atomic_add = atomic_fetch_add = _atomic("add")
atomic_and = atomic_fetch_and = _atomic("and")
atomic_or = atomic_fetch_or = _atomic("or")
atomic_xor = atomic_fetch_xor = _atomic("xor")


def atomic_compare_swap(address: int, like: Any, cond: Any, value: Any) -> Any:
    dtype = like.dtype
    old = lib.ishmemx_leaf_atomic(
        COMPARE_SWAP, _TYPE[dtype_name(dtype)], address, bits_in(dtype, value), bits_in(dtype, cond)
    )
    return value_in(dtype, old)


# -- bulk copies -----------------------------------------------------------------------------------


def _chunks(count: int) -> Any:
    """``count`` chunks of ``nbytes``, ``step`` bytes apart, as one GPU lane copies them."""
    copy = lib.ishmemx_leaf_copy

    def chunks(dest: int, source: int, step: int, nbytes: int = 16) -> None:
        if (dest | source) & (nbytes - 1):
            raise RuntimeError(f"misaligned {nbytes}-byte access: {dest:#x} <- {source:#x}")
        for offset in range(0, count * step, step):
            copy(dest + offset, source + offset, nbytes)

    return chunks


copy16x4 = pull16x4 = copy_narrow_x4 = pull_narrow_x4 = _chunks(4)
copy16x2 = pull16x2 = _chunks(2)
copy16 = pull16 = copy_narrow = pull_narrow = _chunks(1)


def load_near(address: int, nbytes: int) -> int:
    value: int = lib.ishmemx_leaf_load(address, nbytes)
    return value


def store_near(address: int, nbytes: int, bits: int) -> None:
    lib.ishmemx_leaf_store(address, int(bits) & MASK, nbytes)


def load16_near(address: int) -> tuple[int, int]:
    if address & 15:
        raise RuntimeError(f"misaligned 16-byte load: {address:#x}")
    return lib.ishmemx_leaf_load(address, 8), lib.ishmemx_leaf_load(address + 8, 8)


def store16_near(address: int, low: int, high: int) -> None:
    if address & 15:
        raise RuntimeError(f"misaligned 16-byte store: {address:#x}")
    lib.ishmemx_leaf_store(address, int(low) & MASK, 8)
    lib.ishmemx_leaf_store(address + 8, int(high) & MASK, 8)


def bulk_room() -> int:
    """As on a GPU, so that what copies make of it is seen here."""
    threads = block_threads()
    return bulk_share(BULK_BYTES // threads) - BARRIER_BYTES if threads <= BULK_THREADS else 0


def bulk_copy(dest: int, source: int, nbytes: int, room: int) -> None:
    """In chunks of ``room`` bytes; what the copy unit refuses is refused."""
    share = thread_in_block() * (room + BARRIER_BYTES)
    if (dest | source | nbytes | room | share) & 15 or share + room + BARRIER_BYTES > BULK_BYTES:
        raise RuntimeError(f"misaligned bulk copy: {dest:#x} <- {source:#x}, {nbytes} by {room}")
    for at in range(0, nbytes, room):
        lib.ishmemx_leaf_copy(dest + at, source + at, min(room, nbytes - at))


def no_bulk_copies() -> None:
    """The simulator's take no shared memory."""


# -- reductions ----------------------------------------------------------------------------------


def _elements(address: int, like: Any, nbytes: int) -> np.ndarray:
    return np.frombuffer(bytes(ffi.buffer(ffi.cast("char *", address), nbytes)), like.dtype)


def raw16(address: int, like: Any) -> np.ndarray:
    return _elements(address, like, 16)


def raw1(address: int, like: Any) -> np.ndarray:
    return _elements(address, like, like.dtype.itemsize)


def raw_of(like: Any, low: int, high: int) -> np.ndarray:
    data = b"".join((int(word) & MASK).to_bytes(8, "little") for word in (low, high))
    return np.frombuffer(data, like.dtype)


def rounded(like: Any, acc: np.ndarray) -> tuple[int, int]:
    data = acc.astype(like.dtype).tobytes()
    return int.from_bytes(data[:8], "little"), int.from_bytes(data[8:], "little")


def widen(like: Any, raw: np.ndarray) -> np.ndarray:
    return raw.astype(np.float32) if dtype_name(like.dtype) in ("float16", "bfloat16") else raw


def no_sum(like: Any) -> np.ndarray:
    return widen(like, np.zeros(max(1, 16 // like.dtype.itemsize), like.dtype))


_COMBINE = {
    "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor, "max": np.maximum,
    "min": np.minimum, "sum": np.add, "prod": np.multiply,
}  # fmt: skip


def combine(operation: str) -> Any:
    function = _COMBINE[operation]

    def apply(like: Any, acc: np.ndarray, raw: np.ndarray) -> np.ndarray:
        with np.errstate(all="ignore"):
            result: np.ndarray = function(acc, widen(like, raw))
        return result

    return apply


def store_acc16(address: int, like: Any, acc: np.ndarray) -> None:
    data = acc.astype(like.dtype).tobytes()
    ffi.memmove(ffi.cast("char *", address), data, len(data))


def store_acc1(address: int, like: Any, acc: np.ndarray) -> None:
    store_acc16(address, like, acc[:1])
