# SPDX-License-Identifier: BSD-3-Clause
"""Waiting for, and testing, one's own memory: one element, or all, any or some of several.

``wait_until`` and ``test`` look at element 0. The others compare elements of ``ivars`` here and take

- ``ivars``: symmetric array of int32, int64, uint32 or uint64, contiguous; other PEs change it with
  atomics or signals;
- ``cmp``: ``CMP_EQ``, ``CMP_NE``, ``CMP_GT``, ``CMP_GE``, ``CMP_LT`` or ``CMP_LE``;
- ``cmp_value``, or in the ``_vector`` forms ``cmp_values``: the right-hand side, one for all elements
  or one an element;
- ``nelems``: how many elements from the first count; default all;
- ``status``: a mask of as many integers that **excludes** elements: 0 counts, anything else does not
  (the opposite of NumPy's ``where``). It is not changed.

What the other PE ordered before the change of an element found may be read on return. A series of
``any`` calls finds every element that holds in turn.

With ``stream=`` the wait is in the order of a stream and the elements on the device heap; what the
``any`` and ``some`` forms found goes to arrays there: ``found``, one int64, the index (-1 where no
element counts) or how many, and ``indices``, an int64 for each element. There is no ``status`` then.

All raise TypeError (dtype), ValueError (cmp, nelems, status, lengths, layout, not symmetric),
OverflowError (right-hand side), NotInitialized and ShmemError; the waits PeerDied and ShmemTimeout.
"""

from __future__ import annotations

import operator
from typing import Any, NamedTuple, SupportsIndex

import numpy as np

from .._core.arrays import StreamLike, place, stream_handle, target
from .._core.dtypes import Kind, integer_error, unsupported_dtype
from .._core.errors import UnsupportedError
from .._core.library import Cmp, check, check_value, fail, ffi, lib
from .._core.type_table import ELEMENTS
from .fast_calls import fast
from .stream_kernels import run, wait_on_stream

CMP_EQ, CMP_NE, CMP_GT, CMP_GE, CMP_LT, CMP_LE = Cmp.EQ, Cmp.NE, Cmp.GT, Cmp.GE, Cmp.LT, Cmp.LE

Count = SupportsIndex | None


def _waitable(ivar: Any, routine: str) -> tuple[int, Kind]:
    address, kind = target(ivar, "ivar")
    if kind.wait_until is None:
        raise unsupported_dtype(routine, kind, "a")
    return address, kind


@fast("wait_until")
def wait_until(ivar: Any, cmp: int, cmp_value: int, *, stream: StreamLike = None) -> None:
    """Wait until element 0 of ``ivar`` here compares with ``cmp_value``.

    Args:
        ivar: symmetric array of int32, int64, uint32 or uint64; another PE changes element 0.
        cmp: ``CMP_EQ``, ``CMP_NE``, ``CMP_GT``, ``CMP_GE``, ``CMP_LT`` or ``CMP_LE``.
        cmp_value: right-hand side, within the dtype's range.
        stream: stream to do it in the order of, arrays on the device heap; see ``streams``.

    Completes: what the other PE ordered before the change may be read on return.
    Raises: ShmemTimeout, PeerDied, TypeError (dtype), ValueError (cmp, not symmetric),
        OverflowError (cmp_value), NotInitialized, ShmemError.
    Spec: shmem_wait_until (OpenSHMEM 1.5).
    """
    address, kind = _waitable(ivar, "wait_until")
    if stream is not None:
        wait_on_stream(ELEMENTS[kind.element].name, address, cmp, cmp_value, stream)
        return
    status = kind.wait_until(address, cmp, kind.scalar(cmp_value, "cmp_value"))
    if status:
        fail(status)


def test(ivar: Any, cmp: int, cmp_value: int) -> bool:
    """Whether element 0 of ``ivar`` here compares with ``cmp_value``.

    Args:
        ivar: symmetric array of int32, int64, uint32 or uint64.
        cmp: ``CMP_EQ``, ``CMP_NE``, ``CMP_GT``, ``CMP_GE``, ``CMP_LT`` or ``CMP_LE``.
        cmp_value: right-hand side, within the dtype's range.

    Completes: if true, what the other PE ordered before the change may be read.
    Raises: TypeError (dtype), ValueError (cmp, not symmetric), OverflowError (cmp_value),
        NotInitialized, ShmemError.
    Spec: shmem_test (OpenSHMEM 1.5).
    """
    address, kind = _waitable(ivar, "test")
    holds = kind.test(address, cmp, kind.scalar(cmp_value, "cmp_value"))
    if holds < 0:
        check_value()
    return bool(holds)


class _Set(NamedTuple):
    """The elements in question, as the library takes them."""

    kind: int
    address: int
    nelems: int
    status: Any
    values: Any  # its address is what the library reads


