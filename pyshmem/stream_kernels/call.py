# SPDX-License-Identifier: BSD-3-Clause
"""What the blocks of a collective on a stream share: the number of the call, and waits for the peers.

The host passes the words of the team's slot as arguments (``native/src/device/stream_areas.h``), so that
nothing has to be loaded before the work: ``me`` and ``n``, the team's PE and size; ``calls``, the
address of the call counter; ``flags`` and ``area``, where its packets go, symmetric memory of the slot;
``slot``, bytes.

Blocks of a PE do not wait for each other. Kernels of one channel run one after the other, so the end of
a kernel is where all of its blocks have been, and its begin where they start from one number. A call is
numbered by a counter in the PE's own memory: each block reads it, and adds its share when it has done
its work. The shares of a grid make 1 << SHIFT together, whatever its size, so the number of finished
calls is the counter's upper part while any block is still to come, and grids may differ from call to
call; a captured launch counts like any other.
"""

from ..device import state as words
from ..device.faults import ROUTINE_BITS
from ..device.leaf.backend import (
    add64,
    block_index,
    block_sync,
    block_threads,
    device_function,
    grid_blocks,
    read64,
    signal_release_set,
    state,
    thread_in_block,
)
from ..device.peers import distance_to
from ..device.state import TEAMS
from ..device.team.rows import claim_row, member_pe
from ..device.wait_loop import reached_soon, wait_word

#: Of the counter: below are the shares of the running call's blocks, fewer than 1 << SHIFT.
SHIFT = 16
#: A block's flags hold the number of the call and, in the lowest bits, of the wait in it.
SYNCS_SHIFT = 2


@device_function
def row_of(team: int) -> int:
    """The row of the team's slot, which the host has checked."""
    return state(TEAMS) + 8 * words.DEVICE_TEAM_WORDS * team


@device_function
def waited_op(team: int, op: int) -> int:
    """``op`` as waits report it: with the team's slot."""
    return op | (team + 1) << ROUTINE_BITS


@device_function
def start_call(team: int, calls: int, op: int) -> int:
    """The number of this call, from 1."""
    if block_index() == 0 and thread_in_block() == 0:
        claim_row(row_of(team), op)
    return (read64(calls) >> SHIFT) + 1


@device_function
def end_call(team: int, calls: int) -> None:
    """The block has done its work: none of its threads reads the counter again."""
    block_sync()
    if thread_in_block() == 0:
        share = 1
        if block_index() == 0:
            share = (1 << SHIFT) - grid_blocks() + 1
            claim_row(row_of(team), -1)
        add64(calls, share)


@device_function
def grid_rank() -> int:
    """Index of the thread among those of all blocks."""
    return block_index() * block_threads() + thread_in_block()


@device_function
def grid_size() -> int:
    """Threads of all blocks."""
    return grid_blocks() * block_threads()


@device_function
def other(me: int, n: int, k: int) -> int:
    """The member ``k`` behind ``me``, so that no one is everybody's first."""
    member = me + k
    if member >= n:
        member -= n
    return member


@device_function
def sync_blocks(team: int, me: int, n: int, flags: int, call: int, turn: int, op: int) -> None:
    """All threads of the block: until the same block of every member is here.

    What the block has stored is released, and what the others' blocks have is acquired: thread k
    releases for all threads in front of the barrier, and all behind the second one see what it
    acquired. ``turn``: number of the wait in this call, 0 to 3. Flags only rise, so that a block of
    another grid, or a member that is ahead, does no harm.
    """
    block_sync()
    row, value = row_of(team), (call << SYNCS_SHIFT) + turn
    place = flags + block_index() * ((8 * n + 63) & ~63)
    k = thread_in_block() + 1
    while k < n:
        to = place + 8 * me + distance_to(member_pe(row, other(me, n, k)))
        signal_release_set(to, value)
        k += block_threads()
    k = thread_in_block() + 1
    while k < n:
        member = other(me, n, k)
        if not reached_soon(place + 8 * member, value):
            wait_word(place + 8 * member, value, waited_op(team, op), member_pe(row, member))
        k += block_threads()
    block_sync()
