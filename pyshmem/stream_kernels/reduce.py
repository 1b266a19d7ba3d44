# SPDX-License-Identifier: BSD-3-Clause
"""Reductions of grids: with flags in the data, and by direct loads and stores between two waits.

Members are combined in the team's order, element by element, as everywhere (docs/collectives.md). Of a
``reduce_scatter`` each member sends and gets a block of ``nelems``, of a ``reduce`` all of them.
"""

from ..device.faults import OP
from ..device.groups import quotient
from ..device.leaf import backend as leaf
from ..device.leaf.backend import combine, device_function, load16_near, raw1, state
from ..device.peers import distance_to
from ..device.state import ABI
from ..device.team.rows import member_pe
from . import packets
from .call import end_call, grid_rank, grid_size, other, row_of, start_call, sync_blocks, waited_op
from .packets import await_line, load_line, send_line, store_line


def _make_combine_lines(name: str):
    add = combine(name)

    @device_function
    def combine_lines(row, me, n, area, slot, place, own, left, call, waited, like):
        """A thread's chunks of all members, combined; its own are in ``own``."""
        member = 0
        low = leaf.no_sum(like)
        middle, high = low, low
        while member < n:
            chunks = own
            if member != me:
                at = packets.slot_of(area, slot, n, call, me, member) + place
                pe = member_pe(row, member)
                chunks = await_line(at, left, call, waited, pe)
            r0 = leaf.raw_of(like, chunks[0], chunks[1])
            r1 = leaf.raw_of(like, chunks[2], chunks[3])
            r2 = leaf.raw_of(like, chunks[4], chunks[5])
            if member == 0:
                low, middle, high = leaf.widen(like, r0), leaf.widen(like, r1), leaf.widen(like, r2)
            else:
                low, middle, high = add(like, low, r0), add(like, middle, r1), add(like, high, r2)
            member += 1
        a, b = leaf.rounded(like, low)
        c, d = leaf.rounded(like, middle)
        e, f = leaf.rounded(like, high)
        return a, b, c, d, e, f

    return combine_lines


def with_flags(name: str, scatters: bool):
    """The kernel for few bytes: everybody sends at once, and combines what arrives.

    A thread has the same chunks of all members, its own included, so ``dest`` may be ``source``.
    """
    combine_lines, op = (
        _make_combine_lines(name),
        OP["reduce_scatter" if scatters else "reduce"],
    )

    def reduce(team, me, n, calls, flags, area, slot, dest, source, nelems):
        if state(ABI) == 0:
            return
        nbytes, row = nelems * leaf.itemsize_of(dest), row_of(team)
        to, begin = leaf.address_of(dest), leaf.address_of(source)
        step = nbytes if scatters else 0
        call = start_call(team, calls, op)
        thread = grid_rank()
        while packets.takes_part(thread, nbytes):
            at, k = packets.chunk_at(thread), 1
            while k < n:
                member = other(me, n, k)
                chunks = load_line(begin + member * step + at, nbytes - at)
                there = packets.slot_at(area, slot, n, call, me, member, member_pe(row, member))
                send_line(there + packets.packet_at(thread), nbytes - at, call, chunks)
                k += 1
            thread += grid_size()
        thread, waited = grid_rank(), waited_op(team, op)
        while packets.takes_part(thread, nbytes):
            at, place = packets.chunk_at(thread), packets.packet_at(thread)
            own, left = load_line(begin + me * step + at, nbytes - at), nbytes - at
            result = combine_lines(row, me, n, area, slot, place, own, left, call, waited, dest)
            store_line(to + at, left, result)
            thread += grid_size()
        end_call(team, calls)

    return reduce


# ---- many bytes ----------------------------------------------------------------------------------


