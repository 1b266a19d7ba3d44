# SPDX-License-Identifier: BSD-3-Clause
"""The device side of the ring: requests to the host. The protocol stands in ``host_proxy/ring.h``."""

from __future__ import annotations

from ..._core.contract import REQUEST_FLAG, REQUEST_OP
from ..._core.contract import RING as _RING
from ..._core.contract import RING_AWAITS as _AWAITS
from ..faults import FAULT_PROXY, FAULT_TIMEOUT, OP, record_fault
from ..leaf import backend as leaf
from ..leaf.backend import (
    cold,
    cold_large,
    compare_swap64,
    device_function,
    opaque,
    raise64,
    read64,
    state,
    write64,
)
from ..state import FAULT_CLAIM, RING, RING_LOG2, RING_SLOTS, RINGS, TIMEOUT_NS

NULL, PUT, GET, PUT_SIGNAL = REQUEST_OP.NULL, REQUEST_OP.PUT, REQUEST_OP.GET, REQUEST_OP.PUT_SIGNAL
IPUT, IGET, AMO, SPREAD = REQUEST_OP.IPUT, REQUEST_OP.IGET, REQUEST_OP.AMO, REQUEST_OP.SPREAD
P, G, CALL = REQUEST_OP.P, REQUEST_OP.G, REQUEST_OP.CALL
PRINT, ABORT, WAITING = REQUEST_OP.PRINT, REQUEST_OP.ABORT, REQUEST_OP.WAITING
#: Flags, where they stand in the word KIND: a reply is wanted; the copy engine's stream may write it.
REPLY, DONE = REQUEST_FLAG.REPLY << 16, REQUEST_FLAG.DONE << 16
#: The host sees what the caller's group stored before, and what it read is not overtaken.
RELEASE = REQUEST_FLAG.RELEASE << 16

CREDIT = _RING.CREDIT
CONTROL_CONSUMED, CONTROL_ASKED = _RING.CONTROL_CONSUMED, _RING.CONTROL_ASKED
CONTROL_ACKED, CONTROL_CELLS = _RING.CONTROL_ACKED, _RING.CONTROL_CELLS
# The ticket is the first word in device memory.
DEVICE_CONSUMED, DEVICE_PENDING = _RING.DEVICE_CONSUMED, _RING.DEVICE_PENDING
DEVICE_ACKED, DEVICE_WORDS = _RING.DEVICE_ACKED, _RING.DEVICE_WORDS

# What is said of a slow wait, when it is slow, and how often one of the ring's says so.
_CONTROL_WAITER, _DEVICE_NOTED = _RING.CONTROL_WAITER, _RING.DEVICE_NOTED
_CREDIT, _CELL, _REPLY, _COPY = _AWAITS.CREDIT, _AWAITS.CELL, _AWAITS.REPLY, _AWAITS.COPY
_QUIET = _AWAITS.QUIET
_SLOW_NS, _NOTE_EVERY_NS = 200_000_000, 250_000_000

# pysh_ring_skipped(), and what a sender that gives up leaves in busy[].
_CELL_BYTES, _WORD_BYTES = _RING.CELL_BYTES, 8
_LEFT, _LEFT_ENGINE = 1 << _RING.BUSY_LEFT_BIT, 1 << _RING.BUSY_ENGINE_BIT
_TURN = _RING.BUSY_TURN_BIT
_IN_USE = (1 << _TURN) - 1  # unless it is 0

_LOW56 = (1 << 56) - 1
_LOW32 = (1 << 32) - 1
_POLLS_PER_CHECK, _RARELY = 256, 255 if leaf.SIM else 4095
_RING_WAIT = OP["ring"]
_NO_LIMIT, _GRACE_NS = 1 << 61, 2_000_000_000


@device_function
def _own_ring() -> int:
    """First state word of the block's ring: a block keeps to one, so its requests stay in order."""
    rings = state(RINGS)
    if rings <= 1:
        return RING
    return RING + 4 * (leaf.block_index() % rings)


@device_function
def _ring_of_team(slot: int) -> int:
    """The same of a team's: words that only rise are in order, whatever blocks raise them in turn."""
    rings = state(RINGS)
    if rings <= 1:
        return RING
    return RING + 4 * (slot % rings)


@device_function
def _note(ring: int, ticket: int, awaits: int, time: int) -> None:
    """Says for reports who waits; of several, who has the lowest ticket, for which the others wait."""
    noted = state(ring + 2) + _DEVICE_NOTED
    last = read64(noted)
    if (time - last > _NOTE_EVERY_NS or ticket < read64(noted + 8)) and (
        compare_swap64(noted, last, time) == last
    ):
        write64(noted + 8, ticket)
        place = leaf.block_index() | leaf.thread_in_block() << 32 | (ticket & 0xFFFFF) << 44
        leaf.store_pair(state(ring + 1) + _CONTROL_WAITER, ticket << 8 | awaits, place)


