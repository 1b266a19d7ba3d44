# SPDX-License-Identifier: BSD-3-Clause
"""Matrix products beside copy engines: what is here is multiplied while the rest is on its way."""

from __future__ import annotations

import itertools

import torch

from .links import CHUNKS, Link, beside
from .matmul_arguments import Problem
from .matmul_local import Loan, chunks_of, finish, layout_of, loan, multiply, rows_of_scale
from .workspace import device_heap_is_near


def why_no_engine(p: Problem) -> str | None:
    """Why copy engines cannot do a call, or None."""
    if not device_heap_is_near():
        return "copies and words of a stream do not reach all peers (PYSHMEM_P2P=0, or other hosts)"
    return layout_of(p)


# ---- all_gather_matmul -----------------------------------------------------------------------------


def shard_link(p: Problem) -> tuple[Link, int]:
    """The link by which shards of x come, and where in a slot their scales are."""
    nbytes = max(p.rows) * p.k * p.x.dtype.itemsize
    scales_at = -(-nbytes // 256) * 256
    return Link(p.space, "matmul shards", scales_at + 4 * p.n_scales(max(p.rows))), scales_at


def send_shard(p: Problem, link: Link, scales_at: int, member: int, bounds: list[int]) -> None:
    """The caller's shard to a member, a word for each chunk between ``bounds``; scales come first."""
    link.claim(member)
    if p.scale_x is not None:
        link.send(member, scales_at, p.scale_x, 0, last=False)
    for chunk, (begin, end) in enumerate(itertools.pairwise(bounds)):
        at = begin * p.k * p.x.dtype.itemsize
        link.send(member, at, p.x[begin:end], chunk)


def _gather_loan(p: Problem, link: Link) -> Loan:
    """Which own rows are multiplied with a neighbour's, whose slot is beside the own."""
    me, width = p.space.me, p.k * p.x.dtype.itemsize
    found = loan(p, me + 1 if me + 1 < p.space.n_pes else me - 1)
    if p.scale_x is None and {count * width for count in p.rows} == {link.slot}:
        return found
    return Loan(found.member, p.rows_of(me), p.rows_of(found.member))


def shard_of(
    p: Problem, link: Link, scales_at: int, member: int
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """A member's shard, and its scales, as they lie here."""
    rows = p.rows[member]
    shard = link.view(member, slice(0, rows), p.k, p.x.dtype)
    if p.scale_x is None:
        return shard, None
    nbytes = 4 * p.n_scales(rows)
    return shard, link.bytes_of(member)[scales_at : scales_at + nbytes].view(torch.float32)


def _lend(p: Problem, link: Link, lent: Loan) -> torch.Tensor:
    """The lent rows beside the neighbour's shard: both of them, as they lie here."""
    me, own = p.space.me, p.rows_of(p.space.me)
    rows = slice(max(lent.joint.start, own.start), min(lent.joint.stop, own.stop))
    if rows.start < rows.stop:
        here = slice(rows.start - own.start, rows.stop - own.start)
        link.view(me, here, p.k, p.x.dtype).copy_(p.x[here])
    width, count = p.k * p.x.dtype.itemsize, lent.joint.stop - lent.joint.start
    given = count - p.rows[lent.member]
    begin = lent.member * link.slot - (given * width if lent.member > me else 0)
    return link.block[begin : begin + count * width].view(p.x.dtype).view(count, p.k)


def gather_by_engine(p: Problem, out: torch.Tensor, gathered: torch.Tensor | None) -> None:
    """Copy engines bring the others' shards while the own one is multiplied."""
    me, n_pes = p.space.me, p.space.n_pes
    link, scales_at = shard_link(p)
    side = beside(p.x.device)
    side.fork()
    with side.current():
        for k in range(1, n_pes):  # whom the receiver waits for first sends first
            send_shard(p, link, scales_at, (me - k) % n_pes, [0, p.rows[me]])
    own, lent = p.rows_of(me), _gather_loan(p, link)
    rest = slice(lent.rest.start - own.start, lent.rest.stop - own.start)
    multiply(p, out[lent.rest], p.x[rest], rows_of_scale(p, rest), whole=True)
    if gathered is not None:
        gathered[own].copy_(p.x)
    joint = _lend(p, link, lent)
    for k in range(1, n_pes):
        member = (me + k) % n_pes
        link.arrived(member, 0)
        shard, scales = shard_of(p, link, scales_at, member)
        if member == lent.member:
            multiply(p, out[lent.joint], joint, scales, whole=True)
        else:
            multiply(p, out[p.rows_of(member)], shard, scales, whole=True)
        if gathered is not None:
            gathered[p.rows_of(member)].copy_(shard)
    for k in range(1, n_pes):  # at the end: a call of another size has its slots elsewhere
        link.release((me + k) % n_pes)
    side.join()


# ---- matmul_reduce_scatter, matmul_all_reduce ------------------------------------------------------


def scatter_by_engine(p: Problem, out: torch.Tensor) -> None:
    """The others' rows are multiplied first and go by copy engines while the own ones are."""
    me, n_pes, width = p.space.me, p.space.n_pes, p.n * p.out_dtype.itemsize
    to_all, chunks = p.operation == "matmul_all_reduce", chunks_of(p)
    parts = Link(p.space, "matmul parts", max(p.rows) * width)
    results = Link(p.space, "matmul results", max(p.rows) * width) if to_all else None
    others = [(me + k) % n_pes for k in range(1, n_pes)]
    product = torch.empty((p.n_rows, p.n), dtype=p.out_dtype, device=p.x.device)
    lent = loan(p, me - 1 if me else 1)
    side = beside(p.x.device)
    for owner in others:
        first = p.rows_of(owner).start
        for chunk, (begin, end) in enumerate(_cuts(p.rows[owner], chunks)):
            rows = slice(first + begin, first + end)
            together = lent.joint if chunks == 1 and owner == lent.member else rows
            _multiply_rows(p, product, together)
            side.fork()
            with side.current():
                if chunk == 0:
                    parts.claim(owner)
                parts.send(owner, begin * width, product[rows], chunk)
    if results is not None:
        with side.current():
            for member in others:
                results.claim(member)
    for chunk, cut in enumerate(_cuts(p.rows[me], chunks)):
        rows = slice(p.rows_of(me).start + cut[0], p.rows_of(me).start + cut[1])
        _multiply_rows(p, product, lent.rest if chunks == 1 else rows)
        side.fork()
        with side.current():
            _sum_chunk(p, parts, results, out[rows] if to_all else out, product[rows], chunk, cut)
            for owner in others if results is not None else ():
                _fetch_chunk(p, results, out, owner, chunk, chunks)
    with side.current():
        for member in others:
            parts.release(member)
            if results is not None:
                results.release(member)
    side.join()


def _multiply_rows(p: Problem, product: torch.Tensor, rows: slice) -> None:
    multiply(p, product[rows], p.x[rows], rows_of_scale(p, rows), whole=False)


def _cuts(rows: int, chunks: int) -> list[tuple[int, int]]:
    """Begin and end of the pieces of an owner's rows."""
    return [(j * rows // chunks, (j + 1) * rows // chunks) for j in range(chunks)]


def _sum_chunk(
    p: Problem, parts: Link, results: Link | None, place: torch.Tensor, own: torch.Tensor, chunk: int,
    cut: tuple[int, int],
) -> None:  # fmt: skip
    """Add up a piece of the own rows when all have sent it, and tell the others of the result."""
    others = [member for member in range(p.space.n_pes) if member != p.space.me]
    for member in others:
        parts.arrived(member, chunk)
    first = parts.view(0, slice(*cut), p.n, p.out_dtype)
    copy = None if results is None else results.view(p.space.me, slice(*cut), p.n, p.out_dtype)
    finish(
        place, first, p.space.n_pes, parts.slot // p.out_dtype.itemsize, second=copy, bias=p.bias,
        activation=p.activation, own=own, me=p.space.me,
    )  # fmt: skip
    if results is not None:
        for member in others:
            results.tell(member, chunk)


def _fetch_chunk(
    p: Problem, results: Link | None, out: torch.Tensor, owner: int, chunk: int, chunks: int
) -> None:
    """A piece of another owner's result into ``out``, by a copy engine."""
    assert results is not None
    assert chunks <= CHUNKS
    begin, end = _cuts(p.rows[owner], chunks)[chunk]
    first = p.rows_of(owner).start
    results.arrived(owner, chunk)
    results.fetch(owner, begin * p.n * p.out_dtype.itemsize, out[first + begin : first + end])
