# SPDX-License-Identifier: BSD-3-Clause
"""Synchronisation of all PEs from kernels: no host, one exchange of flags.

Every PE has one slot for each sender on its device heap. Round ``k`` is everybody storing ``k`` into
their slot at everybody, and waiting until all own slots hold at least ``k``. Values only rise, so
nothing is ever reset, and a fast PE that is a round ahead does no harm.
"""

from __future__ import annotations

from typing import Any

from . import _backend
from ._backend import device_function, read64, scopes, state, state_pe, write64
from ._faults import OP, ROUTINE_BITS
from ._groups import Scope
from ._ring import settle
from ._state import MY_PE, N_PES, SYNC_EPOCH, SYNC_SLOT_BYTES, SYNC_SLOTS
from ._transport import store_word
from ._wait import CMP_GE, wait_word

__all__ = [
    "barrier_all", "barrier_all_warp", "barrier_all_work_group", "sync_all", "sync_all_warp",
    "sync_all_work_group",
]  # fmt: skip

_fence = _backend.fence
_MEETS_ALL = 65 << ROUTINE_BITS  # PYSH_MEETS_ALL of conduit.h


@device_function
def _meet(rank: int, size: int, epoch: int, op: int) -> None:
    """The lanes of the group share the peers: tell them the epoch, then wait for theirs."""
    slots = state(SYNC_SLOTS)
    mine = slots + state_pe(MY_PE) * SYNC_SLOT_BYTES
    peers = state_pe(N_PES)
    if rank < peers:
        _fence()  # release: what the group did is visible before the flags are
    pe = rank
    while pe < peers:
        store_word(mine, epoch, pe)
        pe += size
    pe = rank
    while pe < peers:
        wait_word(slots + pe * SYNC_SLOT_BYTES, 0, CMP_GE, epoch, op | _MEETS_ALL, pe)
        pe += size


def _synchronise(scope: Scope, name: str) -> Any:
    rank, size, sync, op = scope.rank, scope.size, scope.sync, OP[name]
    completes = name == "barrier_all"

    @device_function
    def synchronise():
        word = state(SYNC_EPOCH)
        sync()
        if completes:
            if rank() == 0:
                settle()
            sync()
        epoch = read64(word) + 1
        _meet(rank(), size(), epoch, op)
        sync()
        if rank() == 0:
            write64(word, epoch)

    def sync_all():
        """Wait until all PEs are here; the caller's stores to its own memory are visible to all.

        One group of the grid calls it, on every PE.
        Spec: shmem_sync_all.
        """
        synchronise()

    def barrier_all():
        """``quiet``, then wait until all PEs are here.

        One group of the grid calls it, on every PE. With peers reached by stores the fence in front
        of the flags is the quiet.
        Spec: shmem_barrier_all.
        """
        synchronise()

    return barrier_all if completes else sync_all


sync_all, sync_all_warp, sync_all_work_group = scopes(lambda scope: _synchronise(scope, "sync_all"))
barrier_all, barrier_all_warp, barrier_all_work_group = scopes(
    lambda scope: _synchronise(scope, "barrier_all")
)
