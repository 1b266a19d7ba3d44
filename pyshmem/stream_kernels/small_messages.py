# SPDX-License-Identifier: BSD-3-Clause
"""Collectives of few bytes in few instructions: a thread for each 8 bytes, which go as one packet.

What ``data_movement``, ``reduce`` and ``call`` do for any array and any grid is done here for what the
host has looked at: two members or more, something to send, arrays and sizes in multiples of 4 bytes,
elements of at most 8, a grid of one dimension with a thread for each chunk, no checking mode. A launch
costs little more than its instructions in front of the first store, so the host passes addresses that it
can compute: ``half`` is from one half of the area of packets to the other, ``first`` where the caller's
packets go at the member behind it.

A packet is 8 bytes of data and twice the call's number, the second time where those of ``packets`` have
it, and the two halves are theirs: a kernel ends when it has had a packet from every member. Blocks add
their shares of the call counter when all of their threads have used the number, before they wait.

These kernels may be launched while the one in front of them still runs (``await_earlier_kernels``): what
does not depend on it, the state block for one, is read by then. Each lets the next one come only when
it has waited itself, so that at most one waits.
"""

from ..device.faults import OP
from ..device.leaf import backend as leaf
from ..device.leaf.backend import (
    add64,
    address_of,
    await_earlier_kernels,
    block_sync,
    combine,
    device_function,
    fence,
    let_next_kernel_start,
    line_block,
    line_blocks,
    line_rank,
    line_thread,
    line_threads,
    load_small,
    load_third,
    narrow,
    opaque,
    rare,
    read64,
    relax,
    state,
    store_small,
    store_third,
    stride,
    write64,
)
from ..device.peers import distance_to
from ..device.ring.requests import settle
from ..device.state import ABI
from ..device.team.rows import claim_row, member_pe
from ..device.wait_loop import POLLS_PER_CHECK, go_on, reached_soon, wait_word
from .call import SHIFT, SYNCS_SHIFT, other, row_of, waited_op
from .packets import is_of, slot_at, slot_of

_LOW = (1 << 32) - 1
CHUNK = 8  # bytes of data in a packet


# -- beginning and end -----------------------------------------------------------------------------


@device_function
def begin_behind() -> bool:
    """Whether there is a job, once the kernels in front have ended; all threads must come here."""
    abi = opaque(state(ABI))
    await_earlier_kernels()
    let_next_kernel_start()
    return abi != 0


@device_function
def call_number(counted: int) -> int:
    """The number of this call, from 1, by what the counter of calls holds."""
    return (counted >> SHIFT) + 1


@device_function
def count_call(calls: int) -> None:
    """All threads of the block have used the number."""
    block_sync()
    if line_thread() == 0:
        share = 1
        if line_block() == 0:
            share = (1 << SHIFT) - line_blocks() + 1
        add64(calls, share)


@device_function
def _chunk_of_thread(nbytes: int):
    """Where in the data the thread's 8 bytes begin, and what is left from there: 0 or less, nothing."""
    at = narrow(line_rank() << 3)
    return at, narrow(narrow(nbytes) - at)


@device_function
def _packet_of_chunk(at: int, half: int, call: int) -> int:
    """Where in a slot of both halves the packet of that chunk is."""
    return (at << 1) + (half if call & 1 else 0)


# -- synchronisation -------------------------------------------------------------------------------


def _synchronisation(op: int, quiets: bool):
    def synchronise(team, me, n, calls, flags, area, slot, first):
        row, k = row_of(team), narrow(line_thread() + 1)
        place = flags + 8 * me
        if not begin_behind():
            return
        counted = read64(calls)
        if line_thread() == 0:
            claim_row(row, op)
            if quiets:
                settle()
        if quiets:
            block_sync()
        # A release, in two steps: the fence need not wait for the number of the call.
        fence()
        value = call_number(counted) << SYNCS_SHIFT
        while k < narrow(n):
            to = first
            if k > 1:
                to = place + distance_to(member_pe(row, other(me, n, k)))
            write64(to, value)
            k = narrow(k + line_threads())
        count_call(calls)
        k = narrow(line_thread() + 1)
        while k < narrow(n):
            member = narrow(other(me, n, k))
            word = flags + 8 * member
            if not reached_soon(word, value):
                wait_word(word, value, waited_op(team, op), member_pe(row, member))
            k = narrow(k + line_threads())
        block_sync()
        if line_thread() == 0:
            claim_row(row, -1)

    return synchronise


#: Kernels of one block: what kernels before them on the stream have stored is released by their flags.
team_sync = _synchronisation(OP["team_sync"], False)
barrier_all = _synchronisation(OP["barrier_all"], True)


# -- packets --------------------------------------------------------------------------------------


@device_function
def _store(place: int, data: int, call: int) -> None:
    store_third(place, data, call, call)


@rare
def _wait(place: int, call: int, team: int, member: int, op: int) -> int:
    """The packet's data, once it is of this call; of any after the timeout or a fault."""
    pe = member_pe(row_of(team), member)
    waited, deadline, polls = waited_op(team, op), 0, -1
    data, word = load_third(place)
    while not is_of(word, call) and deadline >= 0:
        polls += opaque(1)
        deadline = go_on(deadline, polls, waited, pe, call, (word >> 32) & _LOW)
        data, word = load_third(place)
    return data


