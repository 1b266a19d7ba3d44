# SPDX-License-Identifier: BSD-3-Clause
"""Fence and quiet from kernels.

For what was stored, both are one ``fence.acq_rel.sys`` of one thread, which by causality covers what its
group stored before the barrier in front of it: no round trip to anywhere. Requests without a
reply that the ring still has are waited for; when there are none, that is two loads.
"""

from ..groups import Scope
from ..leaf import backend as leaf
from ..leaf.backend import device_function
from ..ring.requests import settle
from ..routine import scoped


@scoped()
def _orders(scope: Scope) -> tuple:
    rank, sync = scope.rank, scope.sync

    @device_function
    def order():
        """What ``fence`` and ``quiet`` do: here the two are one operation."""
        sync()
        if rank() == 0:
            settle()
            leaf.fence()  # behind it: an acquire of what another block's quiet has found complete
        sync()

    def fence(ctx=None):
        """Order the caller's earlier puts, atomics and signals before its later ones, for each PE.

        Spec: shmem_fence.
        """
        order()

    def quiet(ctx=None):
        """Complete the caller's earlier puts, gets, atomics and signals at every PE.

        Spec: shmem_quiet.
        """
        order()

    def pe_quiet(pes, npes, ctx=None):
        """``quiet`` for the ``npes`` PEs listed in the int32 array ``pes``; with 0 it does nothing.

        Completes what was sent to others besides: the ring is completed as a whole.
        Spec: shmem_pe_quiet (OpenSHMEM 1.6).
        """
        if npes > 0:
            order()

    return fence, quiet, pe_quiet
