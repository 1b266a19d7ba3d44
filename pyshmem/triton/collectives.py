# SPDX-License-Identifier: BSD-3-Clause
"""Collectives of tiles: the programs of one number on all PEs of a team exchange what they hold.

Tiles are in registers, or where a tensor of pointers says. ``words`` is a ``channel``; all members call
the same routines on it in the same order. Reductions combine in PE order, so that all get the same bits,
and 16-bit floats in float32.
"""

import triton
import triton.language as tl

from .ll_channels import (
    begin,
    from_packets,
    in_quads,
    receive,
    receive_pairs,
    receive_quads,
    send,
    send_quads,
    to_packets,
)
from .ordering import barrier_grid
from .primitives.backend import (
    device_function,
    distance_to,
    fence_all,
    poll,
    program_barrier,
    set_words,
    threads,
)
from .primitives.by_proxy import words_by_proxy
from .primitives.job_constants import all_p2p
from .primitives.ring import own_ring, settle, to_int64
from .runtime.constants import (
    ALL_REDUCE,
    ALLTOALL,
    BROADCAST,
    CMP_EQ,
    FCOLLECT,
    MAX_PES,
    TEAM_WORLD,
)
from .teams import place_in, team_row, world_pe
from .tile import load_from, store_to

__all__ = ["all_reduce", "all_reduce_grid", "alltoall", "broadcast", "fcollect"]

_SUM = tl.constexpr("sum")


@device_function
def behind(mine, k, n_pes):
    """The member ``k``, less than ``n_pes``, behind the caller: a division would take longer."""
    return tl.where(mine + k < n_pes, mine + k, mine + k - n_pes)


@device_function
def _place_in(team, row, ctx):
    """``place_in`` in 32 bits, which take fewer instructions before the first packet is sent."""
    mine, n_pes = place_in(team, row, ctx)
    return mine.to(tl.int32), n_pes.to(tl.int32)


@triton.constexpr_function
def _is_op(op, dtype):
    """Refuses what there is not, and what a dtype does not have: bools add up to no bool."""
    if op not in ("sum", "prod", "min", "max", "and", "or", "xor"):
        raise ValueError(f"op is {op!r}; it is sum, prod, min, max, and, or or xor")
    if op in ("sum", "prod") and dtype.primitive_bitwidth == 1:
        raise TypeError(f"{op} is of numbers, not of bool: take and, or, xor, min or max")
    if op in ("and", "or", "xor") and dtype.is_floating():
        raise TypeError(f"{op} is of integers and bool, not of {dtype}")
    return True


@device_function
def _combine(a, b, op: tl.constexpr):
    if op == "sum":
        return a + b
    elif op == "prod":
        return a * b
    elif op == "min":
        return tl.minimum(a, b)
    elif op == "max":
        return tl.maximum(a, b)
    elif op == "and":
        return a & b
    elif op == "or":
        return a | b
    else:
        return a ^ b


@device_function
def _widen(value):
    """In which dtype elements are combined."""
    if value.dtype.is_floating() and value.dtype.primitive_bitwidth < 32:
        return value.to(tl.float32)
    else:
        return value


