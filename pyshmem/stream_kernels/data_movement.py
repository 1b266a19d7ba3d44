# SPDX-License-Identifier: BSD-3-Clause
"""Broadcast, fcollect and alltoall of grids, on bytes: with flags in the data, and by direct stores."""

from ..device.copies import push
from ..device.faults import OP
from ..device.groups import quotient
from ..device.leaf import backend as leaf
from ..device.leaf.backend import (
    address_of,
    block_index,
    block_threads,
    device_function,
    opaque,
    state,
    store_third,
    thread_in_block,
)
from ..device.peers import distance_to
from ..device.state import ABI
from ..device.team.rows import member_pe
from . import packets
from .call import end_call, grid_rank, grid_size, other, row_of, start_call, sync_blocks, waited_op
from .packets import (
    await_line,
    await_packet,
    load_line,
    send_line,
    slot_at,
    slot_of,
    store_line,
)

# ---- few bytes -----------------------------------------------------------------------------------


@device_function
def _send(team, me, n, area, slot, call, source, step, own, nbytes):
    """To each other member m the ``nbytes`` at ``source + m * step``; the caller's go to ``own``.

    The threads share all packets of all members, in the order in which they receive theirs; the own
    ones come last.
    """
    row, threads = row_of(team), packets.threads_of(nbytes)
    k, thread = 1, grid_rank()
    while True:
        while thread >= threads and k <= n:
            thread -= opaque(threads)  # opaque: a division in disguise, of 64 bits
            k += 1
        if k > n:
            return
        if packets.takes_part(thread, nbytes):
            at, member = packets.chunk_at(thread), other(me, n, k)
            chunks = load_line(source + member * step + at, nbytes - at)
            if k == n:
                store_line(own + at, nbytes - at, chunks)
            else:
                there = slot_at(area, slot, n, call, me, member, member_pe(row, member))
                send_line(there + packets.packet_at(thread), nbytes - at, call, chunks)
        thread += grid_size()


@device_function
def _receive(team, me, n, area, slot, call, only, dest, step, nbytes, op):
    """From each other member m, or ``only`` one, ``nbytes`` to ``dest + m * step``."""
    row, threads = row_of(team), packets.threads_of(nbytes)
    k, thread, waited = 1, grid_rank(), waited_op(team, op)
    end = n if only < 0 else 2
    while True:
        while thread >= threads and k < end:
            thread -= opaque(threads)
            k += 1
        if k >= end:
            return
        if packets.takes_part(thread, nbytes):
            at = packets.chunk_at(thread)
            member = other(me, n, k) if only < 0 else only
            place = slot_of(area, slot, n, call, me, member) + packets.packet_at(thread)
            pe = member_pe(row, member)
            chunks = await_line(place, nbytes - at, call, waited, pe)
            store_line(dest + member * step + at, nbytes - at, chunks)
        thread += grid_size()


def _blocks_with_flags(op: int, own_blocks: bool):
    def blocks(team, me, n, calls, flags, area, slot, dest, source, nbytes):
        if state(ABI) == 0:
            return
        to, begin = address_of(dest), address_of(source)
        step = nbytes if own_blocks else 0
        call = start_call(team, calls, op)
        _send(team, me, n, area, slot, call, begin, step, to + me * nbytes, nbytes)
        _receive(team, me, n, area, slot, call, -1, to, nbytes, nbytes, op)
        end_call(team, calls)

    return blocks


_BROADCAST = OP["broadcast"]


@device_function
def _send_empty(team, me, n, area, slot, call):
    """A packet without data to each other member, so that all know of all: the first block's affair."""
    row, k = row_of(team), thread_in_block() + 1
    while block_index() == 0 and k < n:
        member = other(me, n, k)
        there = slot_at(area, slot, n, call, me, member, member_pe(row, member))
        store_third(there, 0, 0, call)
        k += block_threads()


@device_function
def _await_first_packets(team, me, n, area, slot, call):
    """The first packet of every other member, of the root's data too."""
    row, k = row_of(team), thread_in_block() + 1
    while block_index() == 0 and k < n:
        member = other(me, n, k)
        place = slot_of(area, slot, n, call, me, member)
        await_packet(place, call, waited_op(team, _BROADCAST), member_pe(row, member))
        k += block_threads()


