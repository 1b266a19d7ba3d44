# SPDX-License-Identifier: BSD-3-Clause
"""Fence and quiet from kernels.

With peers reached by stores both are one ``fence.acq_rel.sys`` of one thread, which by causality
covers what its group stored before the barrier in front of it: no round trip to anywhere.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from . import _backend
from ._backend import scopes
from ._groups import Scope

_fence = _backend.fence


def _ordering(name: str, doc: str) -> Callable[[Scope], Any]:
    """The maker of ``fence`` or ``quiet``: here the two are one operation."""

    def make(scope: Scope) -> Any:
        rank, sync = scope.rank, scope.sync

        def order():
            sync()
            if rank() == 0:
                _fence()
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