@device_function
def _groups(n_packets: tl.constexpr):
    """A lane for each group of packets that travel together: quads, else packets."""
    return tl.arange(0, n_packets // 4 if in_quads(n_packets, threads()) else n_packets)


@device_function
def _owner(group, n_packets: tl.constexpr, n_pes):
    """Whose share a group is. The two packets of a pair are one's."""
    if in_quads(n_packets, threads()):
        return group * n_pes // (n_packets // 4)
    else:
        return group // 2 * 2 * n_pes // n_packets


@device_function
def _chosen(group, which: tl.constexpr, n_packets: tl.constexpr, mine, n_pes):
    if which == "all":
        return group >= 0
    elif which == "own":
        return _owner(group, n_packets, n_pes) == mine
    else:
        return _owner(group, n_packets, n_pes) != mine


@device_function
def _send(words, base, step, data, number, place, member, team, row, ctx, mask=None):
    """A tile's packets to a member, or by groups to one each, in the form that fits their number."""
    if in_quads(data.numel, threads()):
        send_quads(words, base, step, data, number, place, member, team, row, ctx, mask)
    else:
        send(base, step, data, number, place, member, team, row, ctx, mask)


@device_function
def _receive(
    words, base, step, which: tl.constexpr, n_packets: tl.constexpr, number, place, team, row, ctx
):  # fmt: skip
    """The packets of the sender ``place``: all, those of the own share, or the others."""
    mine, n_pes = _place_in(team, row, ctx)
    groups = _groups(n_packets)
    if in_quads(n_packets, threads()):
        active = _chosen(groups, which, n_packets, mine, n_pes)
        return receive_quads(words, base, step, active, number, place, team, row, ALL_REDUCE, ctx)
    elif n_packets >= 2 * threads():
        pairs = 2 * tl.arange(0, n_packets // 2)
        active = _chosen(pairs, which, n_packets, mine, n_pes)
        return receive_pairs(base, step, active, number, place, team, row, ALL_REDUCE, ctx)
    else:
        active = _chosen(groups, which, n_packets, mine, n_pes)
        return receive(base, step, active, number, place, team, row, ALL_REDUCE, ctx)


@device_function
def _combine_members(
    words, base, step, data, which: tl.constexpr, number, team, row, flat, op: tl.constexpr, ctx
):
    """What all members hold, combined in their order; ``data`` is the own."""
    mine, n_pes = _place_in(team, row, ctx)
    size: tl.constexpr = data.numel
    total = _widen(flat)
    for member in range(n_pes):
        value = data
        if member != mine:
            value = _receive(words, base, step, which, size, number, member, team, row, ctx)
        wide = _widen(from_packets(value, flat))
        if member == 0:
            total = wide
        else:
            total = _combine(total, wide, op)
    return total.to(flat.dtype)


@device_function
def all_reduce(
    value, words, ctx, op: tl.constexpr = _SUM, team=TEAM_WORLD, two_shots: tl.constexpr = False
):
    """The tiles ``value`` of all members combined, on all of them, in registers.

    Args:
        value: tile of at most the channel's bytes, of any dtype; a power of two of elements. From four
            words a thread on 24 bytes travel for 16, below 32.
        words: channel.
        op: "sum", "prod", "min", "max", "and", "or", "xor".
        team: number of a team.
        two_shots: each member combines its share and sends that on: less to send from three PEs on,
            one way more.

    Faults: a tile or a program that the channel has no place for, a wait that takes too long.
    Example: ``total = shmem.all_reduce(tl.load(source + offs), words, ctx, op="sum")``
    Spec: shmem_sum_reduce and its kin.
    """
    tl.static_assert(value.type.is_block(), "all_reduce is of tiles, not of scalars")
    tl.static_assert(_is_op(op, value.dtype))
    flat = tl.reshape(value, [value.numel])
    data = to_packets(flat)
    size: tl.constexpr = data.numel
    number, base, step, row = begin(words, size, team, ALL_REDUCE, ctx)
    mine, n_pes = _place_in(team, row, ctx)
    if two_shots:
        groups = _groups(size)
        owner = _owner(groups, size, n_pes)
        per_group: tl.constexpr = size // groups.numel
        own = _owner(tl.arange(0, size) // per_group, size, n_pes) == mine
        mask = owner != mine
        _send(words, base, step, data, number, mine, owner, team, row, ctx, mask)
        total = _combine_members(words, base, step, data, "own", number, team, row, flat, op, ctx)
        result = to_packets(total)
        for k in range(1, n_pes):
            member = behind(mine, k, n_pes)
            _send(words, base, step, result, number, n_pes, member, team, row, ctx, owner == mine)
        got = _receive(words, base, step, "others", size, number, n_pes, team, row, ctx)
        return tl.reshape(from_packets(tl.where(own, result, got), flat), value.shape)
    else:
        for k in range(1, n_pes):
            member = behind(mine, k, n_pes)
            _send(words, base, step, data, number, mine, member, team, row, ctx)
        total = _combine_members(words, base, step, data, "all", number, team, row, flat, op, ctx)
        return tl.reshape(total, value.shape)


@device_function
def broadcast(value, root, words, ctx, team=TEAM_WORLD):
    """The tile ``value`` of member ``root``, on all members, in registers.

    Faults: as ``all_reduce``, and a ``root`` that is no member.
    Example: ``value = shmem.broadcast(tl.load(source + offs), 0, words, ctx)``
    Spec: shmem_broadcast.
    """
    tl.static_assert(value.type.is_block(), "broadcast is of tiles, not of scalars")
    flat = tl.reshape(value, [value.numel])
    data = to_packets(flat)
    number, base, step, row = begin(words, data.numel, team, BROADCAST, ctx, root)
    mine, n_pes = place_in(team, row, ctx)
    offs = tl.arange(0, data.numel)
    if mine == root:
        # A packet of each says that it has read what the root sent two calls ago.
        for k in range(1, n_pes):
            receive(
                base, step, offs == 0, number, behind(mine, k, n_pes), team, row, BROADCAST, ctx
            )
        for k in range(1, n_pes):
            send(base, step, data, number, mine, behind(mine, k, n_pes), team, row, ctx)
    else:
        send(base, step, data, number, mine, root, team, row, ctx, mask=offs == 0)
    got = receive(base, step, (offs >= 0) & (mine != root), number, root, team, row, BROADCAST, ctx)
    return tl.reshape(from_packets(tl.where(mine == root, data, got), flat), value.shape)


@device_function
def fcollect(dest, value, stride, words, ctx, mask=None, team=TEAM_WORLD):
    """Store the tiles ``value`` of all members, one behind the other.

    Args:
        dest: tensor of pointers of the caller's own, of the shape of ``value``: where member 0's goes.
        stride: elements from there to the tile of the next member.

    Example: ``shmem.fcollect(dest + offs, tl.load(source + offs), BLOCK, words, ctx)``
    Spec: shmem_fcollect.
    """
    tl.static_assert(value.type.is_block(), "fcollect is of tiles, not of scalars")
    flat = tl.reshape(value, [value.numel])
    data = to_packets(flat)
    number, base, step, row = begin(words, data.numel, team, FCOLLECT, ctx)
    mine, n_pes = place_in(team, row, ctx)
    for k in range(1, n_pes):
        send(base, step, data, number, mine, behind(mine, k, n_pes), team, row, ctx)
    offs = tl.arange(0, data.numel)
    for member in range(n_pes):
        got = receive(
            base, step, (offs >= 0) & (mine != member), number, member, team, row, FCOLLECT, ctx
        )
        tile = tl.reshape(from_packets(tl.where(mine == member, data, got), flat), value.shape)
        tl.store(dest + to_int64(member) * stride, tile, mask=mask)


@device_function
def alltoall(dest, source, stride, words, ctx, mask=None, team=TEAM_WORLD):
    """Send a tile to each member, and store theirs one behind the other.

    Args:
        dest, source: tensors of pointers of the caller's own: where the tile of, and for, member 0 is.
        stride: elements from there to that of the next member.

    Example: ``shmem.alltoall(dest + offs, source + offs, BLOCK, words, ctx)``
    Spec: shmem_alltoall.
    """
    tl.static_assert(source.type.is_block(), "alltoall is of tiles, not of scalars")
    flat = tl.reshape(tl.load(source, mask=mask), [source.numel])
    number, base, step, row = begin(words, to_packets(flat).numel, team, ALLTOALL, ctx)
    mine, n_pes = place_in(team, row, ctx)
    for k in range(1, n_pes):
        member = behind(mine, k, n_pes)
        tile = tl.reshape(tl.load(source + to_int64(member) * stride, mask=mask), [source.numel])
        send(base, step, to_packets(tile), number, mine, member, team, row, ctx)
    own = to_packets(
        tl.reshape(tl.load(source + to_int64(mine) * stride, mask=mask), [source.numel])
    )
    offs = tl.arange(0, own.numel)
    for member in range(n_pes):
        got = receive(
            base, step, (offs >= 0) & (mine != member), number, member, team, row, ALLTOALL, ctx
        )
        tile = tl.reshape(from_packets(tl.where(mine == member, own, got), flat), source.shape)
        tl.store(dest + to_int64(member) * stride, tile, mask=mask)


@device_function
def _sync_members(words, team, ctx):
    """The members' programs of the caller's number meet, as at a barrier: a call on the channel.

    What a program of another number has stored is not seen: a kernel's end makes it so, for by then all
    programs have met their like.
    """
    number, base, step, row = begin(words, 1, team, ALL_REDUCE, ctx)
    mine, n_pes = place_in(team, row, ctx)
    indices = tl.arange(0, MAX_PES)
    others = (indices < n_pes) & (indices != mine)
    pes = world_pe(team, row, indices, mask=others)
    flags, packet = base.to(tl.pointer_type(tl.int64), bitcast=True), (number << 32).to(tl.int64)
    if all_p2p():
        remote = flags + mine * step + (distance_to(tl.where(others, pes, 0), ctx) >> 8) * 32
        set_words(others.to(tl.int32), remote, packet)
    else:
        settle(ctx)
        fence_all()
        words_by_proxy(flags + mine * step, packet, pes, others, own_ring(ctx), ctx)
    poll(others.to(tl.int32), flags + indices * step, CMP_EQ, packet, pes, ALL_REDUCE, ctx)
    program_barrier()


@device_function
def all_reduce_grid(
    dest, source, nelems, ctx, BLOCK: tl.constexpr, op: tl.constexpr = _SUM, team=TEAM_WORLD, words=None
):  # fmt: skip
    """Combine ``nelems`` elements of all members, two shots, by the programs of whole grids.

    Each member loads its share from all others and stores the result to all: for messages that are
    limited by bandwidth. The grids have to be resident as a whole and of one size on all members.

    Args:
        dest, source: scalar pointers to the device heap; ``dest`` may be ``source``.
        BLOCK: elements that a program takes at a time.
        words: channel of as many programs, of any size: the programs of one number then meet by it, and
            not the grids, which takes half as long.

    Example: ``shmem.all_reduce_grid(dest, source, 4 * BLOCK, ctx, BLOCK, op="max")``
    Spec: shmem_sum_reduce and its kin.
    """
    tl.static_assert(not dest.type.is_block(), "dest is a scalar pointer: offsets are added here")
    tl.static_assert(
        not source.type.is_block(), "source is a scalar pointer: offsets are added here"
    )
    tl.static_assert(_is_op(op, dest.dtype.element_ty))
    row = team_row(team, ALL_REDUCE, ctx)
    mine, n_pes = place_in(team, row, ctx)
    if words is None:
        barrier_grid(ctx, team)
    else:
        _sync_members(words, team, ctx)
    blocks = tl.cdiv(nelems, BLOCK)
    last = blocks * (mine + 1) // n_pes
    block = blocks * mine // n_pes + tl.program_id(0)
    while block < last:
        offs = block.to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
        inside = offs < nelems
        first = world_pe(team, row, 0)
        total = _widen(load_from(source + offs, first, ALL_REDUCE, ctx, inside))
        for member in range(1, n_pes):
            pe = world_pe(team, row, member)
            tile = load_from(source + offs, pe, ALL_REDUCE, ctx, inside)
            total = _combine(total, _widen(tile), op)
        for k in range(n_pes):
            pe = world_pe(team, row, behind(mine, k, n_pes))
            result = total.to(dest.dtype.element_ty)
            store_to(dest + offs, result, pe, ALL_REDUCE, ctx, inside)
        block += tl.num_programs(0)
    if words is None:
        barrier_grid(ctx, team)
    else:
        _sync_members(words, team, ctx)
