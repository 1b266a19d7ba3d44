# SPDX-License-Identifier: BSD-3-Clause
"""The device side of the ring: requests of a program to its host, with a reply and without.

The protocol is that of ``host_proxy/ring.h``, in Triton's language, so that it is one body for GPUs and
for the interpreter. A program sends through the ring of its number, so its requests stay in order.

A tile is as many requests as it has elements. A program takes the tickets of a batch at once, no more
than the ring has slots, and waits for the credit of the last: all tickets before it belong to batches
that wait for none behind theirs, so the first batch can always go on.
"""

import triton
import triton.language as tl

from ..runtime import context as job
from ..runtime.constants import (
    AWAITS_CELL,
    AWAITS_CREDIT,
    AWAITS_REPLY,
    BUSY_ENGINE,
    BUSY_LEFT,
    BUSY_TURN,
    CELL_WORDS,
    CMP_EQ,
    CMP_GE,
    CMP_NE,
    CONTROL_ACKED,
    CONTROL_CELLS,
    CONTROL_CONSUMED,
    FAULT_PROXY,
    MAX_RINGS,
    QUIET,
    REQUEST_RELEASE,
    REQUEST_REPLY,
    RING,
    RING_ACKED,
    RING_BUSY,
    RING_CONSUMED,
    RING_LOG2,
    RING_PENDING,
    RING_SLOTS,
    RING_TICKET,
    RING_WAIT,
    RINGS,
)
from .backend import (
    await_host,
    device_function,
    fence_all,
    poll_ring,
    program_barrier,
    read_words,
    record,
    state,
    store_requests,
    wait_ring,
)

_LOW56, _LOW32 = tl.constexpr((1 << 56) - 1), tl.constexpr((1 << 32) - 1)


@triton.constexpr_function
def label_word(label, number):
    """Eight bytes of a text that stands in a kernel, as an int64."""
    if not isinstance(label, str):
        raise TypeError("a label is a text that stands in the kernel")
    text = label.encode()
    if len(text) > 24:
        raise ValueError(f"the label {label!r} has {len(text)} bytes; there is room for 24")
    return int.from_bytes(text[8 * number : 8 * number + 8].ljust(8, b"\0"), "little", signed=True)


@device_function
def words_at(address):
    """A pointer to int64."""
    return address.to(tl.pointer_type(tl.int64))


@device_function
def program_number():
    """The program's number in its grid, the x axis first, as %ctaid counts."""
    return tl.program_id(0) + tl.num_programs(0) * (
        tl.program_id(1) + tl.num_programs(1) * tl.program_id(2)
    )


@device_function
def to_int64(value):
    return tl.cast(value, tl.int64)


@device_function
def own_ring(ctx):
    """Number of the state word where the words of the program's ring begin."""
    return RING + 4 * (program_number() % state(ctx, RINGS))


@device_function
def team_ring(team, ctx):
    """The same of a team's: words that only rise are in order, whatever programs raise them in turn."""
    return RING + 4 * (tl.cast(team, tl.int64) % state(ctx, RINGS))


@device_function
def _pack(mark, dest, source, value, extra, extra2, pe, kind):
    """pysh_request_pack(): seven words as eight of 56 bits, each with the phase of its ticket."""
    i = tl.arange(0, 8)
    words = tl.where(i == 0, to_int64(dest), tl.where(i == 1, to_int64(source), to_int64(value)))
    words = tl.where(i == 3, to_int64(extra), tl.where(i == 4, to_int64(extra2), words))
    words = tl.where(i == 5, to_int64(pe), tl.where(i == 6, to_int64(kind), words))
    tops = tl.where(i < 7, (words >> 56) & 255, 0) << (8 * (i % 7)).to(tl.int64)
    return tl.where(i == 7, tl.sum(tops), words & _LOW56) | mark


@device_function
def _take(device, control, slots, count, ctx):
    """Takes ``count`` tickets and waits for their slots; the first, and whether they may be used.

    After a wait that takes too long they are given up, so that the proxy goes on behind them.
    """
    program_barrier()
    ticket = tl.atomic_add(device + RING_TICKET, count, sem="relaxed", scope="gpu")
    fence_all()
    least = ticket + count - slots
    consumed = tl.load(device + RING_CONSUMED, volatile=True)
    if consumed < least:
        consumed = wait_ring(
            control + CONTROL_CONSUMED, CMP_GE, least, ticket + count - 1, AWAITS_CREDIT, device,
            control, ctx,
        )  # fmt: skip
        tl.atomic_max(device + RING_CONSUMED, consumed, sem="relaxed", scope="gpu")
    return ticket, consumed >= least


