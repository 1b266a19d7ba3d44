# SPDX-License-Identifier: BSD-3-Clause
"""The elements that a wait or a test of ``wait_sets`` is about, as the library takes them."""

from __future__ import annotations

from typing import Any, NamedTuple, SupportsIndex

import numpy as np

from .._core import cupy_arrays
from .._core.array_types import AnyArray
from .._core.arrays import StreamLike, masked, place, stream_handle
from .._core.dtypes import Kind, integer, integer_of, nelems_of, unsupported_dtype
from .._core.errors import UnsupportedError
from .._core.library import check, ffi, lib
from .stream_kernels import run

Count = SupportsIndex | None


class ElementSet(NamedTuple):
    """The elements in question, as the library takes them."""

    kind: int
    address: int
    nelems: int
    status: Any
    values: Any  # its address is what the library reads


def element_set(
    routine: str, ivars: AnyArray, values: Any, nelems: Count, status: Any, vector: int
) -> ElementSet:
    address, nbytes, kind = place(ivars, "ivars", symmetric=True, writable=False)
    if kind.wait_until is None:
        raise unsupported_dtype(routine, kind, "a")
    available = nbytes // kind.dtype.itemsize
    count = available if nelems is None else nelems_of("nelems", nelems)
    if not 0 <= count <= available:
        raise ValueError(f"nelems is {count}; ivars has {available} elements")
    mask = ffi.NULL
    if status is not None:
        excluded = _each("status", status, count, None)
        mask = ffi.from_buffer("int[]", np.ascontiguousarray(excluded != 0, np.intc))
    if vector:
        right = _each("cmp_values", values, count, kind)
    else:
        number = integer("cmp_value", kind.scalar(values, "cmp_value"), kind.dtype)
        right = np.array([number], kind.dtype)
    return ElementSet(kind.element, address, count, mask, right)


def _each(name: str, given: Any, count: int, kind: Kind | None) -> np.ndarray[Any, Any]:
    """One integer or bool for each of ``count`` elements, in any shape: of ``kind``, or a mask.

    NumPy would make float64 of large integers of two types together, and masks of anything.
    """
    known = isinstance(given, np.ndarray) or hasattr(given, "__array_interface__")
    if hasattr(given, "__cuda_array_interface__") and not known:
        given = cupy_arrays.to_numpy(given)
    elif hasattr(given, "dtype") and not isinstance(given, np.ma.MaskedArray):
        given = np.asarray(given)
    if isinstance(given, np.ma.MaskedArray):
        raise masked(name)
    values = given if isinstance(given, np.ndarray) else np.asarray(given, object)
    if values.dtype.kind not in "biuO":
        raise TypeError(f"{name} has dtype {values.dtype}; give integers or bools")
    if values.dtype.kind == "O":
        listed = [_number(name, value) for value in values.flat]
        if kind is None:
            values = np.array([value != 0 for value in listed], bool)
        else:
            for value in (min(listed), max(listed)) if listed else ():
                integer(f"an element of {name}", value, kind.dtype)
            values = np.array(listed, kind.dtype)
    if values.size != count:
        elements = "element" if values.size == 1 else "elements"
        raise ValueError(f"{name} has {values.size} {elements}; it needs one for each of {count}")
    if kind is None:
        return values.reshape(-1)
    if values.size and values.dtype != kind.dtype:
        for value in (values.min(), values.max()):
            integer(f"an element of {name}", int(value), kind.dtype)
    return np.ascontiguousarray(values, kind.dtype).reshape(-1)


def _number(name: str, value: Any) -> int:
    return int(value) if isinstance(value, np.bool_) else integer_of(f"an element of {name}", value)


def index_of(routine: Any, of: ElementSet, cmp: int, vector: int) -> int | None:
    index = ffi.new("size_t *")
    where = of.kind, of.address, of.nelems, of.status, integer("cmp", cmp)
    check(routine(*where, of.values.ctypes.data, vector, index))
    return None if index[0] == lib.NO_INDEX else int(index[0])


def indices_of(routine: Any, of: ElementSet, cmp: int, vector: int) -> np.ndarray:
    indices, found = np.empty(max(of.nelems, 1), np.uintp), ffi.new("size_t *")
    where = of.kind, of.address, of.nelems, ffi.from_buffer("size_t[]", indices), of.status
    check(routine(*where, integer("cmp", cmp), of.values.ctypes.data, vector, found))
    return indices[: found[0]].astype(np.intp)


def wait_all(of: ElementSet, cmp: int, vector: int) -> None:
    where = of.kind, of.address, of.nelems, of.status, integer("cmp", cmp)
    check(lib.ishmemx_wait_until_all(*where, of.values.ctypes.data, vector))


def test_all_of(of: ElementSet, cmp: int, vector: int) -> bool:
    holds = ffi.new("int *")
    where = of.kind, of.address, of.nelems, of.status, integer("cmp", cmp)
    check(lib.ishmemx_test_all(*where, of.values.ctypes.data, vector, holds))
    return bool(holds[0])


def set_on_stream(
    which: str,
    ivars: AnyArray,
    cmp: int,
    value: int,
    nelems: Count,
    status: Any,
    stream: StreamLike,
    found: AnyArray | None = None,
    indices: AnyArray | None = None,
) -> None:
    """A wait for several elements in the order of a stream; results go to arrays."""
    name = f"wait_until_{which}"
    if status is not None:
        raise UnsupportedError(f"{name} on a stream takes no status: wait for a part of the array")
    of = element_set(name, ivars, value, nelems, None, 0)
    places = []
    for label, array, count in (("indices", indices, of.nelems), ("found", found, 1)):
        if which == "all" or (which == "any" and label == "indices"):
            places.append(0)
            continue
        if array is None:
            raise TypeError(f"{name} on a stream needs {label}=, an int64 array on the device heap")
        address, nbytes, kind = place(array, label, writable=True, symmetric=False)
        if kind.dtype != np.int64 or nbytes < 8 * count:
            raise TypeError(f"{label} needs {count} elements of int64, and is {kind.dtype}")
        places.append(address)
    bits = int.from_bytes(of.values.tobytes(), "little")
    kinds = {"all": lib.ISHMEMX_KERNEL_WAIT_ALL, "any": lib.ISHMEMX_KERNEL_WAIT_ANY}
    what = kinds.get(which, lib.ISHMEMX_KERNEL_WAIT_SOME), of.kind, of.address, of.nelems
    how = integer("cmp", cmp), bits
    run(lib.ishmemx_wait_set_on_stream, *what, *how, *places, stream_handle(stream))
