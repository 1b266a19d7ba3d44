# SPDX-License-Identifier: BSD-3-Clause
"""Locks between kernels: first come, first served, for threads of any PE.

A lock is element 0 of a symmetric int64 array, 0 on all PEs at first. It is for kernels or for the
host, not both: the host's queue is of PEs, this one of threads. On one PE, its home, which the array's
place chooses, the word has the next ticket in its upper half and the one that is served in its lower 31
bits; both begin anew after 2^31. Bit 31 is set in the word of the PE whose thread has the lock, with its
ticket below: at home, that is the one that is served.
"""

from ..faults import FAULT_LOCK, OP, record_fault
from ..leaf import backend as leaf
from ..leaf.backend import address_of, device_function, opaque, read, state, write
from ..peers import NOWHERE, my_pe, reach
from ..ring.requests import settle
from ..routine import routine
from ..state import HEAP_BASE, HEAP_BYTES, HOST_BASE, N_PES
from ..wait_loop import go_on
from .atomics import atomic_compare_swap, atomic_fetch, atomic_fetch_add

_lock_word = leaf.require("lock")
_SET, _TEST, _CLEAR = OP["set_lock"], OP["test_lock"], OP["clear_lock"]
_NEXT, _HELD = 1 << 32, 1 << 31
_TICKET = _HELD - 1


@device_function
def _home(lock) -> int:
    """The PE whose word is the lock: spread over the PEs by cache lines."""
    offset = address_of(lock) - state(HEAP_BASE)
    if offset < 0 or offset >= state(HEAP_BYTES):
        offset = address_of(lock) - state(HOST_BASE)
    return leaf.narrow((offset >> 6) & 0x7FFFFFFF) % leaf.narrow(state(N_PES))


@device_function
def _take(lock, home: int, ticket: int) -> None:
    """It is the caller's turn."""
    leaf.fence()  # behind the look at the lock's word: what holders did before is read fresh
    if home == my_pe():
        atomic_fetch_add(lock, _HELD, home)
    else:
        write(address_of(lock), lock, ticket | _HELD)


@routine
def set_lock(lock):
    """Wait until the calling thread has the lock. Not re-entrant; one thread of a group calls it.

    What the thread that had it before did is visible then.
    Faults: after PYSHMEM_TIMEOUT it returns without, and the next host call raises.
    Spec: shmem_set_lock.
    """
    _lock_word(lock)
    if reach(lock, 1, lock.size, my_pe(), _SET) != NOWHERE:
        home, deadline, polls = _home(lock), 0, 0
        word = atomic_fetch_add(lock, _NEXT, home)
        ticket = (word >> 32) & _TICKET
        while word & _TICKET != ticket and deadline >= 0:
            leaf.nap()
            polls += opaque(1)
            deadline = go_on(deadline, polls, _SET, home, ticket, word & _TICKET)
            word = atomic_fetch(lock, home)
        if word & _TICKET == ticket:
            _take(lock, home, ticket)


@routine
def test_lock(lock):
    """Take the lock if nobody has it; whether the calling thread has it now.

    The C routine returns 0 for that, this one True.
    Spec: shmem_test_lock.
    """
    _lock_word(lock)
    if reach(lock, 1, lock.size, my_pe(), _TEST) == NOWHERE:
        return False
    home = _home(lock)
    word = leaf.to_int64(atomic_fetch(lock, home))
    ticket = (word >> 32) & _TICKET
    if word & _TICKET != ticket or atomic_compare_swap(lock, word, word + _NEXT, home) != word:
        return False
    _take(lock, home, ticket)
    return True


@routine
def clear_lock(lock):
    """``quiet``, then give the lock to the next. The thread that set it calls it.

    Faults: a lock that no thread of this PE has stays as it is.
    Spec: shmem_clear_lock.
    """
    _lock_word(lock)
    if reach(lock, 1, lock.size, my_pe(), _CLEAR) == NOWHERE:
        return
    home = _home(lock)
    word = read(address_of(lock), lock)
    if home == my_pe():
        word = atomic_fetch(lock, home)
    ticket = word & _TICKET
    step = ((ticket + 1) & _TICKET) - ticket
    if word & _HELD == 0:
        record_fault(FAULT_LOCK, _CLEAR, home, word, 0)
        return
    if home == my_pe():
        step -= _HELD
    else:
        write(address_of(lock), lock, 0)
    settle()
    leaf.fence()  # what the holder did, and its own word, come before the next one's turn
    atomic_fetch_add(lock, step, home)