@device_function
def _skip(control, slots, tickets, inside):
    places = control + CONTROL_CELLS + CELL_WORDS * slots + (tickets & (slots - 1))
    tl.atomic_max(places, tickets + 1, mask=inside, sem="relaxed", scope="sys")


@device_function
def tell(kind, dest, source, value, extra, extra2, pe, ctx):
    """Sends a request without a reply, behind all that the program has stored; see ``settle``."""
    ring = own_ring(ctx)
    control, device = words_at(state(ctx, ring + 1)), words_at(state(ctx, ring + 2))
    slots = state(ctx, RING_SLOTS)
    ticket, granted = _take(device, control, slots, tl.cast(1, tl.int64), ctx)
    if granted:
        phase = (ticket >> state(ctx, RING_LOG2)) % 255 + 1
        slot = words_at(state(ctx, ring)) + 8 * (ticket & (slots - 1))
        packed = _pack(phase << 56, dest, source, value, extra, extra2, pe, kind | REQUEST_RELEASE)
        tl.store(slot + tl.arange(0, 8), packed)
        tl.atomic_max(device + RING_PENDING, ticket + 1, sem="relaxed", scope="gpu")
    else:
        _skip(control, slots, ticket, None)
    program_barrier()


job.tellers.append(tell)


@device_function
def _places(active):
    """Of each element with ``active`` its number among them, and how many there are."""
    ones = active.to(tl.int64)
    return tl.cumsum(ones, 0) - ones, tl.sum(ones)


@device_function
def tell_tile(kind, dest, value, pe, active, ring, ctx):
    """A request without a reply for each element with ``active``; flat tensors of int64 or scalars.

    ``ring``: ``own_ring`` or ``team_ring``.
    """
    control, device = words_at(state(ctx, ring + 1)), words_at(state(ctx, ring + 2))
    slots, log2 = state(ctx, RING_SLOTS), state(ctx, RING_LOG2)
    place, count = _places(active)
    first = count * 0
    while first < count:
        batch = tl.minimum(count - first, slots)
        ticket, granted = _take(device, control, slots, batch, ctx)
        inside = active & (place >= first) & (place < first + batch)
        tickets = ticket + place - first
        if granted:
            slot = words_at(state(ctx, ring)) + 8 * (tickets & (slots - 1))
            phases = (tickets >> log2) % 255 + 1
            store_requests(slot, phases, inside, kind, dest, 0, value, 0, 0, pe)
            tl.atomic_max(device + RING_PENDING, ticket + batch, sem="relaxed", scope="gpu")
        else:
            _skip(control, slots, tickets, inside)
        program_barrier()
        first += batch


@device_function
def _take_cells(device, control, index, tickets, inside, ctx):
    """Waits until the cells' last users have their replies, or the replies have come that they gave up.

    Their tags may be those of 2^32 tickets before, so others are put there first. False after a wait
    that takes too long: the cells are then as they were.
    """
    busy, cells = device + RING_BUSY + index, control + CONTROL_CELLS + CELL_WORDS * index
    done, free = busy + state(ctx, RING_SLOTS), (tickets >> 32) << BUSY_TURN
    seen = poll_ring(
        inside.to(tl.int32), busy, CMP_NE, 1, tickets, AWAITS_CELL, device, control, ctx
    )
    left = inside & ((seen & BUSY_LEFT) != 0)
    tags = tl.where((seen & BUSY_ENGINE) != 0, done.to(tl.int64), (cells + 1).to(tl.int64))
    tags = tags.to(tl.pointer_type(tl.uint32))
    tag = poll_ring(
        left.to(tl.int32), tags, CMP_EQ, seen & _LOW32, tickets, AWAITS_CELL, device, control, ctx
    ).to(tl.int64)
    in_use = inside & ((seen == 1) | (left & (tag != (seen & _LOW32))))
    taken = tl.max(in_use.to(tl.int32)) == 0
    if taken:
        other = inside & (seen != free)
        never = ~(tickets + 1) & _LOW32
        tl.store(cells + 1, never, mask=other)
        tl.store(done, never, mask=other)
        tl.store(busy, 1, mask=inside)
        program_barrier()
        # The slots are stored, and the proxy answers, behind it. Without it the store of ``busy``, near
        # the kernel, may arrive after the host's answer, when the cell's next user has found it free.
        fence_all()
        program_barrier()
    return taken


