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

from typing import Any

import numpy as np

from .._core.array_types import AnyArray
from .._core.arrays import StreamLike
from .._core.library import lib
from .wait_arguments import (
    Count,
    element_set,
    index_of,
    indices_of,
    set_on_stream,
    test_all_of,
    wait_all,
)


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

    Spec: shmem_test_some (OpenSHMEM 1.5).
    """
    of = element_set("test_some", ivars, cmp_value, nelems, status, 0)
    return indices_of(lib.ishmemx_test_some, of, cmp, 0)


def wait_until_all_vector(
    ivars: AnyArray, cmp: int, cmp_values: Any, *, nelems: Count = None, status: Any = None
) -> None:
    """Wait until each element compares with its own value.

    Arguments, errors: see the module.

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

    Spec: shmem_wait_until_some_vector (OpenSHMEM 1.5).
    """
    of = element_set("wait_until_some_vector", ivars, cmp_values, nelems, status, 1)
    return indices_of(lib.ishmemx_wait_until_some, of, cmp, 1)


def test_all_vector(
    ivars: AnyArray, cmp: int, cmp_values: Any, *, nelems: Count = None, status: Any = None
) -> bool:
    """Whether each element compares with its own value; true where none counts.

    Arguments, errors: see the module.

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

    Spec: shmem_test_some_vector (OpenSHMEM 1.5).
    """
    of = element_set("test_some_vector", ivars, cmp_values, nelems, status, 1)
    return indices_of(lib.ishmemx_test_some, of, cmp, 1)


for _routine in (test_all, test_any, test_some, test_all_vector, test_any_vector, test_some_vector):
    vars(_routine)["__test__"] = False  # for pytest: routines, not tests