@device_function
def _await(place: int, call: int, team: int, member: int, op: int) -> int:
    polls = 0
    while polls < POLLS_PER_CHECK:
        data, word = load_third(place)
        if is_of(word, call):
            return data
        relax()
        polls += opaque(1)
    return _wait(place, call, team, member, op)


@device_function
def _send_on(team, me, n, area, slot, place, call, begin, step, left) -> None:
    """To the members from the second behind the caller on; the first has its chunk."""
    k = 2
    while k < n:
        member = other(me, n, k)
        there = slot_at(area, slot, n, 0, me, member, member_pe(row_of(team), member))
        _store(there + place, load_small(begin + member * step, left), call)
        k += stride(1)


# -- collectives -----------------------------------------------------------------------------------


def _sending(own_blocks: bool):
    """``f(...)``: the caller's data on its way; its own chunk, the call's number, where packets are."""

    @device_function
    def send(team, me, n, calls, area, slot, half, first, at, left, begin, step):
        # The loads fly together.
        counted, own = read64(calls), load_small(begin + me * step, left)
        word = load_small(begin + other(me, n, 1) * step, left) if own_blocks else own
        call = call_number(counted)
        place = _packet_of_chunk(at, half, call)
        if left > 0:
            _store(first + place, word, call)
            if narrow(n) > 2:
                _send_on(team, me, n, area, slot, place, call, begin, step, left)
        count_call(calls)
        return own, call, place

    return send


def blocks(routine: str, own_blocks: bool):
    """fcollect, or alltoall, which has a block for each member."""
    op, send = OP[routine], _sending(own_blocks)

    def move(team, me, n, calls, flags, area, slot, dest, source, nbytes, half, first):
        at, left = _chunk_of_thread(nbytes)
        begin, to = address_of(source) + at, address_of(dest) + at
        step = nbytes if own_blocks else 0
        if not begin_behind():
            return
        own, call, place = send(team, me, n, calls, area, slot, half, first, at, left, begin, step)
        if left > 0:
            store_small(to + me * nbytes, left, own)
            member, place = narrow(0), area + place
            while member < narrow(n):
                if member != narrow(me):
                    word = _await(place, call, team, member, op)
                    store_small(to + member * nbytes, left, word)
                    place += slot
                member = narrow(member + stride(1))

    return move


_BROADCAST = OP["broadcast"]


@device_function
def _await_first_packets(team, me, n, area, slot, call, but):
    """The first packet of every other member but one: the first block's affair."""
    k = line_rank() + 1
    while k < n:
        member = other(me, n, k)
        if member != but:
            _await(slot_of(area, slot, n, call, me, member), call, team, member, _BROADCAST)
        k += line_threads()


def broadcast():
    """Who has no data sends a packet without, so that all know of all."""

    def move(team, me, n, calls, flags, area, slot, dest, source, nbytes, root, half, first):
        at, left = _chunk_of_thread(nbytes)
        begin, to = address_of(source) + at, address_of(dest) + at
        if not begin_behind():
            return
        counted, own = read64(calls), load_small(begin, left if me == root else 0)
        call = call_number(counted)
        place = _packet_of_chunk(at, half, call)
        if me == root:
            if left > 0:
                _store(first + place, own, call)
                if narrow(n) > 2:
                    _send_on(team, me, n, area, slot, place, call, begin, 0, left)
                store_small(to, left, own)
        elif line_block() == 0:
            if line_thread() == 0:
                _store(first + place, 0, call)
            if narrow(n) > 2:
                k = line_thread() + (1 if line_thread() > 0 else line_threads() + 1)
                while k < n:
                    member = other(me, n, k)
                    pe = member_pe(row_of(team), member)
                    _store(slot_at(area, slot, n, call, me, member, pe), 0, call)
                    k += line_threads()
        count_call(calls)
        if me != root and left > 0:
            from_root = slot_of(area, slot, n, 0, me, root) + place
            store_small(to, left, _await(from_root, call, team, root, _BROADCAST))
        if line_block() == 0 and (me == root or narrow(n) > 2):
            # Of the root the first thread has had the first packet.
            _await_first_packets(team, me, n, area, slot, call, root)

    return move


def reduction(name: str, scatters: bool):
    """Everybody sends at once, and combines what arrives in the team's order."""
    add, op = combine(name), OP["reduce_scatter" if scatters else "reduce"]
    send = _sending(scatters)

    @device_function
    def combined(team, me, n, slot, place, own, call, like):
        acc = leaf.no_sum(like)
        member = narrow(0)
        while member < narrow(n):
            word = own
            if member != narrow(me):
                word = _await(place, call, team, member, op)
                place += slot
            raw = leaf.raw_of(like, word, 0)
            acc = leaf.widen(like, raw) if member == 0 else add(like, acc, raw)
            member = narrow(member + stride(1))
        return leaf.rounded(like, acc)[0]

    def reduce(team, me, n, calls, flags, area, slot, dest, source, nelems, half, first):
        nbytes = nelems * leaf.itemsize_of(dest)
        at, left = _chunk_of_thread(nbytes)
        begin, to = address_of(source) + at, address_of(dest) + at
        step = nbytes if scatters else 0
        if not begin_behind():
            return
        own, call, place = send(team, me, n, calls, area, slot, half, first, at, left, begin, step)
        if left > 0:
            result = combined(team, me, n, slot, area + place, own, call, dest)
            store_small(to, left, result)

    return reduce