def _set(routine: str, ivars: Any, values: Any, nelems: Count, status: Any, vector: int) -> _Set:
    address, nbytes, kind = place(ivars, "ivars", symmetric=True)
    if kind.wait_until is None:
        raise unsupported_dtype(routine, kind, "a")
    available = nbytes // kind.dtype.itemsize
    count = available if nelems is None else operator.index(nelems)
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
    return _Set(kind.element, address, count, mask, right)


def _right_hand_side(kind: Kind, values: Any, vector: int) -> np.ndarray:
    given = np.asarray(values) if vector else np.asarray(kind.scalar(values, "cmp_value"))
    if given.size and given.dtype != kind.dtype:
        if given.dtype.kind not in "iuO":
            raise TypeError(f"cmp_values has dtype {given.dtype}; ivars has {kind.dtype}")
        if error := integer_error(kind, int(given.min()), int(given.max())):
            raise error
    return np.ascontiguousarray(given, kind.dtype).reshape(-1)


def _index(routine: Any, of: _Set, cmp: int, vector: int) -> int | None:
    index = ffi.new("size_t *")
    check(
        routine(
            of.kind, of.address, of.nelems, of.status, cmp, of.values.ctypes.data, vector, index
        )
    )
    return None if index[0] == lib.NO_INDEX else int(index[0])


def _indices(routine: Any, of: _Set, cmp: int, vector: int) -> np.ndarray:
    indices, found = np.empty(max(of.nelems, 1), np.uintp), ffi.new("size_t *")
    check(
        routine(
            of.kind, of.address, of.nelems, ffi.from_buffer("size_t[]", indices), of.status, cmp,
            of.values.ctypes.data, vector, found,
        )
    )  # fmt: skip
    return indices[: found[0]].astype(np.intp)


def _wait_all(of: _Set, cmp: int, vector: int) -> None:
    values = of.values.ctypes.data
    check(
        lib.ishmemx_wait_until_all(of.kind, of.address, of.nelems, of.status, cmp, values, vector)
    )


def _test_all(of: _Set, cmp: int, vector: int) -> bool:
    holds, values = ffi.new("int *"), of.values.ctypes.data
    check(
        lib.ishmemx_test_all(of.kind, of.address, of.nelems, of.status, cmp, values, vector, holds)
    )
    return bool(holds[0])


def _on_stream(
    which: str,
    ivars: Any,
    cmp: int,
    value: int,
    nelems: Count,
    status: Any,
    stream: StreamLike,
    found: Any = None,
    indices: Any = None,
) -> None:
    """A wait for several elements in the order of a stream; results go to arrays."""
    name = f"wait_until_{which}"
    if status is not None:
        raise UnsupportedError(f"{name} on a stream takes no status: wait for a part of the array")
    of = _set(name, ivars, value, nelems, None, 0)
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
    run(lib.ishmemx_wait_set_on_stream, *what, *places, stream_handle(stream))


def wait_until_all(
    ivars: Any,
    cmp: int,
    cmp_value: int,
    *,
    nelems: Count = None,
    status: Any = None,
    stream: StreamLike = None,
) -> None:
    """Wait until all elements compare with ``cmp_value``.

    Arguments, errors: see the module.

    Spec: shmem_wait_until_all (OpenSHMEM 1.5).
    """
    if stream is not None:
        _on_stream("all", ivars, cmp, cmp_value, nelems, status, stream)
        return
    of = _set("wait_until_all", ivars, cmp_value, nelems, status, 0)
    _wait_all(of, cmp, 0)


def wait_until_any(
    ivars: Any,
    cmp: int,
    cmp_value: int,
    *,
    nelems: Count = None,
    status: Any = None,
    stream: StreamLike = None,
    found: Any = None,
) -> Any:
    """Wait until an element compares with ``cmp_value``; tell which.

    Arguments, errors: see the module.

    Returns:
        The index of one that does; None where no element counts.

    Spec: shmem_wait_until_any (OpenSHMEM 1.5).
    """
    if stream is not None:
        return _on_stream("any", ivars, cmp, cmp_value, nelems, status, stream, found)
    of = _set("wait_until_any", ivars, cmp_value, nelems, status, 0)
    return _index(lib.ishmemx_wait_until_any, of, cmp, 0)


def wait_until_some(
    ivars: Any,
    cmp: int,
    cmp_value: int,
    *,
    nelems: Count = None,
    status: Any = None,
    stream: StreamLike = None,
    found: Any = None,
    indices: Any = None,
) -> Any:
    """Wait until an element compares with ``cmp_value``; tell all that do.

    Arguments, errors: see the module.

    Returns:
        The indices of all that do, in any order; empty where no element counts.

    Spec: shmem_wait_until_some (OpenSHMEM 1.5).
    """
    if stream is not None:
        return _on_stream("some", ivars, cmp, cmp_value, nelems, status, stream, found, indices)
    of = _set("wait_until_some", ivars, cmp_value, nelems, status, 0)
    return _indices(lib.ishmemx_wait_until_some, of, cmp, 0)


