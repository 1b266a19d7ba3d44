# SPDX-License-Identifier: BSD-3-Clause
"""Synchronisation: barriers, and waiting for or testing one's own memory."""

from __future__ import annotations

from typing import Any

from ._arrays import target
from ._calls import fast
from ._dtypes import Kind, unsupported_dtype
from ._lib import Cmp, check, check_value, fail, lib
from .contexts import CTX_DEFAULT
from .teams import TEAM_WORLD

CMP_EQ, CMP_NE, CMP_GT, CMP_GE, CMP_LT, CMP_LE = Cmp.EQ, Cmp.NE, Cmp.GT, Cmp.GE, Cmp.LT, Cmp.LE


@fast("barrier_all")
def barrier_all() -> None:
    """Wait until all PEs are here, and complete all operations of ``CTX_DEFAULT``. Collective.

    Completes: on all PEs, what every PE has issued from the host. Kernels that still run are not
        waited for: synchronise the stream first. Blocks that all PEs have dropped are freed.
    Raises: PeerDied, ShmemTimeout, NotInitialized, ShmemError.
    Spec: shmem_barrier_all (OpenSHMEM 1.5).
    """
    kept = CTX_DEFAULT.take_kept()
    status = lib.ishmemx_barrier_all()
    if status:
        fail(status)
    del kept


@fast("sync_all")
def sync_all() -> None:
    """Wait until all PEs are here. Collective.

    Completes: this PE's and the others' stores to their own memory; no puts, gets or atomics.
    Raises: PeerDied, ShmemTimeout, NotInitialized, ShmemError.
    Spec: shmem_sync_all (OpenSHMEM 1.5).
    """
    check(lib.ishmemx_team_sync(TEAM_WORLD.handle))


def _waitable(ivar: Any, routine: str) -> tuple[int, Kind]:
    address, kind = target(ivar, "ivar")
    if kind.wait_until is None:
        raise unsupported_dtype(routine, kind, "a")
    return address, kind


@fast("wait_until")
def wait_until(ivar: Any, cmp: int, cmp_value: int) -> None:
    """Wait until element 0 of ``ivar`` here compares with ``cmp_value``.

    Args:
        ivar: symmetric array of int32, int64, uint32 or uint64; another PE changes element 0.
        cmp: ``CMP_EQ``, ``CMP_NE``, ``CMP_GT``, ``CMP_GE``, ``CMP_LT`` or ``CMP_LE``.
        cmp_value: right-hand side, within the dtype's range.

    Completes: what the other PE ordered before the change may be read on return.
    Raises: ShmemTimeout, PeerDied, TypeError (dtype), ValueError (cmp, not symmetric),
        OverflowError (cmp_value), NotInitialized, ShmemError.
    Spec: shmem_wait_until (OpenSHMEM 1.5).
    """
    address, kind = _waitable(ivar, "wait_until")
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
