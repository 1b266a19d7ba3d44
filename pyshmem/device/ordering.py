# SPDX-License-Identifier: BSD-3-Clause
"""Fence and quiet from kernels.

For what was stored, both are one ``fence.acq_rel.sys`` of one thread, which by causality covers what its
group stored before the barrier in front of it: no round trip to anywhere. Requests without a
reply that the ring still has are waited for; when there are none, that is two loads.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from . import _backend
from ._backend import scopes
from ._groups import Scope
from ._ring import settle

__all__ = [
    "fence", "fence_warp", "fence_work_group", "pe_quiet", "pe_quiet_warp", "pe_quiet_work_group",
    "quiet", "quiet_warp", "quiet_work_group",
]  # fmt: skip

_fence = _backend.fence


def _ordering(name: str, doc: str) -> Callable[[Scope], Any]:
    """The maker of ``fence`` or ``quiet``: here the two are one operation."""

    def make(scope: Scope) -> Any:
        rank, sync = scope.rank, scope.sync

        def order(ctx=None):
            sync()
            if rank() == 0:
                settle()
                _fence()  # behind it: an acquire of what another block's quiet has found complete
            sync()

        order.__name__, order.__doc__ = name, doc
        return order

    return make


fence, fence_warp, fence_work_group = scopes(
    _ordering(
        "fence",
        """Order the caller's earlier puts, atomics and signals before its later ones, for each PE.

    Spec: shmem_fence.
    """,
    )
)
quiet, quiet_warp, quiet_work_group = scopes(
    _ordering(
        "quiet",
        """Complete the caller's earlier puts, gets, atomics and signals at every PE.

    Spec: shmem_quiet.
    """,
    )
)


def _pe_quiet(scope: Scope) -> Any:
    rank, sync = scope.rank, scope.sync

    def pe_quiet(pes, npes, ctx=None):
        """``quiet`` for the ``npes`` PEs listed in the int32 array ``pes``; with 0 it does nothing.

        Completes what was sent to others besides: the ring is completed as a whole.
        Spec: shmem_pe_quiet (OpenSHMEM 1.6).
        """
        if npes > 0:
            sync()
            if rank() == 0:
                settle()
                _fence()
            sync()

    return pe_quiet


pe_quiet, pe_quiet_warp, pe_quiet_work_group = scopes(_pe_quiet)
