# SPDX-License-Identifier: BSD-3-Clause
"""Waiting for, and testing, all, any or some of several elements of one's own memory.

All compare elements of ``ivars`` here and take

- ``ivars``: symmetric array of int32, int64, uint32 or uint64, contiguous; other PEs change it with
  atomics or signals;
- ``cmp``: ``CMP_EQ``, ``CMP_NE``, ``CMP_GT``, ``CMP_GE``, ``CMP_LT`` or ``CMP_LE``;
- ``cmp_value``, or in the ``_vector`` forms ``cmp_values``: the right-hand side, one for all elements
  or one an element;
- ``nelems``: how many elements from the first count; default all;
- ``status``: a mask of as many integers or bools that **excludes** elements: 0 counts, anything else
  does not (the opposite of NumPy's ``where``). It is not changed.

Of ``cmp_values`` and ``status``, integers or bools, the number of elements counts, not the shape.

What the other PE ordered before the change of an element found may be read on return. A series of
``any`` calls finds every element that holds in turn.

With ``stream=`` the wait is in the order of a stream and the elements on the device heap; what the
``any`` and ``some`` forms found goes to arrays there: ``found``, one int64, the index (-1 where no
element counts) or how many, and ``indices``, an int64 for each element. There is no ``status`` then.

All raise TypeError (dtype), ValueError (cmp, nelems, status, lengths, layout, not symmetric),
OverflowError (right-hand side), NotInitialized and ShmemError; the waits PeerDied and ShmemTimeout.
"""

from __future__ import annotations

from typing import Any, NamedTuple, SupportsIndex

import numpy as np

from .._core.arrays import cupy_arrays
from .._core.arrays.checks import StreamLike, masked, place, stream_handle
from .._core.arrays.types import AnyArray
from .._core.dtypes import Kind, integer, integer_of, nelems_of, unsupported_dtype
from .._core.errors import UnsupportedError
from .._core.library import check, ffi, lib
from .kernels.stream_kernels import run

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


# -- the routines ------------------------------------------------------------------------------


def wait_until_all(
    ivars: AnyArray,
    cmp: int,
    cmp_value: int,
    *,
    nelems: Count = None,
    status: Any = None,
    stream: StreamLike = None,
) -> None:
    """Wait until all elements compare with ``cmp_value``.

    Arguments, errors: see the module.

    Example: ``pyshmem.wait_until_all(flags, pyshmem.CMP_GE, 0)``
    Spec: shmem_wait_until_all (OpenSHMEM 1.5).
    """
    if stream is not None:
        set_on_stream("all", ivars, cmp, cmp_value, nelems, status, stream)
        return
    of = element_set("wait_until_all", ivars, cmp_value, nelems, status, 0)
    wait_all(of, cmp, 0)


def wait_until_any(
    ivars: AnyArray,
    cmp: int,
    cmp_value: int,
    *,
    nelems: Count = None,
    status: Any = None,
    stream: StreamLike = None,
    found: AnyArray | None = None,
) -> Any:
    """Wait until an element compares with ``cmp_value``; tell which.

    Arguments, errors: see the module.

    Returns:
        The index of one that does; None where no element counts.

    Example: ``first = pyshmem.wait_until_any(flags, pyshmem.CMP_GE, 0)``
    Spec: shmem_wait_until_any (OpenSHMEM 1.5).
    """
    if stream is not None:
        return set_on_stream("any", ivars, cmp, cmp_value, nelems, status, stream, found)
    of = element_set("wait_until_any", ivars, cmp_value, nelems, status, 0)
    return index_of(lib.ishmemx_wait_until_any, of, cmp, 0)


def wait_until_some(
    ivars: AnyArray,
    cmp: int,
    cmp_value: int,
    *,
    nelems: Count = None,
    status: Any = None,
    stream: StreamLike = None,
    found: AnyArray | None = None,
    indices: AnyArray | None = None,
) -> Any:
    """Wait until an element compares with ``cmp_value``; tell all that do.

    Arguments, errors: see the module.

    Returns:
        The indices of all that do, in any order; empty where no element counts.

    Example: ``those = pyshmem.wait_until_some(flags, pyshmem.CMP_GE, 0)``
    Spec: shmem_wait_until_some (OpenSHMEM 1.5).
    """
    if stream is not None:
        return set_on_stream("some", ivars, cmp, cmp_value, nelems, status, stream, found, indices)
    of = element_set("wait_until_some", ivars, cmp_value, nelems, status, 0)
    return indices_of(lib.ishmemx_wait_until_some, of, cmp, 0)


def test_all(
    ivars: AnyArray, cmp: int, cmp_value: int, *, nelems: Count = None, status: Any = None
) -> bool:
    """Whether all elements compare with ``cmp_value``; true where none counts.

    Arguments, errors: see the module.

    Example: ``done = pyshmem.test_all(flags, pyshmem.CMP_GE, 1)``
    Spec: shmem_test_all (OpenSHMEM 1.5).
    """
    of = element_set("test_all", ivars, cmp_value, nelems, status, 0)
    return test_all_of(of, cmp, 0)


