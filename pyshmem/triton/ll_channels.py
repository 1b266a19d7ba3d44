# SPDX-License-Identifier: BSD-3-Clause
"""Channels: symmetric memory by which programs of a grid exchange tiles, flag in data.

A tile travels as packets of 8 bytes: 4 of data and the number of the call. There are two halves, used
in turn, and no reset: a PE writes a half again two calls later, and by then has had the packets of the
call in between from all others, which they sent after they had read that half.

Large tiles travel as quads, which need three quarters of that: see ``ptx_wide``. What is data in one
form may look like the number of a call in the other, so quads have places of their own, each with its
wide packets first.

Words of a channel: how many programs and how many packets a program has, and how far on the places of
quads are, then from ``_COUNTS`` on the number of calls of each program, then the halves: for each
sender, and once for results, the programs' packets.
"""

from __future__ import annotations

import numpy as np
import triton
import triton.language as tl

from .._core.dtypes import integer
from ..host.job import runtime
from .primitives.backend import (
    await_packet_pairs,
    await_packets,
    await_quads,
    device_function,
    distance_to,
    end_with,
    fixed,
    load_here,
    program_barrier,
    store_quads,
    threads,
)
from .primitives.by_proxy import words_by_proxy
from .primitives.job_constants import all_p2p
from .primitives.ring import own_ring
from .runtime.constants import FAULT_NELEMS, FAULT_PE
from .runtime.context import Wrapped, new_words
from .teams import place_in, team_row, world_pe

__all__ = ["Channel", "channel"]

_PROGRAMS, _PACKETS, _QUADS = tl.constexpr(0), tl.constexpr(1), tl.constexpr(2)
_COUNTS = tl.constexpr(16)
#: Tiles of fewer packets never travel as quads.
_LEAST_QUADS = 4 * 32


class Channel(Wrapped):
    """What ``channel`` makes: an argument of kernels.

    Attributes:
        programs: programs of a grid that may use it.
        nbytes: bytes of the largest tile.
    """

    def __init__(self, programs: int, nbytes: int) -> None:
        packets = (nbytes + 3) // 4 + 15 & -16
        counts = programs + 15 & -16
        halves = 2 * programs * packets
        places = halves * (runtime.current().n_pes + 1)
        forms = 1 if packets < _LEAST_QUADS else 2
        if forms * places >= 1 << 31:
            raise ValueError(f"a channel of {programs} programs and {nbytes} bytes is too large")
        header = [programs, packets, places]
        given = f"{programs} program{'s' * (programs != 1)} of {nbytes} bytes"
        words = new_words(header, _COUNTS.value + counts, forms * halves, given)
        super().__init__(words, True)
        self.programs, self.nbytes = programs, nbytes


def channel(programs: int, nbytes: int) -> Channel:
    """Make what the programs of a grid exchange tiles by. Collective.

    A kernel at a time uses a channel; the programs of all PEs with one number belong together.

    Args:
        programs: programs of the largest grid.
        nbytes: bytes of the largest tile that a program exchanges.

    Returns: an argument of kernels. Its memory, 4 * (n_pes + 1) bytes for each of them, twice as much
        for tiles of 512 bytes and more, is freed as arrays are, when the last reference has gone.
    Raises: HeapExhausted, MismatchError (PEs differ), ValueError, TypeError (no integers),
        OverflowError, NotInitialized.
    Example: ``words = shmem.channel(programs=1, nbytes=1024)``
    Extension.
    """
    programs, nbytes = integer("programs", programs), integer("nbytes", nbytes, np.int64)
    if programs < 1 or nbytes < 1:
        raise ValueError(f"a channel of {programs} programs and {nbytes} bytes: give 1 or more")
    return Channel(programs, nbytes)


