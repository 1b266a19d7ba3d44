# SPDX-License-Identifier: BSD-3-Clause
"""From a symmetric address of the caller to the same place on a peer, checked."""

from . import state as words
from .faults import FAULT_ADDRESS, FAULT_NELEMS, FAULT_PE, record_fault
from .leaf.backend import address_of, cold, device_function, itemsize_of, state, state_pe

#: What ``reach`` says: out of the question; by loads and stores; by requests to the host.
NOWHERE, BY_STORES, BY_RING = 0, 1, 2

#: The word P2P where every link has atomic operations.
ALL_NATIVE = 2


@device_function
def my_pe() -> int:
    """Number of the calling PE, int32.

    Spec: shmem_my_pe.
    """
    return state_pe(words.MY_PE)


@device_function
def n_pes() -> int:
    """Number of PEs of the job, int32.

    Spec: shmem_n_pes.
    """
    return state_pe(words.N_PES)


@device_function
def distance_to(pe: int) -> int:
    """What to add to an own heap address for that of ``pe``, which is in reach of loads and stores."""
    return state(words.DELTA + (pe & words.NEAR_MASK))


@device_function
def all_p2p() -> bool:
    """Does every PE reach the device heaps of all by loads and stores?"""
    return state(words.P2P) != 0


@device_function
def is_p2p(pe: int) -> bool:
    """Does this PE reach the device heap of ``pe`` by loads and stores? Any answer for no PE."""
    return state(words.P2P) != 0 or (
        pe >= state_pe(words.NEAR_BEGIN)
        and pe < state_pe(words.NEAR_END)
        and distance_to(pe) != words.FAR
    )


@cold
def reach_slowly(address, nelems, most, itemsize, pe, op) -> int:
    """What is wrong, on the host heap, or on the device heap of a PE that is far."""
    nbytes = nelems * itemsize
    kind, a, b = 0, address, nbytes
    on_device, on_host = address - state(words.HEAP_BASE), address - state(words.HOST_BASE)
    if pe < 0 or pe >= state_pe(words.N_PES):
        kind, a, b = FAULT_PE, pe, state(words.N_PES)
    elif nelems < 0 or nelems > most:
        kind, a, b = FAULT_NELEMS, nelems, most
    elif (
        nbytes > 0  # an array without elements may have no address
        and (on_device < 0 or on_device + nbytes > state(words.HEAP_BYTES))
        and (on_host < 0 or on_host + nbytes > state(words.HOST_BYTES))
    ):
        kind = FAULT_ADDRESS
    if kind != 0:
        record_fault(kind, op, pe, a, b)
        return NOWHERE
    return BY_RING


@device_function
def on_heap(array, nelems: int, most: int) -> bool:
    """Are the first ``nelems`` elements, of ``most``, on the device heap of the caller?"""
    begin = address_of(array) - state(words.HEAP_BASE)
    end = begin + nelems * itemsize_of(array)
    return (nelems >= 0) & (nelems <= most) & (begin >= 0) & (end <= state(words.HEAP_BYTES))


@device_function
def in_reach(array, nelems: int, most: int, pe: int) -> bool:
    """Do loads and stores reach the first ``nelems`` elements of ``array``, of ``most``, on ``pe``?

    All is compared before the one branch: each would cost more than the loads of constants.
    """
    known = (pe >= state_pe(words.NEAR_BEGIN)) & (pe < state_pe(words.NEAR_END))
    return known & on_heap(array, nelems, most) & (distance_to(pe) != words.FAR)


@device_function
def beyond(array, nelems: int, most: int, pe: int, op: int) -> int:
    """What ``reach`` says of those that are not ``in_reach``: BY_RING, or 0.

    The two apart keep what a short operation costs low: GPU compilers do not turn a branch that made a
    constant, and one that compares it, into one.
    """
    return reach_slowly(address_of(array), nelems, most, itemsize_of(array), pe, op)


@device_function
def reach(array, nelems: int, most: int, pe: int, op: int) -> int:
    """How the first ``nelems`` elements of ``array`` on ``pe`` are accessed: BY_STORES, BY_RING, or 0.

    With 0 what is wrong has been recorded; the caller leaves the operation out. ``most`` is how many
    elements there are.
    """
    return BY_STORES if in_reach(array, nelems, most, pe) else beyond(array, nelems, most, pe, op)


@device_function
def by_owner(pe: int) -> bool:
    """Has the link to the GPU of ``pe`` no native atomic operations? Then that PE's proxy does them."""
    # The first word is in the line that all use; every atomic operation would wait for the other.
    return (
        state(words.P2P) != ALL_NATIVE
        and (state(words.BY_OWNER + ((pe & words.NEAR_MASK) >> 6)) >> (pe & 63)) & 1 != 0
    )


@device_function
def native(array, most: int, pe: int) -> bool:
    """Is the first element within reach of any operation? What hardly ever fails, as one branch."""
    return (
        (state(words.P2P) == ALL_NATIVE)
        & (pe >= state_pe(words.NEAR_BEGIN))
        & (pe < state_pe(words.NEAR_END))
        & on_heap(array, 1, most)
    )


@device_function
def reach_atomic(array, most: int, pe: int, op: int) -> int:
    """``reach`` of one element for an operation that is more than a load or a store."""
    way = reach(array, 1, most, pe, op)
    return BY_RING if way == BY_STORES and by_owner(pe) else way


@device_function
def on_peer(array, pe: int) -> int:
    """Where ``pe`` keeps its copy of ``array``; only when ``reach`` said BY_STORES."""
    return address_of(array) + distance_to(pe)
