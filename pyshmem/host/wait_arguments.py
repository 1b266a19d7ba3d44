# SPDX-License-Identifier: BSD-3-Clause
"""The elements that a wait or a test of ``wait_sets`` is about, as the library takes them."""

from __future__ import annotations

from typing import Any, NamedTuple, SupportsIndex

import numpy as np

from .._core.array_types import AnyArray
from .._core.arrays import StreamLike, place, stream_handle
from .._core.dtypes import Kind, argument_error, integer_error, nelems_of, unsupported_dtype
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
    address, nbytes, kind = place(ivars, "ivars", symmetric=True)
    if kind.wait_until is None:
        raise unsupported_dtype(routine, kind, "a")
    available = nbytes // kind.dtype.itemsize
    count = available if nelems is None else nelems_of("nelems", nelems)
    if not 0 <= count <= available:
        raise ValueError(f"nelems is {count}; ivars has {available} elements")
    mask = ffi.NULL
    if status is not None:
        excluded = np.ascontiguousarray(np.asarray(status) != 0, np.intc)
        if excluded.shape != (count,):
            raise ValueError(f"status has shape {excluded.shape}; it needs {count} elements")
        mask = ffi.from_buffer("int[]", excluded)
    right = _right_hand_side(kind, values, vector)
    if vector and right.size != count:
        raise ValueError(f"cmp_values has {right.size} elements; {count} are compared")
    return ElementSet(kind.element, address, count, mask, right)


def _right_hand_side(kind: Kind, values: Any, vector: int) -> np.ndarray:
    given = np.asarray(values) if vector else np.asarray(kind.scalar(values, "cmp_value"))
    if given.dtype.kind == "O":  # refuses what is no integer
        for value in given.flat:
            kind.scalar(value, "an element of cmp_values")
    if given.size and given.dtype != kind.dtype:
        if given.dtype.kind not in "iuO":
            raise TypeError(f"cmp_values has dtype {given.dtype}; ivars has {kind.dtype}")
        if error := integer_error(kind, int(given.min()), int(given.max())):
            raise error
    return np.ascontiguousarray(given, kind.dtype).reshape(-1)


def _ask(cmp: int, routine: Any, *arguments: Any) -> None:
    try:
        check(routine(*arguments))
    except (TypeError, OverflowError) as error:
        raise argument_error(error, cmp=(cmp, np.int32)) from None


def index_of(routine: Any, of: ElementSet, cmp: int, vector: int) -> int | None:
    index = ffi.new("size_t *")
    where = of.kind, of.address, of.nelems, of.status
    _ask(cmp, routine, *where, cmp, of.values.ctypes.data, vector, index)
    return None if index[0] == lib.NO_INDEX else int(index[0])


def indices_of(routine: Any, of: ElementSet, cmp: int, vector: int) -> np.ndarray:
    indices, found = np.empty(max(of.nelems, 1), np.uintp), ffi.new("size_t *")
    _ask(
        cmp, routine,
        of.kind, of.address, of.nelems, ffi.from_buffer("size_t[]", indices), of.status, cmp,
        of.values.ctypes.data, vector, found,
    )  # fmt: skip
    return indices[: found[0]].astype(np.intp)


def wait_all(of: ElementSet, cmp: int, vector: int) -> None:
    values = of.values.ctypes.data
    where = of.kind, of.address, of.nelems, of.status
    _ask(cmp, lib.ishmemx_wait_until_all, *where, cmp, values, vector)


def test_all_of(of: ElementSet, cmp: int, vector: int) -> bool:
    holds, values = ffi.new("int *"), of.values.ctypes.data
    where = of.kind, of.address, of.nelems, of.status
    _ask(cmp, lib.ishmemx_test_all, *where, cmp, values, vector, holds)
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
    what = kinds.get(which, lib.ISHMEMX_KERNEL_WAIT_SOME), of.kind, of.address, of.nelems, cmp, bits
    handle = stream_handle(stream)
    try:
        run(lib.ishmemx_wait_set_on_stream, *what, *places, handle)
    except (TypeError, OverflowError) as error:
        raise argument_error(error, cmp=(cmp, np.int32)) from None