def _make_gathers(name: str):
    """16 bytes of all members, combined; four of them, whose loads fly together; an element."""
    add = combine(name)

    @device_function
    def load(like, address):
        low, high = load16_near(address)
        return leaf.raw_of(like, low, high)

    @device_function
    def one(row, n, source, like):
        acc = leaf.widen(like, load(like, source + distance_to(member_pe(row, 0))))
        member = 1
        while member < n:
            at = source + distance_to(member_pe(row, member))
            acc = add(like, acc, load(like, at))
            member += 1
        return acc

    @device_function
    def four(row, n, source, step, like):
        at = source + distance_to(member_pe(row, 0))
        r0, r1 = load(like, at), load(like, at + step)
        r2, r3 = load(like, at + 2 * step), load(like, at + 3 * step)
        a0, a1 = leaf.widen(like, r0), leaf.widen(like, r1)
        a2, a3 = leaf.widen(like, r2), leaf.widen(like, r3)
        member = 1
        while member < n:
            at = source + distance_to(member_pe(row, member))
            r0, r1 = load(like, at), load(like, at + step)
            r2, r3 = load(like, at + 2 * step), load(like, at + 3 * step)
            a0, a1 = add(like, a0, r0), add(like, a1, r1)
            a2, a3 = add(like, a2, r2), add(like, a3, r3)
            member += 1
        return a0, a1, a2, a3

    @device_function
    def element(row, n, source, like):
        acc = leaf.widen(like, raw1(source + distance_to(member_pe(row, 0)), like))
        member = 1
        while member < n:
            acc = add(like, acc, raw1(source + distance_to(member_pe(row, member)), like))
            member += 1
        return acc

    return one, four, element


def _make_range(name: str, to_all: bool):
    """``f(...)``: bytes ``at`` to ``end`` of all sources, combined, to the own dest or to all.

    Nobody else reads or writes that range, so dest may be source.
    """
    one, four, element = _make_gathers(name)

    @device_function
    def receivers(n):
        return n if to_all else 1

    @device_function
    def place(row, me, n, dest, k):
        return dest + distance_to(member_pe(row, other(me, n, k))) if to_all else dest

    @device_function
    def by_chunks(row, me, n, dest, source, at, end, like):
        """16-byte chunks, all of it aligned."""
        step = leaf.opaque(grid_size() << 4)
        at += grid_rank() << 4
        while at + 3 * step < end:
            a0, a1, a2, a3 = four(row, n, source + at, step, like)
            k = 0
            while k < receivers(n):
                to = place(row, me, n, dest, k) + at
                leaf.store_acc16(to, like, a0)
                leaf.store_acc16(to + step, like, a1)
                leaf.store_acc16(to + 2 * step, like, a2)
                leaf.store_acc16(to + 3 * step, like, a3)
                k += 1
            at += 4 * step
        while at < end:
            acc, k = one(row, n, source + at, like), 0
            while k < receivers(n):
                leaf.store_acc16(place(row, me, n, dest, k) + at, like, acc)
                k += 1
            at += leaf.opaque(step)

    @device_function
    def by_elements(row, me, n, dest, source, at, end, like):
        """What no 16-byte chunks can reach."""
        step = leaf.opaque(grid_size() * leaf.itemsize_of(like))
        at += grid_rank() * leaf.itemsize_of(like)
        while at < end:
            acc, k = element(row, n, source + at, like), 0
            while k < receivers(n):
                leaf.store_acc1(place(row, me, n, dest, k) + at, like, acc)
                k += 1
            at += leaf.opaque(step)

    return by_chunks, by_elements


def direct(name: str, scatters: bool):
    """The kernel for many bytes: a member combines its share of all sources, and stores it at all.

    Of a ``reduce_scatter`` its block, which it stores for itself. The first sync says that the
    sources are ready and the dests free, the second that all has been read and stored. A block
    of the grid works on the same places as the peers' same block expects it to.
    """
    by_chunks, by_elements = _make_range(name, to_all=not scatters)
    op = OP["reduce_scatter" if scatters else "reduce"]

    @device_function
    def share(me, n, nelems, packet):
        """Begin and end of the own share, in steps of so many elements."""
        each = quotient(quotient(nelems, packet) + n - 1, n) * packet
        begin = min(nelems, me * each)
        return begin, min(nelems, begin + each)

    def reduce(team, me, n, calls, flags, area, slot, dest, source, nelems):
        if state(ABI) == 0:
            return
        row, itemsize = row_of(team), leaf.itemsize_of(dest)
        to, begin, nbytes = leaf.address_of(dest), leaf.address_of(source), nelems * itemsize
        if scatters:
            begin += me * nbytes
        call = start_call(team, calls, op)
        sync_blocks(team, me, n, flags, call, 0, op)
        whole = nbytes & ~15 if (to | begin) & 15 == 0 else 0
        at, end = 0, whole
        if not scatters:
            at, end = share(me, n, whole, 16)
        by_chunks(row, me, n, to, begin, at, end, dest)
        at, end = whole, nbytes
        if not scatters:
            first, last = share(me, n, nelems - quotient(whole, itemsize), 1)
            at, end = whole + first * itemsize, whole + last * itemsize
        by_elements(row, me, n, to, begin, at, end, dest)
        sync_blocks(team, me, n, flags, call, 1, op)
        end_call(team, calls)

    return reduce
