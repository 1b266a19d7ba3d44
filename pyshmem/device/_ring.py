# SPDX-License-Identifier: BSD-3-Clause
"""The device side of the ring: requests to the host. The protocol stands in ``host_proxy/ring.h``."""

from __future__ import annotations

from . import _backend
from ._backend import (
    block_index,
    cold,
    device_function,
    fetch_add64,
    load_pair,
    nap,
    now,
    opaque,
    raise64,
    read64,
    read64_acquire,
    relax,
    state,
    store_pair,
    write64,
)
from ._faults import FAULT_PROXY, FAULT_TIMEOUT, OP, record_fault
from ._state import FAULT_CLAIM, RING, RING_LOG2, RING_SLOTS, RINGS, TIMEOUT_NS

_fence = _backend.fence

# enum pysh_request_op
(
    NULL, PUT, GET, IPUT, IGET, AMO, P, G, PUT_SIGNAL, PRINT, ABORT, CALL, WAITING,
) = range(1, 14)  # fmt: skip
#: Flags, where they stand in the word KIND: a reply is wanted; the copy engine's stream may write it.
REPLY, DONE = 1 << 16, 2 << 16
#: The host sees what the caller's group stored before, and what it read is not overtaken.
RELEASE = 4 << 16

CREDIT = 128
# Offsets in pysh_ring_control_t and pysh_ring_device_t; the ticket is the latter's first word.
CONTROL_CONSUMED, CONTROL_ASKED, CONTROL_ACKED, CONTROL_CELLS = 0, 128, 256, 384
DEVICE_CONSUMED, DEVICE_PENDING, DEVICE_ACKED, DEVICE_WORDS = 128, 256, 384, 512

_LOW56 = (1 << 56) - 1
_LOW32 = (1 << 32) - 1
_POLLS_PER_CHECK = 256
_RING_WAIT = OP["ring"]


@device_function
def _own_ring() -> int:
    """First state word of the block's ring: a block keeps to one, so its requests stay in order."""
    rings = state(RINGS)
    if rings <= 1:
        return RING
    return RING + 4 * (block_index() % rings)


@device_function
def _expired(deadline: int, a: int, b: int) -> int:
    """Deadline of a wait for the ring (0: none yet), or -1 when it must end."""
    limit = state(TIMEOUT_NS)
    if read64(state(FAULT_CLAIM)) != 0:
        return -1
    if limit > 0 and deadline == 0:
        return now() + limit
    if limit > 0 and now() > deadline:
        record_fault(FAULT_TIMEOUT, _RING_WAIT, -1, a, b)
        return -1
    return deadline


@device_function
def _await_credit(device: int, control: int, ticket: int) -> bool:
    """Until the ticket's slot is free. Only the next to go look across the bus."""
    slots = state(RING_SLOTS)
    deadline = 0
    polls = 0
    while True:
        known = read64(device + DEVICE_CONSUMED)
        if ticket < known + slots:
            return True
        if ticket < known + slots + CREDIT:
            seen = read64(control + CONTROL_CONSUMED)
            if seen > known:
                raise64(device + DEVICE_CONSUMED, seen)
        else:
            nap()
        relax()
        polls += opaque(1)
        if polls & (_POLLS_PER_CHECK - 1) == 0:
            deadline = _expired(deadline, ticket - slots + 1, known)
            if deadline < 0:
                return False


@device_function
def _await_word(address: int, mask: int, expected: int) -> bool:
    """Until ``word & mask == expected`` in memory near the kernel."""
    deadline = 0
    polls = 0
    while True:
        if read64(address) & mask == expected:
            return True
        relax()
        polls += opaque(1)
        if polls & (_POLLS_PER_CHECK - 1) == 0:
            deadline = _expired(deadline, expected, read64(address))
            if deadline < 0:
                return False


@device_function
def _top(word: int, place: int) -> int:
    return ((word >> 56) & 255) << place