@cold
def _expired(deadline: int, a: int, b: int, ring: int, ticket: int, awaits: int) -> int:
    """Deadline of a wait for the ring (0: none yet), or -1 when it must end.

    After a fault of some other call the host still answers, and whoever asked may not go on before it
    has; only a host that does not is not waited for as long as usual.
    """
    limit, time = state(TIMEOUT_NS), leaf.now()
    failed = read64(state(FAULT_CLAIM)) != 0
    if limit <= 0:
        limit = _NO_LIMIT
    if deadline == 0:
        deadline = time + limit
    if failed:
        deadline = min(deadline, time + _GRACE_NS)
    if time > deadline:
        if not failed:
            record_fault(FAULT_TIMEOUT, _RING_WAIT, -1, a, b)
        return -1
    if deadline - time < limit - _SLOW_NS:
        _note(ring, ticket, awaits, time)
    return deadline


@device_function
def _go_on(deadline: int, polls: int, a: int, b: int, ring: int, ticket: int, awaits: int) -> int:
    """After a look in vain: the deadline, or -1 when the wait must end.

    ``a`` and ``b`` are for the fault record; who waits for what of the ring is for reports.
    """
    leaf.relax()
    if polls & (_POLLS_PER_CHECK - 1) == 0:
        return _expired(deadline, a, b, ring, ticket, awaits)
    return deadline


@device_function
def _await_credit(ring: int, device: int, control: int, ticket: int) -> bool:
    """Until the ticket's slot is free. Only the next to go look across the bus.

    The others do so now and then, as the next ones may all have given up.
    """
    slots = state(RING_SLOTS)
    deadline, polls = 0, 0
    while deadline >= 0:
        known = read64(device + DEVICE_CONSUMED)
        if ticket < known + slots:
            return True
        if ticket < known + slots + CREDIT or polls & _RARELY == _RARELY:
            seen = read64(control + CONTROL_CONSUMED)
            if seen > known:
                raise64(device + DEVICE_CONSUMED, seen)
        else:
            leaf.nap()
        polls += opaque(1)
        deadline = _go_on(deadline, polls, ticket - slots + 1, known, ring, ticket, _CREDIT)
    return False


@cold
def _take_cell(ring: int, busy: int, cell: int, done: int, ticket: int) -> int:
    """Until the cell's last user has its reply, or the reply has come that it gave up: 1.

    Its reply may be of 2^32 tickets before, so another tag is put there first. 0 after a timeout: the
    word is then as it was, for the next to wait for.
    """
    tag = (ticket + 1) & _LOW32
    deadline, polls = 0, 0
    while deadline >= 0:
        word = read64(busy)
        reply = done if word & _LEFT_ENGINE != 0 else cell + 8
        over = word & _IN_USE == 0 or (
            word & _LEFT != 0 and read64(reply) & _LOW32 == word & _LOW32
        )
        if over and compare_swap64(busy, word, 1) == word:
            write64(cell + 8, ~tag & _LOW32)
            write64(done, ~tag & _LOW32)
            leaf.fence()  # the proxy answers behind it
            return 1
        polls += opaque(1)
        deadline = _go_on(deadline, polls, 0, word, ring, ticket, _CELL)
    return 0


@cold
def _skip(control: int, slots: int, ticket: int) -> int:
    """Gives the ticket up, so that the proxy goes on behind it."""
    cells = control + CONTROL_CELLS
    raise64(cells + _CELL_BYTES * slots + _WORD_BYTES * (ticket & (slots - 1)), ticket + 1)
    return -1


@device_function
def _top(word: int, place: int) -> int:
    return ((word >> 56) & 255) << place


@device_function
def _marked(word: int, mark: int) -> int:
    return leaf.to_int64(word) & _LOW56 | mark


