# SPDX-License-Identifier: BSD-3-Clause
"""Synchronisation of all PEs from kernels: no host, one round of flags.

Every PE has one slot for each sender on its device heap. Round ``k`` is everybody raising their slot
at all others to ``k``, and waiting until the others' slots hold at least ``k``. Values only rise, so
nothing is ever reset, and a fast PE that is a round ahead does no harm.
"""

from ..faults import OP, ROUTINE_BITS
from ..groups import Scope
from ..leaf.backend import SIM, add64, device_function, read64, state
from ..ring.requests import settle
from ..routine import scoped
from ..state import SYNC_EPOCH, SYNC_SLOTS, TEAMS
from ..team import flags, rows

_SYNC, _BARRIER = OP["sync_all"], OP["barrier_all"]
_ALL_PES = 65 << ROUTINE_BITS  # PYSH_COLLECTIVE_ALL of node/node.h
# The flags take part in every round, so adding 1 raises them to its number. That number is then
# loaded while they fly: in front of the fence, the fence would wait for it.
_all_raise = flags.make_sync(device_function(lambda flag, word: add64(flag, 1)), read64)


@scoped()
def _syncs(scope: Scope) -> tuple:
    rank, size, sync = scope.rank, scope.size, scope.sync

    @device_function
    def synchronise(op):
        sync()
        if SIM and rank() == 0:  # on a GPU a look at the mode would be on the way of each meeting
            rows.claim_row(state(TEAMS) + rows.ALL_PES, op)
        word = state(SYNC_EPOCH)
        _all_raise(state(TEAMS), state(SYNC_SLOTS), rank(), size(), word, op | _ALL_PES)
        sync()
        if rank() == 0:
            add64(word, 1)
            if SIM:
                rows.claim_row(state(TEAMS) + rows.ALL_PES, -1)

    def sync_all():
        """Wait until all PEs are here; the caller's stores to its own memory are visible to all.

        One group of the grid calls it, on every PE.
        Spec: shmem_sync_all.
        """
        synchronise(_SYNC)

    def barrier_all():
        """``quiet``, then wait until all PEs are here.

        One group of the grid calls it, on every PE. With peers reached by stores the fence in front
        of the flags is the quiet.
        Spec: shmem_barrier_all.
        """
        sync()
        if rank() == 0:
            settle()
        synchronise(_BARRIER)

    return sync_all, barrier_all