@device_function
def _send(
    ring: int, kind: int, dest: int, source: int, value: int, extra: int, extra2: int, pe: int
) -> int:
    """Takes a ticket and stores the request; the ticket, or -1 after a timeout."""
    device = state(ring + 2)
    known = read64(device + DEVICE_CONSUMED)
    ticket = fetch_add64(device, 1)
    if kind & RELEASE != 0:
        _fence()  # here, while the ticket is under way
    slots = state(RING_SLOTS)
    index = ticket & (slots - 1)
    if ticket >= known + slots and not _await_credit(device, state(ring + 1), ticket):
        return -1
    if kind & REPLY != 0:
        busy = device + DEVICE_WORDS + 8 * index
        if read64(busy) != 0 and not _await_word(busy, -1, 0):
            return -1
        write64(busy, 1)
    # Seven words as eight of 56 bits and a phase: pysh_request_pack().
    mark = ((ticket >> state(RING_LOG2)) % 255 + 1) << 56
    slot = state(ring) + 64 * index
    tops = _top(dest, 0) | _top(source, 8) | _top(value, 16) | _top(extra, 24)
    tops |= _top(extra2, 32) | _top(pe, 40) | _top(kind, 48)
    store_pair(slot, dest & _LOW56 | mark, source & _LOW56 | mark)
    store_pair(slot + 16, value & _LOW56 | mark, extra & _LOW56 | mark)
    store_pair(slot + 32, extra2 & _LOW56 | mark, pe & _LOW56 | mark)
    store_pair(slot + 48, kind & _LOW56 | mark, tops | mark)
    return ticket


@cold
def tell(kind: int, dest: int, source: int, value: int, extra: int, extra2: int, pe: int) -> int:
    """Sends a request that has no reply; ``quiet`` completes it. The words are those of ring.h."""
    ring = _own_ring()
    ticket = _send(ring, kind, dest, source, value, extra, extra2, pe)
    raise64(state(ring + 2) + DEVICE_PENDING, ticket + 1)
    return 0


@device_function
def _await_cell(cell: int, tag: int) -> tuple[int, int]:
    """Value and status of the reply; status -1 after a timeout."""
    deadline = 0
    polls = 0
    while True:
        value, word = load_pair(cell)
        if word & _LOW32 == tag:
            return value, (word >> 32) & _LOW32
        relax()
        polls += opaque(1)
        if polls & (_POLLS_PER_CHECK - 1) == 0:
            deadline = _expired(deadline, tag, word)
            if deadline < 0:
                return value, -1


@device_function
def _await_engine(word: int, tag: int) -> int:
    """Status of the reply that a stream writes near the kernel; -1 after a timeout."""
    if _await_word(word, _LOW32, tag):
        return (read64(word) >> 32) & _LOW32
    return -1


@cold
def ask(kind: int, dest: int, source: int, value: int, extra: int, extra2: int, pe: int) -> int:
    """Sends a request and waits for its reply; the value in it, 0 after a fault."""
    ring = _own_ring()
    ticket = _send(ring, kind | REPLY, dest, source, value, extra, extra2, pe)
    if ticket < 0:
        return 0
    device = state(ring + 2)
    slots = state(RING_SLOTS)
    index = ticket & (slots - 1)
    tag = (ticket + 1) & _LOW32
    answer = ticket & 0
    if kind & DONE != 0:
        status = _await_engine(device + DEVICE_WORDS + 8 * (slots + index), tag)
    else:
        answer, status = _await_cell(state(ring + 1) + CONTROL_CELLS + 16 * index, tag)
    if status >= 0:
        write64(device + DEVICE_WORDS + 8 * index, 0)  # the reply has been read: the next may come
    read64_acquire(device)  # for its order: what the host or the engine stored is read fresh
    if status > 0:
        record_fault(FAULT_PROXY, _RING_WAIT, pe & _LOW32, status, kind & 255)
        return 0
    return answer


@cold
def _await_quiet(device: int, control: int, need: int, _a: int, _b: int) -> int:
    raise64(control + CONTROL_ASKED, need)
    deadline = 0
    polls = 0
    while True:
        acked = read64(control + CONTROL_ACKED)
        if acked >= need:
            raise64(device + DEVICE_ACKED, acked)
            _fence()
            return 0
        relax()
        polls += opaque(1)
        if polls & (_POLLS_PER_CHECK - 1) == 0:
            deadline = _expired(deadline, need, acked)
            if deadline < 0:
                return 0


@device_function
def settle() -> None:
    """One thread waits for the requests without a reply; two loads a ring when there are none."""
    rings = state(RINGS)
    k = 0
    while k < rings:
        device = state(RING + 4 * k + 2)
        need = read64(device + DEVICE_PENDING)
        if need > read64(device + DEVICE_ACKED):
            _await_quiet(device, state(RING + 4 * k + 1), need, 0, 0)
        k += opaque(1)
