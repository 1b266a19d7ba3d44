# SPDX-License-Identifier: BSD-3-Clause
"""Fence and quiet from kernels.

With peers reached by stores both are one ``fence.acq_rel.sys`` of one thread, which by causality
covers what its group stored before the barrier in front of it: no round trip to anywhere.
"""

from __future__ import annotations

from typing import Any

from . import _backend
from ._backend import scopes
from ._groups import Scope

_fence = _backend.fence


def _make_fence(scope: Scope) -> Any:
    rank, sync = scope.rank, scope.sync

    def fence():
        """Order the caller's earlier puts, atomics and signals before its later ones, for each PE.

        Spec: shmem_fence.
        """
        sync()
        if rank() == 0:
            _fence()
        sync()

    return fence


def _make_quiet(scope: Scope) -> Any:
    rank, sync = scope.rank, scope.sync

    def quiet():
        """Complete the caller's earlier puts, gets, atomics and signals at every PE.

        Spec: shmem_quiet.
        """
        sync()
        if rank() == 0:
            _fence()
        sync()

    return quiet


fence, fence_warp, fence_work_group = scopes(_make_fence)
quiet, quiet_warp, quiet_work_group = scopes(_make_quiet)
