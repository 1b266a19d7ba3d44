# SPDX-License-Identifier: BSD-3-Clause
"""Locks between kernels: first come, first served, for threads of any PE.

A lock is element 0 of a symmetric int64 array, 0 on all PEs at first. It is for kernels or for the
host, not both: the host's queue is of PEs, this one of threads. On one PE, which the array's place
chooses, the word has the next ticket in its lower half and the one that is served in its upper
half, for 2^32 - 1 turns.
"""

from .._types import ATOMIC_OPS
from . import _backend as leaf
from ._backend import device_function, opaque, state
from ._elements import ask_amo
from ._faults import FAULT_LOCK, OP, record_fault
from ._peers import BY_STORES, NOWHERE, my_pe, on_peer, reach
from ._ring import settle
from ._state import FAULT_CLAIM, HEAP_BASE, HEAP_BYTES, HOST_BASE, N_PES
from ._wait import go_on

__all__ = ["clear_lock", "set_lock", "test_lock"]

_lock_word = leaf.require("lock")
_SET, _TEST, _CLEAR = OP["set_lock"], OP["test_lock"], OP["clear_lock"]
_FETCH, _ADD, _SWAP_IF = (ATOMIC_OPS.index(name) for name in ("fetch", "add", "compare_swap"))
_LOW32 = (1 << 32) - 1


@device_function
def _home(lock) -> int:
    """The PE whose word is the lock: spread over the PEs by cache lines."""
    offset = leaf.address_of(lock) - state(HEAP_BASE)
    if offset < 0 or offset >= state(HEAP_BYTES):
        offset = leaf.address_of(lock) - state(HOST_BASE)
    return leaf.narrow((offset >> 6) & 0x7FFFFFFF) % leaf.narrow(state(N_PES))


@device_function
def _load(lock, home: int, way: int) -> int:
    if way == BY_STORES:
        return leaf.read(on_peer(lock, home), lock)
    return ask_amo(_FETCH, lock, 0, 0, home)


@device_function
def _add(lock, value: int, home: int, way: int) -> int:
    if way == BY_STORES:
        return leaf.atomic_fetch_add(on_peer(lock, home), lock, value)
    return ask_amo(_ADD, lock, value, 0, home)


@device_function
def set_lock(lock):
    """Wait until the calling thread has the lock. Not re-entrant; one thread of a group calls it.

    What the thread that had it before did is visible then.
    Faults: after PYSHMEM_TIMEOUT it returns without, and the next host call raises.
    Spec: shmem_set_lock.
    """
    _lock_word(lock)
    way = reach(lock, 1, lock.size, my_pe(), _SET)
    if way != NOWHERE:
        home = _home(lock)
        ticket = _add(lock, 1, home, way) & _LOW32
        deadline, polls = 0, 0
        served = (_load(lock, home, way) >> 32) & _LOW32
        while served != ticket and deadline >= 0:
            leaf.nap()
            polls += opaque(1)
            deadline = go_on(deadline, polls, _SET, home, ticket, served)
            served = (_load(lock, home, way) >> 32) & _LOW32
        # For its order: what was done under the lock is read fresh.
        leaf.read64_acquire(state(FAULT_CLAIM))


@device_function
def test_lock(lock):
    """Take the lock if nobody has it; whether the calling thread has it now.

    The C routine returns 0 for that, this one True.
    Spec: shmem_test_lock.
    """
    _lock_word(lock)
    way = reach(lock, 1, lock.size, my_pe(), _TEST)
    if way == NOWHERE:
        return False
    leaf.relax()  # who tests in a loop lets the simulator's other threads run
    home = _home(lock)
    seen = _load(lock, home, way)
    if (seen >> 32) & _LOW32 != seen & _LOW32:
        return False
    if way == BY_STORES:
        old = leaf.atomic_compare_swap(on_peer(lock, home), lock, seen, seen + 1)
    else:
        old = ask_amo(_SWAP_IF, lock, seen + 1, seen, home)
    leaf.read64_acquire(state(FAULT_CLAIM))  # for its order
    return old == seen


@device_function
def clear_lock(lock):
    """``quiet``, then give the lock to the next. The thread that set it calls it.

    Faults: a lock that nobody has.
    Spec: shmem_clear_lock.
    """
    _lock_word(lock)
    way = reach(lock, 1, lock.size, my_pe(), _CLEAR)
    if way != NOWHERE:
        settle()
        leaf.fence()
        home = _home(lock)
        seen = _load(lock, home, way)
        if (seen >> 32) & _LOW32 == seen & _LOW32:
            record_fault(FAULT_LOCK, _CLEAR, home, seen, 0)
        else:
            _add(lock, 1 << 32, home, way)
