# SPDX-License-Identifier: BSD-3-Clause
"""shmem4py's symmetric memory: bytes, and arrays in either order that look at them."""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np

import pyshmem

from ..._core.arrays.checks import SymmetricArray
from ..._core.dtypes import as_dtype
from ..._core.library import ffi
from ..._core.type_table import TYPENAMES
from ..._core.values import fitting, with_article
from ...host.memory.creation import alignment_of
from ...host.memory.heap import allocate

#: What ``alloc`` has made and ``free`` has not taken back, by ``id``.
_owners: weakref.WeakValueDictionary[int, SymmetricArray] = weakref.WeakValueDictionary()

_CTYPES = {typename.name: typename.ctype for typename in TYPENAMES}
_TYPENAMES = {
    "c": "char", "b": "schar", "h": "short", "i": "int", "l": "long", "q": "longlong",
    "B": "uchar", "H": "ushort", "I": "uint", "L": "ulong", "Q": "ulonglong",
    "f": "float", "d": "double", "g": "longdouble", "F": "complexf", "D": "complexd",
}  # fmt: skip


def in_c_order(value: Any) -> Any:
    """``value``, or of an array in Fortran order its transpose: the same elements in memory."""
    return value.T if isinstance(value, np.ndarray) and value.flags.fnc else value


def _getbuffer(obj: Any, readonly: bool = False) -> tuple[Any, int, str]:
    """The elements of an array for cffi, how many, and OpenSHMEM's TYPENAME. Suites call it."""
    if not isinstance(obj, np.ndarray):
        raise TypeError(f"{type(obj).__name__} is not a NumPy array")
    if not readonly and not obj.flags.writeable:
        raise ValueError("the array is read-only")
    if not obj.flags.forc:
        raise ValueError("the array is not contiguous")
    if obj.dtype.char not in _TYPENAMES:
        raise TypeError(f"dtype {obj.dtype} has no TYPENAME in OpenSHMEM")
    typename = _TYPENAMES[obj.dtype.char]
    return ffi.from_buffer(_CTYPES[typename] + "[]", in_c_order(obj)), obj.size, typename


def _address(array: np.ndarray) -> int:
    return int(array.__array_interface__["data"][0])


def alloc(
    count: int, size: int = 1, align: int | None = None, hints: int | None = None,
    clear: bool = True,
) -> memoryview:  # fmt: skip
    """``count * size`` symmetric bytes, of 0 unless ``clear`` is false. Collective."""
    return _alloc(count * size, align, hints, clear)


def _alloc(
    nbytes: int, align: int | None, hints: int | None, clear: bool, what_for: str = ""
) -> memoryview:
    """``alloc`` of bytes that are ``what_for``: what members compare of an array that lies in them."""
    alignment = alignment_of(align or None, hints or 0)
    owner = allocate("empty", max(nbytes, 1), np.uint8, "host", align=alignment, what_for=what_for)
    _owners[id(owner)] = owner
    if clear:
        owner[...] = 0
        pyshmem.sync_all()
    memory: Any = owner  # NumPy says only from Python 3.12 on that arrays are buffers
    return memoryview(memory)[:nbytes]


def fromalloc(mem: memoryview, shape: Any = None, dtype: Any = None, order: str = "C") -> Any:
    """Memory of ``alloc`` as an array."""
    if not isinstance(mem, memoryview) or not isinstance(mem.obj, SymmetricArray):
        raise TypeError(f"mem is {with_article(type(mem).__name__)}, not what alloc returns")
    start = _address(np.asarray(mem)) - _address(mem.obj) if mem.nbytes else 0
    typed: Any = mem.obj[start : start + mem.nbytes].view(as_dtype(dtype))
    return typed if shape is None else typed.reshape(shape, order=order)


def free(mem: Any) -> None:
    """Give memory back: what ``alloc`` returned, or an array of all of it. Collective.

    Raises: KeyError (freed before), ValueError (a part).
    """
    owner: Any = mem.obj if isinstance(mem, memoryview) else getattr(mem, "base", None)
    if not isinstance(owner, SymmetricArray):
        array: Any = mem
        pyshmem.free(array)
        return
    if id(owner) not in _owners:
        raise KeyError("the memory was freed before, or no call here allocated it")
    if max(mem.nbytes, 1) != owner.nbytes:  # nothing is one byte, to have an address
        raise ValueError(f"{mem.nbytes} bytes are a part of {owner.nbytes}; free all")
    pyshmem.free(owner)
    del _owners[id(owner)]


def del_array(a: Any) -> None:
    """``free``."""
    free(a)


def new_array(
    shape: Any, dtype: Any = float, order: str = "C", *,
    align: int | None = None, hints: int | None = None, clear: bool = True,
) -> Any:  # fmt: skip
    """A symmetric array, of zeros unless ``clear`` is false. Collective."""
    kind = as_dtype(dtype)
    nbytes = int(np.prod(shape, dtype="p")) * kind.itemsize
    extents = tuple(np.atleast_1d(np.asarray(shape, "p")).tolist())
    order_of = order if len(extents) > 1 else "C"  # one dimension is in both orders
    mem = _alloc(nbytes, align, hints, clear, f"shape {extents} {kind} in order {order_of}")
    return fromalloc(mem, shape, kind, order)


def _filled(array: Any, values: Any) -> Any:
    """Set the elements, refusing an integer that does not fit; no PE goes on before all have."""
    fitting(array.dtype, values)
    np.copyto(array, values, casting="unsafe")
    pyshmem.sync_all()
    return array


def array(
    obj: Any, dtype: Any = None, *,
    order: str = "K", align: int | None = None, hints: int | None = None,
) -> Any:  # fmt: skip
    """A symmetric array with the elements of another, in its order. Collective."""
    values: Any = np.asarray(obj, None if dtype is None else as_dtype(dtype), order=order)  # type: ignore[call-overload]
    kept = "F" if values.flags.fnc else "C"
    made = new_array(values.shape, values.dtype, kept, align=align, hints=hints, clear=False)
    return _filled(made, values)


def empty(
    shape: Any, dtype: Any = float, order: str = "C", *,
    align: int | None = None, hints: int | None = None,
) -> Any:  # fmt: skip
    """A symmetric array without values. Collective."""
    return new_array(shape, dtype, order, align=align, hints=hints, clear=False)


def zeros(
    shape: Any, dtype: Any = float, order: str = "C", *,
    align: int | None = None, hints: int | None = None,
) -> Any:  # fmt: skip
    """A symmetric array of zeros. Collective."""
    return new_array(shape, dtype, order, align=align, hints=hints)


def ones(
    shape: Any, dtype: Any = float, order: str = "C", *,
    align: int | None = None, hints: int | None = None,
) -> Any:  # fmt: skip
    """A symmetric array of ones. Collective."""
    return _filled(new_array(shape, dtype, order, align=align, hints=hints, clear=False), 1)


def full(
    shape: Any, fill_value: Any, dtype: Any = None, order: str = "C", *,
    align: int | None = None, hints: int | None = None,
) -> Any:  # fmt: skip
    """A symmetric array of one value. Collective."""
    kind = np.asarray(fill_value).dtype if dtype is None else dtype
    made = new_array(shape, kind, order, align=align, hints=hints, clear=False)
    return _filled(made, fill_value)
