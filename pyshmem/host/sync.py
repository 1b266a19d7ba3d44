# SPDX-License-Identifier: BSD-3-Clause
"""Synchronisation of all PEs; ``Team.sync`` is that of a team. Waits for memory are in ``waits``."""

from __future__ import annotations

from .._core.library import check, lib
from .contexts import CTX_DEFAULT
from .fast_calls import fast
from .teams import TEAM_WORLD


@fast("barrier_all")
def barrier_all() -> None:
    """Wait until all PEs are here, and complete all operations of ``CTX_DEFAULT``. Collective.

    Completes: on all PEs, what every PE has issued from the host. Kernels that still run are not
        waited for: synchronise the stream first. Blocks that all PEs have dropped are freed.
    Raises: PeerDied, ShmemTimeout, NotInitialized, ShmemError.
    Spec: shmem_barrier_all (OpenSHMEM 1.5).
    """
    CTX_DEFAULT.complete_by(lib.ishmemx_barrier_all)


@fast("sync_all")
def sync_all() -> None:
    """Wait until all PEs are here. Collective.

    Completes: this PE's and the others' stores to their own memory; no puts, gets or atomics.
    Raises: PeerDied, ShmemTimeout, NotInitialized, ShmemError.
    Spec: shmem_sync_all (OpenSHMEM 1.5).
    """
    check(lib.ishmemx_team_sync(TEAM_WORLD.handle))