def test_any(
    ivars: AnyArray, cmp: int, cmp_value: int, *, nelems: Count = None, status: Any = None
) -> int | None:
    """Which element compares with ``cmp_value``, if one does.

    Arguments, errors: see the module.

    Returns:
        The index of one that does; None where none does.

    Example: ``one = pyshmem.test_any(flags, pyshmem.CMP_GE, 1)``
    Spec: shmem_test_any (OpenSHMEM 1.5).
    """
    of = element_set("test_any", ivars, cmp_value, nelems, status, 0)
    return index_of(lib.ishmemx_test_any, of, cmp, 0)


def test_some(
    ivars: AnyArray, cmp: int, cmp_value: int, *, nelems: Count = None, status: Any = None
) -> np.ndarray:
    """Which elements compare with ``cmp_value``.

    Arguments, errors: see the module.

    Returns:
        The indices of all that do, in any order.

    Example: ``those = pyshmem.test_some(flags, pyshmem.CMP_GE, 1)``
    Spec: shmem_test_some (OpenSHMEM 1.5).
    """
    of = element_set("test_some", ivars, cmp_value, nelems, status, 0)
    return indices_of(lib.ishmemx_test_some, of, cmp, 0)


def wait_until_all_vector(
    ivars: AnyArray, cmp: int, cmp_values: Any, *, nelems: Count = None, status: Any = None
) -> None:
    """Wait until each element compares with its own value.

    Arguments, errors: see the module.

    Example: ``pyshmem.wait_until_all_vector(flags, pyshmem.CMP_GE, [0] * 4)``
    Spec: shmem_wait_until_all_vector (OpenSHMEM 1.5).
    """
    of = element_set("wait_until_all_vector", ivars, cmp_values, nelems, status, 1)
    wait_all(of, cmp, 1)


def wait_until_any_vector(
    ivars: AnyArray, cmp: int, cmp_values: Any, *, nelems: Count = None, status: Any = None
) -> int | None:
    """Wait until an element compares with its own value; tell which.

    Arguments, errors: see the module.

    Returns:
        The index of one that does; None where no element counts.

    Example: ``first = pyshmem.wait_until_any_vector(flags, pyshmem.CMP_GE, [0] * 4)``
    Spec: shmem_wait_until_any_vector (OpenSHMEM 1.5).
    """
    of = element_set("wait_until_any_vector", ivars, cmp_values, nelems, status, 1)
    return index_of(lib.ishmemx_wait_until_any, of, cmp, 1)


def wait_until_some_vector(
    ivars: AnyArray, cmp: int, cmp_values: Any, *, nelems: Count = None, status: Any = None
) -> np.ndarray:
    """Wait until an element compares with its own value; tell all that do.

    Arguments, errors: see the module.

    Returns:
        The indices of all that do, in any order; empty where no element counts.

    Example: ``those = pyshmem.wait_until_some_vector(flags, pyshmem.CMP_GE, [0] * 4)``
    Spec: shmem_wait_until_some_vector (OpenSHMEM 1.5).
    """
    of = element_set("wait_until_some_vector", ivars, cmp_values, nelems, status, 1)
    return indices_of(lib.ishmemx_wait_until_some, of, cmp, 1)


def test_all_vector(
    ivars: AnyArray, cmp: int, cmp_values: Any, *, nelems: Count = None, status: Any = None
) -> bool:
    """Whether each element compares with its own value; true where none counts.

    Arguments, errors: see the module.

    Example: ``done = pyshmem.test_all_vector(flags, pyshmem.CMP_GE, [1, 2, 3, 4])``
    Spec: shmem_test_all_vector (OpenSHMEM 1.5).
    """
    of = element_set("test_all_vector", ivars, cmp_values, nelems, status, 1)
    return test_all_of(of, cmp, 1)


def test_any_vector(
    ivars: AnyArray, cmp: int, cmp_values: Any, *, nelems: Count = None, status: Any = None
) -> int | None:
    """Which element compares with its own value, if one does.

    Arguments, errors: see the module.

    Returns:
        The index of one that does; None where none does.

    Example: ``one = pyshmem.test_any_vector(flags, pyshmem.CMP_GE, [1, 2, 3, 4])``
    Spec: shmem_test_any_vector (OpenSHMEM 1.5).
    """
    of = element_set("test_any_vector", ivars, cmp_values, nelems, status, 1)
    return index_of(lib.ishmemx_test_any, of, cmp, 1)


def test_some_vector(
    ivars: AnyArray, cmp: int, cmp_values: Any, *, nelems: Count = None, status: Any = None
) -> np.ndarray:
    """Which elements compare with their own values.

    Arguments, errors: see the module.

    Returns:
        The indices of all that do, in any order.

    Example: ``those = pyshmem.test_some_vector(flags, pyshmem.CMP_GE, [1, 2, 3, 4])``
    Spec: shmem_test_some_vector (OpenSHMEM 1.5).
    """
    of = element_set("test_some_vector", ivars, cmp_values, nelems, status, 1)
    return indices_of(lib.ishmemx_test_some, of, cmp, 1)


for _routine in (test_all, test_any, test_some, test_all_vector, test_any_vector, test_some_vector):
    vars(_routine)["__test__"] = False  # for pytest: routines, not tests