@device_function
def begin(words, n_packets: tl.constexpr, team, op: tl.constexpr, ctx, root=None):
    """The program's next call on the channel.

    Returns: its number, uint64; the pointer to the packets of sender 0 in its half; by how many packets
    the places of two senders differ; the row of the team.
    Faults: a tile or a program without a place, of which what the channel has, and the program's
    number have a minus for ``describe_fault``; a ``root`` that is no member: then there was no call.
    """
    row = team_row(team, op, ctx)
    program = tl.program_id(0) + tl.num_programs(0) * (
        tl.program_id(1) + tl.num_programs(1) * tl.program_id(2)
    )
    # Loads that do not wait for each other: all of it is on the way before the first packet is sent.
    # A channel has less than 2**31 words, so 32 bits are enough, and take half the instructions.
    programs, packets = fixed(words + _PROGRAMS).to(tl.int32), fixed(words + _PACKETS).to(tl.int32)
    count = words + _COUNTS + program
    number = tl.load(count, volatile=True) + 1
    mine, n_pes = place_in(team, row, ctx)
    load_here(mine)
    n_pes = n_pes.to(tl.int32)
    if all_p2p():
        load_here(distance_to(0, ctx))
        load_here(distance_to(1, ctx))
    if in_quads(n_packets, threads()):
        load_here(fixed(words + _QUADS))
    no_place = (n_packets > packets) | (program >= programs)
    no_root = False if root is None else (root < 0) | (root >= n_pes)
    if no_place | no_root:
        if n_packets > packets:
            end_with(FAULT_NELEMS, op, n_packets, -packets, ctx)
        elif program >= programs:
            end_with(FAULT_NELEMS, op, -(program + 1), -programs, ctx)
        elif root is not None:
            end_with(FAULT_PE, op, root, n_pes, ctx)
    program_barrier()
    tl.store(count, number)
    step = tl.multiple_of(programs * packets, 16)
    first = (
        ((programs + 15) // 16) * 16
        + (number & 1).to(tl.int32) * (n_pes + 1) * step
        + program * packets
    )
    base = words + tl.multiple_of(_COUNTS + first, 16)
    return number.to(tl.uint64) & 0xFFFFFFFF, base.to(tl.pointer_type(tl.uint64)), step, row


@device_function
def _distance_to(pe, ctx):
    """``distance_to`` a PE. That of the first two is loaded before it is known which is meant."""
    if pe.type.is_block():
        return distance_to(pe, ctx)
    else:
        distance = tl.where(pe == 0, distance_to(0, ctx), distance_to(1, ctx))
        if pe > 1:
            distance = distance_to(pe, ctx)
        return distance


@device_function
def send(base, step, data, number, place, member, team, row, ctx, mask=None):
    """Stores uint32 ``data`` and the call's number to ``member``, at the place of a sender there."""
    pe = world_pe(team, row, member)
    offs = tl.arange(0, data.numel)
    packets = data.to(tl.uint64) | (number << 32)
    if all_p2p():
        distance = (_distance_to(pe, ctx) >> 8) * 32
        tl.store(base + place * step + distance + offs, packets, mask=mask)
    else:
        active = offs >= 0 if mask is None else (offs >= 0) & mask
        words_by_proxy(base + place * step + offs, packets, pe, active, own_ring(ctx), ctx)


@device_function
def receive(base, step, active, number, place, team, row, op: tl.constexpr, ctx):
    """The data of the packets of the sender ``place`` where ``active``, else 0."""
    _, n_pes = place_in(team, row, ctx)
    pe = world_pe(team, row, place, mask=place < n_pes)
    offs = tl.arange(0, active.numel)
    return await_packets(active, base + place * step + offs, number, pe, op, ctx)


@device_function
def receive_pairs(base, step, active, number, place, team, row, op: tl.constexpr, ctx):
    """``receive`` by 16 bytes: ``active`` is of pairs of packets, one element for two."""
    _, n_pes = place_in(team, row, ctx)
    pe = world_pe(team, row, place, mask=place < n_pes)
    offs = 2 * tl.arange(0, active.numel)
    low, high = await_packet_pairs(active, base + place * step + offs, number, pe, op, ctx)
    return tl.reshape(tl.join(low, high), [2 * active.numel])


@triton.constexpr_function
def in_quads(n_packets, threads):
    """Does a tile travel as quads? When each thread has one at least, and the peers are reached."""
    return all_p2p() and n_packets >= 4 * threads


@device_function
def quad_places(words, base, n_packets: tl.constexpr):
    """Where the program has the quads of sender 0: pointers to wide packets, and to those of 8 bytes."""
    wide = base + tl.multiple_of(fixed(words + _QUADS).to(tl.int32), 16)
    offs = tl.arange(0, n_packets // 4)
    return wide + 2 * offs, wide + tl.multiple_of(
        fixed(words + _PACKETS).to(tl.int32) // 2, 8
    ) + offs


@device_function
def _quads_of(data):
    """The words of a tile by their place in a quad."""
    even, odd = tl.split(tl.reshape(data, [data.numel // 4, 2, 2]))
    first, third = tl.split(even)
    second, fourth = tl.split(odd)
    return first, second, third, fourth


@device_function
def send_quads(words, base, step, data, number, place, member, team, row, ctx, mask=None):
    """``send`` in quads; ``member`` and ``mask`` are one for all, or for each quad."""
    pe = world_pe(team, row, member)
    wide, narrow = quad_places(words, base, data.numel)
    distance = place * step + (_distance_to(pe, ctx) >> 8) * 32
    first, second, third, fourth = _quads_of(data)
    active = tl.full([data.numel // 4], 1, tl.int32)
    if mask is not None:
        active = mask.to(tl.int32)
    store_quads(active, wide + distance, narrow + distance, first, second, third, fourth, number)


@device_function
def receive_quads(words, base, step, active, number, place, team, row, op: tl.constexpr, ctx):
    """``receive`` in quads: ``active`` has an element for each."""
    _, n_pes = place_in(team, row, ctx)
    pe = world_pe(team, row, place, mask=place < n_pes)
    wide, narrow = quad_places(words, base, 4 * active.numel)
    first, second, third, fourth = await_quads(
        active, wide + place * step, narrow + place * step, number, pe, op, ctx
    )
    pairs = tl.join(tl.join(first, third), tl.join(second, fourth))
    return tl.reshape(pairs, [4 * active.numel])


@device_function
def to_packets(flat):
    """A flat tile as uint32: two elements of 16 bits each, or two for an element of 64."""
    bits: tl.constexpr = flat.dtype.primitive_bitwidth
    if bits == 64:
        wide = flat.to(tl.uint64, bitcast=True)
        pairs = tl.join((wide & 0xFFFFFFFF).to(tl.uint32), (wide >> 32).to(tl.uint32))
        return tl.reshape(pairs, [2 * flat.numel])
    elif bits == 32:
        return flat.to(tl.uint32, bitcast=True)
    elif bits == 16:
        narrow = flat.to(tl.uint16, bitcast=True)
        if flat.numel == 1:
            return narrow.to(tl.uint32)
        else:
            low, high = tl.split(tl.reshape(narrow, [flat.numel // 2, 2]))
            return low.to(tl.uint32) | (high.to(tl.uint32) << 16)
    elif bits == 8:
        return flat.to(tl.uint8, bitcast=True).to(tl.uint32)
    else:
        return flat.to(tl.uint32)


@device_function
def from_packets(packets, like):
    """The other way round: a flat tile of the dtype and the size of ``like``."""
    bits: tl.constexpr = like.dtype.primitive_bitwidth
    if bits == 64:
        low, high = tl.split(tl.reshape(packets, [like.numel, 2]))
        return (low.to(tl.uint64) | (high.to(tl.uint64) << 32)).to(like.dtype, bitcast=True)
    elif bits == 32:
        return packets.to(like.dtype, bitcast=True)
    elif bits == 16:
        if like.numel == 1:
            return packets.to(tl.uint16).to(like.dtype, bitcast=True)
        else:
            pairs = tl.join((packets & 0xFFFF).to(tl.uint16), (packets >> 16).to(tl.uint16))
            return tl.reshape(pairs, [like.numel]).to(like.dtype, bitcast=True)
    elif bits == 8:
        return packets.to(tl.uint8).to(like.dtype, bitcast=True)
    else:
        return packets.to(like.dtype)
