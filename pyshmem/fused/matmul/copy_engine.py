# SPDX-License-Identifier: BSD-3-Clause
"""Matrix products beside copy engines: what is here is multiplied while the rest is on its way.

A call asks for its stream once, and what does not depend on addresses of its tensors is planned once:
many such calls take the GPU less time than the host needs to look around.
"""

from __future__ import annotations

import itertools
from typing import Any, NamedTuple

import torch

from ..._torch.launches import current_stream
from .._shared.copy_engine import CHUNKS, CopyChannel, SideStream, settle, side_stream
from .._shared.workspace import device_heap_is_p2p
from .arguments import Problem
from .copy_engine_of_two import adds_in_place, scatter_by_pair
from .local import (
    Loan,
    chunks_of,
    cuts,
    finish,
    layout_of,
    loan,
    multiply,
    rows_of_scale,
)


def why_no_engine(p: Problem) -> str | None:
    """Why copy engines cannot do a call, or None."""
    if not device_heap_is_p2p():
        return "copies and words of a stream do not reach all peers (PYSHMEM_P2P=0, or other hosts)"
    return layout_of(p)


# ---- all_gather_matmul -----------------------------------------------------------------------------


def shard_channel(p: Problem) -> tuple[CopyChannel, int]:
    """The channel by which shards of x come, and where in a slot their scales are."""
    nbytes = max(p.rows) * p.k * p.x.dtype.itemsize
    scales_at = -(-nbytes // 256) * 256
    size = 0 if p.scale_x is None else p.scale_x.itemsize
    return CopyChannel(
        p.space, "matmul shards", scales_at + size * p.n_scales(max(p.rows))
    ), scales_at


def send_shard(
    p: Problem,
    channel: CopyChannel,
    scales_at: int,
    member: int,
    bounds: list[int],
    stream: int | None,
) -> None:
    """The caller's shard to a member, a word for each chunk between ``bounds``; scales come first."""
    channel.claim(member, stream)
    if p.scale_x is not None:
        scales = p.scale_x.data_ptr(), p.scale_x.nbytes
        channel.send(member, scales_at, *scales, 0, stream, last=False)
    width, x = p.k * p.x.dtype.itemsize, p.x.data_ptr()
    for chunk, (begin, end) in enumerate(itertools.pairwise(bounds)):
        at = begin * width
        channel.send(member, at, x + at, (end - begin) * width, chunk, stream)


def _gather_loan(p: Problem, channel: CopyChannel) -> Loan:
    """Which own rows are multiplied with a neighbour's, whose slot is beside the own."""
    me, width = p.space.me, p.k * p.x.dtype.itemsize
    found = loan(p, me + 1 if me + 1 < p.space.n_pes else me - 1)
    if p.scale_x is None and {count * width for count in p.rows} == {channel.slot}:
        return found
    return Loan(found.member, p.rows_of(me), p.rows_of(found.member))


def shard_of(
    p: Problem, channel: CopyChannel, scales_at: int, member: int
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """A member's shard, and its scales, as they lie here."""
    rows = p.rows[member]
    shard = channel.view(member, slice(0, rows), p.k, p.x.dtype)
    if p.scale_x is None:
        return shard, None
    nbytes = p.scale_x.itemsize * p.n_scales(rows)
    return shard, channel.bytes_of(member)[scales_at : scales_at + nbytes].view(p.scale_x.dtype)


class _Gather(NamedTuple):
    """What all calls of a shape do."""

    channel: CopyChannel
    scales_at: int
    others: tuple[int, ...]  # whom the receiver waits for first sends first
    own: slice  # rows of the whole
    rest: slice  # of the whole, which are multiplied before anything comes
    rest_here: slice  # the same as rows of the own shard
    lent: slice | None  # rows of the own shard that are multiplied with a neighbour's
    place: Any  # for these
    came: tuple[tuple[int, slice, Any, Any, slice, Any], ...]  # see _came()


def _plan_gather(p: Problem) -> _Gather:
    me, n_pes = p.space.me, p.space.n_pes
    channel, scales_at = shard_channel(p)
    own, lent = p.rows_of(me), _gather_loan(p, channel)
    rows = slice(max(lent.joint.start, own.start), min(lent.joint.stop, own.stop))
    here, place = None, None
    if rows.start < rows.stop:
        here = slice(rows.start - own.start, rows.stop - own.start)
        place = channel.view(me, here, p.k, p.x.dtype)
    others = tuple((me + k) % n_pes for k in range(1, n_pes))
    return _Gather(
        channel, scales_at, others, own, lent.rest,
        slice(lent.rest.start - own.start, lent.rest.stop - own.start), here, place,
        tuple(_came(p, channel, scales_at, lent, member) for member in others),
    )  # fmt: skip


def _came(p: Problem, channel: CopyChannel, scales_at: int, lent: Loan, member: int) -> Any:
    """The member, its rows of the whole, its shard and scales; rows that are multiplied, and they."""
    shard, scales = shard_of(p, channel, scales_at, member)
    rows, width = p.rows_of(member), p.k * p.x.dtype.itemsize
    if member != lent.member:
        return member, rows, shard, scales, rows, shard
    count = lent.joint.stop - lent.joint.start
    given = count - p.rows[member]
    begin = member * channel.slot - (given * width if member > p.space.me else 0)
    joint = channel.block[begin : begin + count * width].view(p.x.dtype).view(count, p.k)
    return member, rows, shard, scales, lent.joint, joint


def gather_by_engine(p: Problem, out: torch.Tensor, gathered: torch.Tensor | None) -> None:
    """Copy engines bring the others' shards while the own one is multiplied."""
    plan: _Gather = p.plan("gather by engine", lambda: _plan_gather(p))
    channel, stream, side = plan.channel, current_stream(), side_stream(p.x.device)
    side.fork(stream)
    for member in reversed(plan.others):
        send_shard(p, channel, plan.scales_at, member, [0, p.rows[p.space.me]], side.handle)
    taken = 0
    try:
        if plan.rest == plan.own:
            multiply(p, out[plan.own], p.x, p.scale_x, whole=True)
        else:
            scales = rows_of_scale(p, plan.rest_here)
            multiply(p, out[plan.rest], p.x[plan.rest_here], scales, whole=True)
        if gathered is not None:
            gathered[plan.own].copy_(p.x)
        if plan.lent is not None:
            plan.place.copy_(p.x[plan.lent])
        for member, rows, shard, scales, together, x in plan.came:
            channel.arrived(member, 0, stream)
            taken += 1
            multiply(p, out[together], x, scales, whole=True)
            if gathered is not None:
                gathered[rows].copy_(shard)
    except Exception as error:
        settle(error, lambda: _end_gather(plan, plan.others[taken:], stream, side))
        raise
    _end_gather(plan, (), stream, side)


def _end_gather(plan: _Gather, left: tuple[int, ...], stream: int | None, side: SideStream) -> None:
    """What ``left`` send is not used; the members may send again."""
    for member in left:
        plan.channel.arrived(member, 0, stream)
    for member in plan.others:  # at the end: a call of another size has its slots elsewhere
        plan.channel.release(member, stream)
    side.join(stream)


# ---- matmul_reduce_scatter, matmul_all_reduce ------------------------------------------------------


class _Scatter(NamedTuple):
    """What all calls of a shape do."""

    parts: CopyChannel
    results: CopyChannel | None
    others: tuple[int, ...]
    bounds: tuple[int, ...]  # of the chunks of each owner's rows
    sizes: list[int]  # of the chunks of all owners, in the order of rows
    at: tuple[int, ...]  # which chunk is an owner's first
    lent: Loan | None


def _plan_scatter(p: Problem) -> _Scatter:
    me, n_pes = p.space.me, p.space.n_pes
    bounds, nbytes = chunks_of(p), max(p.rows) * p.n * p.out_dtype.itemsize
    assert len(bounds) <= CHUNKS
    parts = CopyChannel(p.space, "matmul parts", nbytes)
    results = None
    if p.operation == "matmul_all_reduce":
        results = CopyChannel(p.space, "matmul results", nbytes)
    others = tuple((me + k) % n_pes for k in range(1, n_pes))
    chunks = [cuts(rows, bounds) for rows in p.rows]
    at = tuple(itertools.accumulate((len(each) for each in chunks[:-1]), initial=0))
    sizes = [end - begin for each in chunks for begin, end in each]
    lent = loan(p, me - 1 if me else 1) if len(bounds) == 2 else None
    return _Scatter(parts, results, others, bounds, sizes, at, lent)


class _Done:
    """How far a call has come, in chunks: what an error leaves to be settled.

    Attributes:
        sent: chunks of all the others' rows, in their order.
        claimed: whether there is room for results.
        added, told, fetched: chunks of the own rows that have come, of which the others were told, and
            whose like has come from them.
    """

    def __init__(self) -> None:
        self.sent = self.added = self.told = self.fetched = 0
        self.claimed = False


def scatter_by_engine(p: Problem, out: torch.Tensor) -> None:
    """The others' rows are multiplied first and go by copy engines while the own ones are."""
    if adds_in_place(p):
        scatter_by_pair(p, out)
        return
    plan: _Scatter = p.plan("scatter by engine", lambda: _plan_scatter(p))
    stream, side, done = current_stream(), side_stream(p.x.device), _Done()
    try:
        product = torch.empty((p.n_rows, p.n), dtype=p.out_dtype, device=p.x.device)
        _send_products(p, plan, product, stream, done)
        _sum_products(p, plan, out, product, stream, done)
    except Exception as error:
        settle(error, lambda: _settle_scatter(plan, done, stream, side))
        raise
    _end_scatter(plan, stream, side)


def _settle_scatter(plan: _Scatter, done: _Done, stream: int | None, side: SideStream) -> None:
    """All is sent before anything is waited for."""
    n, parts, results, on = len(plan.bounds) - 1, plan.parts, plan.results, side.handle
    side.fork(stream)
    parts.fill_with_nan(on)
    for number, owner in enumerate(plan.others):
        first = min(max(done.sent - number * n, 0), n)
        if first == 0:
            parts.claim(owner, on)
        if first < n:
            parts.spoil(owner, range(first, n), on)
    if results is not None:
        if not done.claimed:
            for member in plan.others:
                results.claim(member, on)
        results.fill_with_nan(on)
        for chunk, member in itertools.product(range(done.told, n), plan.others):
            results.announce(member, chunk, on)
    for chunk, member in itertools.product(range(done.added, n), plan.others):
        parts.arrived(member, chunk, on)
    if results is not None:
        for chunk, member in itertools.product(range(done.fetched, n), plan.others):
            results.arrived(member, chunk, on)
    _end_scatter(plan, stream, side)


def _end_scatter(plan: _Scatter, stream: int | None, side: SideStream) -> None:
    for member in plan.others:
        plan.parts.release(member, side.handle)
        if plan.results is not None:
            plan.results.release(member, side.handle)
    side.join(stream)


def _multiply_rows(p: Problem, product: torch.Tensor, rows: slice) -> None:
    multiply(p, product[rows], p.x[rows], rows_of_scale(p, rows), whole=False)


def _send_products(
    p: Problem, plan: _Scatter, product: torch.Tensor, stream: int | None, done: _Done
) -> None:
    """The others' rows, chunk by chunk; where these are not cut, some own ones are multiplied along."""
    side, width = side_stream(p.x.device), p.n * p.out_dtype.itemsize
    xs = p.x.split(plan.sizes)
    for owner in plan.others:
        first = p.rows_of(owner).start
        for chunk, (begin, end) in enumerate(cuts(p.rows[owner], plan.bounds)):
            rows = slice(first + begin, first + end)
            if plan.lent is not None and owner == plan.lent.member:
                _multiply_rows(p, product, plan.lent.joint)
            else:
                scales = rows_of_scale(p, rows)
                multiply(p, product[rows], xs[plan.at[owner] + chunk], scales, whole=False)
            side.fork(stream)
            if chunk == 0:
                plan.parts.claim(owner, side.handle)
            made = product.data_ptr() + rows.start * width, (end - begin) * width
            plan.parts.send(owner, begin * width, *made, chunk, side.handle)
            done.sent += 1


def _sum_products(
    p: Problem, plan: _Scatter, out: torch.Tensor, product: torch.Tensor, stream: int | None,
    done: _Done,
) -> None:  # fmt: skip
    """The own rows, and their sums as they come; matmul_all_reduce fetches the other owners' sums."""
    side, results, own = side_stream(p.x.device), plan.results, p.rows_of(p.space.me)
    if results is not None:
        for member in plan.others:
            results.claim(member, side.handle)
        done.claimed = True
    for chunk, cut in enumerate(cuts(p.rows[p.space.me], plan.bounds)):
        rows = slice(own.start + cut[0], own.start + cut[1])
        _multiply_rows(p, product, rows if plan.lent is None else plan.lent.rest)
        side.fork(stream)
        _sum_chunk(p, plan, out if results is None else out[rows], product[rows], chunk, cut, done)
        if results is not None:
            _fetch_chunk(p, plan, out, chunk)
            done.fetched += 1


def _sum_chunk(
    p: Problem, plan: _Scatter, place: torch.Tensor, own: torch.Tensor, chunk: int,
    cut: tuple[int, int], done: _Done,
) -> None:  # fmt: skip
    """Add up a chunk of the own rows when all have sent it, and tell the others of the result."""
    parts, results, stream = plan.parts, plan.results, side_stream(p.x.device).handle
    for member in sorted(plan.others):
        parts.arrived(member, chunk, stream)
    done.added += 1
    first = parts.view(0, slice(*cut), p.n, p.out_dtype)
    copy = None if results is None else results.view(p.space.me, slice(*cut), p.n, p.out_dtype)
    finish(
        place, first, p.space.n_pes, parts.slot // p.out_dtype.itemsize, second=copy, bias=p.bias,
        activation=p.activation, own=own, me=p.space.me, stream=stream,
    )  # fmt: skip
    if results is not None:
        for member in plan.others:
            results.announce(member, chunk, stream)
        done.told += 1


def _fetch_chunk(p: Problem, plan: _Scatter, out: torch.Tensor, chunk: int) -> None:
    """A chunk of the other owners' results into ``out``, by a copy engine."""
    results, stream, width = (
        plan.results,
        side_stream(p.x.device).handle,
        p.n * p.out_dtype.itemsize,
    )
    assert results is not None
    for owner in plan.others:
        begin, end = cuts(p.rows[owner], plan.bounds)[chunk]
        to = out.data_ptr() + (p.rows_of(owner).start + begin) * width
        results.arrived(owner, chunk, stream)
        results.fetch(owner, owner, begin * width, to, (end - begin) * width, stream)
