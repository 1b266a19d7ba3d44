# SPDX-License-Identifier: BSD-3-Clause
"""Synchronisation of all PEs; ``Team.sync`` is that of a team. Waits for memory are in ``waits``."""

from __future__ import annotations

from .._core.arrays.checks import StreamLike, stream_handle
from .._core.library import check, lib
from .fast_calls import fast
from .kernels.stream_kernels import run
from .teams.contexts import CTX_DEFAULT
from .teams.team import TEAM_WORLD


@fast("barrier_all")
def barrier_all(*, stream: StreamLike = None) -> None:
    """Wait until all PEs are here, and complete all operations of ``CTX_DEFAULT``. Collective.

    Args:
        stream: stream to do it in the order of; see ``streams``.

    Completes: on all PEs, what every PE has issued from the host. Kernels that still run are not
        waited for: synchronise the stream first. Blocks that all PEs have dropped are freed.
    Raises: PeerDied, ShmemTimeout, NotInitialized, ShmemError.
    Example: ``pyshmem.barrier_all()``
    Spec: shmem_barrier_all (OpenSHMEM 1.5).
    """
    if stream is not None:
        run(lib.ishmemx_barrier_all_on_stream, stream_handle(stream))
        return
    CTX_DEFAULT.complete_by(lib.ishmemx_barrier_all)


@fast("sync_all")
def sync_all(*, stream: StreamLike = None) -> None:
    """Wait until all PEs are here. Collective.

    Args:
        stream: stream to do it in the order of; see ``streams``.

    Completes: this PE's and the others' stores to their own memory; no puts, gets or atomics.
    Raises: PeerDied, ShmemTimeout, NotInitialized, ShmemError.
    Example: ``pyshmem.sync_all()``
    Spec: shmem_sync_all (OpenSHMEM 1.5).
    """
    if stream is not None:
        run(lib.ishmemx_sync_on_stream, TEAM_WORLD.handle, stream_handle(stream))
        return
    check(lib.ishmemx_team_sync(TEAM_WORLD.handle))