@device_function
def _send(ring, kind, dest, source, value, extra, extra2, pe) -> int:
    """Takes a ticket and stores the request; the ticket, or -1 after a timeout."""
    device = state(ring + 2)
    known = read64(device + DEVICE_CONSUMED)
    ticket = leaf.fetch_add64(device, 1)
    if kind & RELEASE != 0:
        leaf.fence()  # here, while the ticket is under way
    slots = state(RING_SLOTS)
    index = ticket & (slots - 1)
    control = state(ring + 1)
    if ticket >= known + slots and not _await_credit(ring, device, control, ticket):
        return _skip(control, slots, ticket)
    if kind & REPLY != 0:
        busy = device + DEVICE_WORDS + 8 * index
        cell = control + CONTROL_CELLS + _CELL_BYTES * index
        free = ticket >> 32 << _TURN
        # An atomic, where a load would take as long: its value is back when the word is taken, and only
        # then is the slot stored. A store of 1 could arrive behind the host's answer to the slot, when
        # the cell's next user has read the word already: two would have one cell.
        if compare_swap64(busy, free, 1) != free and not _take_cell(
            ring, busy, cell, busy + 8 * slots, ticket
        ):
            return _skip(control, slots, ticket)
    # Seven words as eight of 56 bits and a phase: pysh_request_pack().
    mark = ((ticket >> state(RING_LOG2)) % 255 + 1) << 56
    slot = state(ring) + 64 * index
    tops = _top(dest, 0) | _top(source, 8) | _top(value, 16) | _top(extra, 24)
    tops |= _top(extra2, 32) | _top(pe, 40) | _top(kind, 48)
    leaf.store_pair(slot, _marked(dest, mark), _marked(source, mark))
    leaf.store_pair(slot + 16, _marked(value, mark), _marked(extra, mark))
    leaf.store_pair(slot + 32, _marked(extra2, mark), _marked(pe, mark))
    leaf.store_pair(slot + 48, _marked(kind, mark), _marked(tops, mark))
    return ticket


@cold_large
def tell(kind: int, dest: int, source: int, value: int, extra: int, extra2: int, pe: int) -> int:
    """Sends a request that has no reply; ``quiet`` completes it. The words are those of ring.h."""
    ring = _own_ring()
    ticket = _send(ring, kind, dest, source, value, extra, extra2, pe)
    raise64(state(ring + 2) + DEVICE_PENDING, ticket + 1)
    return 0


@cold_large
def raise_for_team(slot: int, dest: int, value: int, pe: int) -> int:
    """Sets 8 bytes at ``pe`` by the ring of the team in this slot, behind what the team has set there.

    In no order with requests of the caller's block: what a flag tells of is complete before.
    """
    ring = _ring_of_team(slot)
    kind, word = AMO | leaf.UINT64 << 8, pe & _LOW32 | leaf.AMO_SET << 32
    ticket = _send(ring, kind, dest, 0, value, 0, 0, word)
    raise64(state(ring + 2) + DEVICE_PENDING, ticket + 1)
    return 0


@device_function
def _await_reply(ring: int, ticket: int, place: int, by_engine: bool) -> tuple[int, int]:
    """Value and status of the reply; status -1 after a timeout.

    A copy engine's stream writes it near the kernel, and no value.
    """
    tag, awaits = (ticket + 1) & _LOW32, _COPY if by_engine else _REPLY
    deadline, polls, value = 0, 0, 0
    while deadline >= 0:
        if by_engine:
            word = read64(place)
        else:
            value, word = leaf.load_pair(place)
        if word & _LOW32 == tag:
            if by_engine:
                leaf.read64_acquire(place)  # what the engine stored before it is read fresh
            return value, (word >> 32) & _LOW32
        polls += opaque(1)
        deadline = _go_on(deadline, polls, tag, word, ring, ticket, awaits)
    return 0, -1


@cold_large
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
    by_engine = kind & DONE != 0
    place = state(ring + 1) + CONTROL_CELLS + _CELL_BYTES * index
    if by_engine:
        place = device + DEVICE_WORDS + 8 * (slots + index)
    answer, status = _await_reply(ring, ticket, place, by_engine)
    left = tag | _LEFT | (_LEFT_ENGINE if by_engine else 0)
    # The reply has been read: the next may come. Or it is still to come, and the next waits for it.
    write64(device + DEVICE_WORDS + 8 * index, ticket >> 32 << _TURN if status >= 0 else left)
    if status > 0:
        record_fault(FAULT_PROXY, _RING_WAIT, pe & _LOW32, status, kind & 255)
        return 0
    return answer


@cold_large
def _await_quiet(ring: int, need: int) -> int:
    device, control = state(ring + 2), state(ring + 1)
    deadline, polls, seen = 0, 0, -1
    while deadline >= 0:
        acked = read64(control + CONTROL_ACKED)
        if acked >= need:
            leaf.fence()  # what is complete is seen, also by who finds the shadow raised and fences
            raise64(device + DEVICE_ACKED, acked)
            return 0
        if acked != seen or polls & (_POLLS_PER_CHECK - 1) == 0:
            write64(control + CONTROL_ASKED, need)  # again: who asks for less may have come after
            seen = acked
        polls += opaque(1)
        deadline = _go_on(deadline, polls, need, acked, ring, need, _QUIET)
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
            _await_quiet(RING + 4 * k, need)
        k += opaque(1)