@device_function
def ask_tile(kind, dest, source, value, extra, extra2, pe, active, ctx):
    """A request for each element with ``active``, and the values in the replies.

    Arguments are flat tensors of int64, or scalars. Returns: int64, and where a reply has come that says
    that all is well. Faults: a wait that takes too long, and what the host finds wrong.
    """
    ring = own_ring(ctx)
    control, device = words_at(state(ctx, ring + 1)), words_at(state(ctx, ring + 2))
    slots, log2 = state(ctx, RING_SLOTS), state(ctx, RING_LOG2)
    place, count = _places(active)
    result, well = place * 0, active & (place < 0)
    first = count * 0
    while first < count:
        batch = tl.minimum(count - first, slots)
        ticket, granted = _take(device, control, slots, batch, ctx)
        inside = active & (place >= first) & (place < first + batch)
        tickets = ticket + place - first
        index = tickets & (slots - 1)
        cells = control + CONTROL_CELLS + CELL_WORDS * index
        busy = device + RING_BUSY + index
        if granted:
            granted = _take_cells(device, control, index, tickets, inside, ctx)
        if granted:
            slot = words_at(state(ctx, ring)) + 8 * index
            phases = (tickets >> log2) % 255 + 1
            store_requests(
                slot, phases, inside, kind | REQUEST_REPLY | REQUEST_RELEASE, dest, source, value, extra,
                extra2, pe,
            )  # fmt: skip
            tag = (tickets + 1) & _LOW32
            tags = (cells + 1).to(tl.int64).to(tl.pointer_type(tl.uint32))
            seen = poll_ring(
                inside.to(tl.int32), tags, CMP_EQ, tag, tickets, AWAITS_REPLY, device, control, ctx
            ).to(tl.int64)
            program_barrier()
            came = inside & (seen == tag)
            status = read_words(came.to(tl.int32), tags + 1)
            answer = read_words(came.to(tl.int32), cells)
            program_barrier()  # the replies are here, not only asked for: the next may come
            free = (tickets >> 32) << BUSY_TURN
            tl.store(busy, tl.where(came, free, tag | BUSY_LEFT), mask=inside)
            result = tl.where(came & (status == 0), answer, result)
            well = well | (came & (status == 0))
            wrong = tl.max(tl.where(came, status, 0).to(tl.int32))
            if wrong != 0:
                record(FAULT_PROXY, RING_WAIT, wrong, kind & 255, ctx)
        else:
            _skip(control, slots, tickets, inside)
        program_barrier()
        first += batch
    return result, well


@device_function
def ask(kind, dest, source, value, extra, extra2, pe, ctx):
    """One request, and the value in its reply; 0 after a fault."""
    answer, _ = ask_tile(kind, dest, source, value, extra, extra2, pe, tl.arange(0, 2) == 0, ctx)
    return tl.sum(answer)


@device_function
def settle(ctx):
    """Waits for the requests without a reply; two loads, for all rings at once, when there are none."""
    i = tl.arange(0, MAX_RINGS)
    there = i < state(ctx, RINGS)
    devices = words_at(state(ctx, RING + 4 * i + 2))
    pending = tl.load(devices + RING_PENDING, mask=there, other=0, volatile=True)
    acked = tl.load(devices + RING_ACKED, mask=there, other=0, volatile=True)
    if tl.max((pending > acked).to(tl.int32)) != 0:
        for k in range(state(ctx, RINGS).to(tl.int32)):
            _settle_ring(k, ctx)


@device_function
def _settle_ring(k, ctx):
    control = words_at(state(ctx, RING + 4 * k + 1))
    device = words_at(state(ctx, RING + 4 * k + 2))
    pending = tl.load(device + RING_PENDING, volatile=True)
    if pending > tl.load(device + RING_ACKED, volatile=True):
        acked = await_host(control + CONTROL_ACKED, pending, control, device, QUIET, ctx)
        fence_all()  # who finds it raised, and fences, sees what is complete
        tl.atomic_max(device + RING_ACKED, acked, sem="relaxed", scope="gpu")