def _broadcast_with_flags():
    def broadcast(team, me, n, calls, flags, area, slot, dest, source, nbytes, root):
        if state(ABI) == 0:
            return
        to = address_of(dest)
        call = start_call(team, calls, _BROADCAST)
        if me == root:
            _send(team, me, n, area, slot, call, address_of(source), 0, to, nbytes)
        else:
            _send_empty(team, me, n, area, slot, call)
            _receive(team, me, n, area, slot, call, root, to, 0, nbytes, _BROADCAST)
        _await_first_packets(team, me, n, area, slot, call)
        end_call(team, calls)

    return broadcast


# ---- many bytes -----------------------------------------------------------------------------------


@device_function
def _spread(team, me, n, first, last, dest, source, step, nbytes):
    """To each of members ``first`` to ``last`` behind the caller, as many bytes of its own.

    A thread's chunks of all members go one behind the other, so the own copy flies with the others.
    """
    row, rank, size = row_of(team), grid_rank(), grid_size()
    whole = nbytes & ~15 if (dest | source | step) & 15 == 0 else 0
    at, pitch = rank << 4, opaque(size << 4)
    while at < whole:
        four, k = at + 3 * pitch < whole, first
        while k <= last:
            member = other(me, n, k)
            to, begin = dest + distance_to(member_pe(row, member)), source + member * step
            if four:
                leaf.copy16x4(to + at, begin + at, pitch)
            else:
                leaf.copy16(to + at, begin + at, pitch)
            k += 1
        at += pitch << 2 if four else pitch
    if whole < nbytes:
        k = first
        while k <= last:
            member = other(me, n, k)
            to, begin = dest + distance_to(member_pe(row, member)), source + member * step
            push(to + whole, begin + whole, nbytes - whole, rank, size)
            k += 1


def _blocks_direct(op: int, own_blocks: bool):
    def blocks(team, me, n, calls, flags, area, slot, dest, source, nbytes):
        if state(ABI) == 0:
            return
        step = nbytes if own_blocks else 0
        call = start_call(team, calls, op)
        sync_blocks(team, me, n, flags, call, 0, op)  # the dests are free
        to = address_of(dest) + me * nbytes
        _spread(team, me, n, 0, n - 1, to, address_of(source), step, nbytes)
        sync_blocks(team, me, n, flags, call, 1, op)  # and filled
        end_call(team, calls)

    return blocks


def _broadcast_direct():
    @device_function
    def in_two_steps(team, me, n, flags, call, dest, source, nbytes, root):
        """The root gives each other member a slice, which that one gives to the rest.

        All is aligned and of 16-byte chunks. A block forwards what the root's same block stored,
        as both share a slice in the same way.
        """
        share = (quotient(nbytes, n - 1) + 15) & ~15
        if me == root:
            _spread(team, me, n, 0, 0, dest, source, 0, nbytes)
            k = 1
            while k < n:
                at = min(nbytes, (k - 1) * share)
                _spread(team, me, n, k, k, dest + at, source + at, 0, min(share, nbytes - at))
                k += 1
        sync_blocks(team, me, n, flags, call, 1, _BROADCAST)
        if me != root:
            k = me - root if me > root else me - root + n
            at = min(nbytes, (k - 1) * share)
            count = min(share, nbytes - at)
            # All but the root, which is n - k behind.
            _spread(team, me, n, 1, n - k - 1, dest + at, dest + at, 0, count)
            _spread(team, me, n, n - k + 1, n - 1, dest + at, dest + at, 0, count)

    def broadcast(team, me, n, calls, flags, area, slot, dest, source, nbytes, root):
        if state(ABI) == 0:
            return
        to, begin = address_of(dest), address_of(source)
        call = start_call(team, calls, _BROADCAST)
        sync_blocks(team, me, n, flags, call, 0, _BROADCAST)
        if n > 2 and (to | begin | nbytes) & 15 == 0:
            in_two_steps(team, me, n, flags, call, to, begin, nbytes, root)
        elif me == root:
            _spread(team, me, n, 0, n - 1, to, begin, 0, nbytes)
        sync_blocks(team, me, n, flags, call, 2, _BROADCAST)
        end_call(team, calls)

    return broadcast


def fcollect(large: bool):
    """The kernel for few or for many bytes."""
    return (_blocks_direct if large else _blocks_with_flags)(OP["fcollect"], False)


def alltoall(large: bool):
    """The same."""
    return (_blocks_direct if large else _blocks_with_flags)(OP["alltoall"], True)


def broadcast(large: bool):
    """The same."""
    return _broadcast_direct() if large else _broadcast_with_flags()
