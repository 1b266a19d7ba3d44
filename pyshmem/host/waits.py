# SPDX-License-Identifier: BSD-3-Clause
"""Waiting for, and testing, one element of one's own memory; sets of elements are in ``wait_sets``."""

from __future__ import annotations

from typing import Any

from .._core.arrays.checks import StreamLike, target
from .._core.arrays.types import AnyArray
from .._core.dtypes import Kind, integer, unsupported_dtype
from .._core.library import check_value, fail
from .._core.type_table import ELEMENTS
from .fast_calls import fast
from .kernels.stream_kernels import wait_on_stream


def _waitable(ivar: AnyArray, routine: str) -> tuple[int, Kind]:
    address, kind = target(ivar, "ivar", writable=False)
    if kind.wait_until is None:
        raise unsupported_dtype(routine, kind, "a")
    return address, kind


def _right_hand_side(kind: Kind, value: Any) -> int:
    if type(value) is int and 0 <= value < 1 << 31:  # as nearly always; all these dtypes hold it
        return value
    return integer("cmp_value", kind.scalar(value, "cmp_value"), kind.dtype)


@fast("wait_until")
def wait_until(ivar: AnyArray, cmp: int, cmp_value: int, *, stream: StreamLike = None) -> None:
    """Wait until element 0 of ``ivar`` here compares with ``cmp_value``.

    Args:
        ivar: symmetric array of int32, int64, uint32 or uint64; another PE changes element 0.
        cmp: ``CMP_EQ``, ``CMP_NE``, ``CMP_GT``, ``CMP_GE``, ``CMP_LT`` or ``CMP_LE``.
        cmp_value: right-hand side, within the dtype's range.
        stream: stream to do it in the order of, arrays on the device heap; see ``streams``.

    Completes: what the other PE ordered before the change may be read on return.
    Raises: ShmemTimeout, PeerDied, TypeError (dtype), ValueError (cmp, not symmetric),
        OverflowError (cmp_value), NotInitialized, ShmemError.
    Example: ``pyshmem.wait_until(counter, pyshmem.CMP_GE, 0)``
    Spec: shmem_wait_until (OpenSHMEM 1.5).
    """
    address, kind = _waitable(ivar, "wait_until")
    if stream is not None:
        name = ELEMENTS[kind.element].name
        wait_on_stream(name, address, cmp, cmp_value, stream)
        return
    value = _right_hand_side(kind, cmp_value)
    status = kind.wait_until(address, integer("cmp", cmp), value)
    if status:
        fail(status)


@fast("test")
def test(ivar: AnyArray, cmp: int, cmp_value: int) -> bool:
    """Whether element 0 of ``ivar`` here compares with ``cmp_value``.

    Args:
        ivar: symmetric array of int32, int64, uint32 or uint64.
        cmp: ``CMP_EQ``, ``CMP_NE``, ``CMP_GT``, ``CMP_GE``, ``CMP_LT`` or ``CMP_LE``.
        cmp_value: right-hand side, within the dtype's range.

    Completes: if true, what the other PE ordered before the change may be read.
    Raises: TypeError (dtype), ValueError (cmp, not symmetric), OverflowError (cmp_value),
        NotInitialized, ShmemError.
    Example: ``arrived = pyshmem.test(counter, pyshmem.CMP_GE, 1)``
    Spec: shmem_test (OpenSHMEM 1.5).
    """
    address, kind = _waitable(ivar, "test")
    value = _right_hand_side(kind, cmp_value)
    holds = kind.test(address, integer("cmp", cmp), value)
    if holds < 0:
        check_value()
    return bool(holds)


vars(test)["__test__"] = False  # for pytest: a routine, no test