def test_all(
    ivars: Any, cmp: int, cmp_value: int, *, nelems: Count = None, status: Any = None
) -> bool:
    """Whether all elements compare with ``cmp_value``; true where none counts.

    Arguments, errors: see the module.

    Spec: shmem_test_all (OpenSHMEM 1.5).
    """
    of = _set("test_all", ivars, cmp_value, nelems, status, 0)
    return _test_all(of, cmp, 0)


def test_any(
    ivars: Any, cmp: int, cmp_value: int, *, nelems: Count = None, status: Any = None
) -> int | None:
    """Which element compares with ``cmp_value``, if one does.

    Arguments, errors: see the module.

    Returns:
        The index of one that does; None where none does.

    Spec: shmem_test_any (OpenSHMEM 1.5).
    """
    of = _set("test_any", ivars, cmp_value, nelems, status, 0)
    return _index(lib.ishmemx_test_any, of, cmp, 0)


def test_some(
    ivars: Any, cmp: int, cmp_value: int, *, nelems: Count = None, status: Any = None
) -> np.ndarray:
    """Which elements compare with ``cmp_value``.

    Arguments, errors: see the module.

    Returns:
        The indices of all that do, in any order.

    Spec: shmem_test_some (OpenSHMEM 1.5).
    """
    of = _set("test_some", ivars, cmp_value, nelems, status, 0)
    return _indices(lib.ishmemx_test_some, of, cmp, 0)


def wait_until_all_vector(
    ivars: Any, cmp: int, cmp_values: Any, *, nelems: Count = None, status: Any = None
) -> None:
    """Wait until each element compares with its own value.

    Arguments, errors: see the module.

    Spec: shmem_wait_until_all_vector (OpenSHMEM 1.5).
    """
    of = _set("wait_until_all_vector", ivars, cmp_values, nelems, status, 1)
    _wait_all(of, cmp, 1)


def wait_until_any_vector(
    ivars: Any, cmp: int, cmp_values: Any, *, nelems: Count = None, status: Any = None
) -> int | None:
    """Wait until an element compares with its own value; tell which.

    Arguments, errors: see the module.

    Returns:
        The index of one that does; None where no element counts.

    Spec: shmem_wait_until_any_vector (OpenSHMEM 1.5).
    """
    of = _set("wait_until_any_vector", ivars, cmp_values, nelems, status, 1)
    return _index(lib.ishmemx_wait_until_any, of, cmp, 1)


def wait_until_some_vector(
    ivars: Any, cmp: int, cmp_values: Any, *, nelems: Count = None, status: Any = None
) -> np.ndarray:
    """Wait until an element compares with its own value; tell all that do.

    Arguments, errors: see the module.

    Returns:
        The indices of all that do, in any order; empty where no element counts.

    Spec: shmem_wait_until_some_vector (OpenSHMEM 1.5).
    """
    of = _set("wait_until_some_vector", ivars, cmp_values, nelems, status, 1)
    return _indices(lib.ishmemx_wait_until_some, of, cmp, 1)


def test_all_vector(
    ivars: Any, cmp: int, cmp_values: Any, *, nelems: Count = None, status: Any = None
) -> bool:
    """Whether each element compares with its own value; true where none counts.

    Arguments, errors: see the module.

    Spec: shmem_test_all_vector (OpenSHMEM 1.5).
    """
    of = _set("test_all_vector", ivars, cmp_values, nelems, status, 1)
    return _test_all(of, cmp, 1)


def test_any_vector(
    ivars: Any, cmp: int, cmp_values: Any, *, nelems: Count = None, status: Any = None
) -> int | None:
    """Which element compares with its own value, if one does.

    Arguments, errors: see the module.

    Returns:
        The index of one that does; None where none does.

    Spec: shmem_test_any_vector (OpenSHMEM 1.5).
    """
    of = _set("test_any_vector", ivars, cmp_values, nelems, status, 1)
    return _index(lib.ishmemx_test_any, of, cmp, 1)


def test_some_vector(
    ivars: Any, cmp: int, cmp_values: Any, *, nelems: Count = None, status: Any = None
) -> np.ndarray:
    """Which elements compare with their own values.

    Arguments, errors: see the module.

    Returns:
        The indices of all that do, in any order.

    Spec: shmem_test_some_vector (OpenSHMEM 1.5).
    """
    of = _set("test_some_vector", ivars, cmp_values, nelems, status, 1)
    return _indices(lib.ishmemx_test_some, of, cmp, 1)
