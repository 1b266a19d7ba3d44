# SPDX-License-Identifier: BSD-3-Clause
"""Matrix products beside copy engines, and the plain way: products here, then a collective.

Partial products cross in the result's dtype and are added in float32, in PE order, and rounded once, by
whichever road: all roads give the same sums of the same products.
"""

from __future__ import annotations

import itertools
from typing import Any

import torch

from ..host.collectives.dispatch import do
from . import matmul_kernels as kernels
from .arguments import capturing
from .links import CHUNKS, Link, beside, current_stream
from .matmul_arguments import FP8, Problem
from .workspace import Workspace, device_heap_is_near

#: Multiprocessors of the GPUs that pieces are shaped for; the same on all PEs whatever they have.
MULTIPROCESSORS = 132


# ---- products and sums on this PE ------------------------------------------------------------------


def finish(
    dest: torch.Tensor, parts: torch.Tensor, n_parts: int = 1, step: int = 0, *, second: Any = None,
    scales: tuple[torch.Tensor, torch.Tensor] | None = None, bias: torch.Tensor | None = None,
    activation: str | None = None,
) -> None:  # fmt: skip
    """Sum of parts ``step`` elements apart, scaled, plus bias, activated: ``dest`` and ``second``."""
    nelems = dest.numel()
    if not nelems:
        return
    on_gpu = dest.is_cuda
    block = 2048 if on_gpu else 1024
    programs = min(-(-nelems // block), 16 * MULTIPROCESSORS if on_gpu else 2)
    scale_x, scale_w = scales or (dest, dest)
    kernels.finish_kernel[(programs,)](
        dest, dest if second is None else second, parts, scale_x, scale_w,
        dest if bias is None else bias, nelems, dest.shape[1], step, N_PARTS=n_parts,
        SCALED=scales is not None, X_STEP=int(scale_x.numel() > 1), W_STEP=int(scale_w.numel() > 1),
        BIAS=bias is not None, SECOND=second is not None, ACTIVATION=activation or "", B=block,
    )  # fmt: skip


_IN_PLACE: dict[str, Any] = {
    "relu": torch.relu_, "gelu": torch.ops.aten.gelu_, "silu": torch.ops.aten.silu_,
}  # fmt: skip


def multiply(
    p: Problem, out: torch.Tensor, x: torch.Tensor, scale_x: torch.Tensor | None, *,
    whole: bool,
) -> None:  # fmt: skip
    """``x @ w`` into ``out``; ``whole``: the result, with bias and activation, and not one of a sum."""
    if not x.shape[0]:
        return
    bias, activation = (p.bias, p.activation) if whole else (None, None)
    if p.x.dtype != FP8:
        if bias is None:
            torch.mm(x, p.w, out=out)
        else:
            torch.addmm(bias, x, p.w, out=out)
        if activation:
            _IN_PLACE[activation](out)
        return
    assert scale_x is not None
    assert p.scale_w is not None
    if scale_x.numel() == p.scale_w.numel() == 1:
        torch._scaled_mm(x, p.w, scale_x, p.scale_w, out_dtype=out.dtype, out=out)
        if bias is not None or activation:
            finish(out, out, bias=bias, activation=activation)
        return
    if out.dtype == torch.bfloat16 and x.is_cuda:  # the only result that has scales of rows there
        by_row = scale_x.expand(x.shape[0]).contiguous().view(-1, 1)
        by_column = p.scale_w.expand(p.n).contiguous().view(1, -1)
        torch._scaled_mm(x, p.w, by_row, by_column, out_dtype=out.dtype, out=out)
        if bias is not None or activation:
            finish(out, out, bias=bias, activation=activation)
        return
    one = torch.ones((), dtype=torch.float32, device=x.device)
    product = torch._scaled_mm(x, p.w, one, one, out_dtype=torch.float32)
    finish(out, product, scales=(scale_x, p.scale_w), bias=bias, activation=activation)


def rows_of_scale(p: Problem, rows: slice) -> torch.Tensor | None:
    """The scales of some rows of ``x``; a single one is that of all."""
    return p.scale_x[rows] if p.by_row and p.scale_x is not None else p.scale_x


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


def gather_by_engine(p: Problem, out: torch.Tensor, gathered: torch.Tensor | None) -> None:
    """Copy engines bring the others' shards while the own one is multiplied."""
    me, n_pes = p.space.me, p.space.n_pes
    link, scales_at = shard_link(p)
    side = beside(p.x.device)
    side.fork()
    with side.current():
        for k in range(1, n_pes):  # whom the receiver waits for first sends first
            send_shard(p, link, scales_at, (me - k) % n_pes, [0, p.rows[me]])
    own = p.rows_of(me)
    multiply(p, out[own], p.x, p.scale_x, whole=True)
    if gathered is not None:
        gathered[own].copy_(p.x)
    for k in range(1, n_pes):
        member = (me + k) % n_pes
        link.arrived(member, 0)
        shard, scales = shard_of(p, link, scales_at, member)
        multiply(p, out[p.rows_of(member)], shard, scales, whole=True)
        if gathered is not None:
            gathered[p.rows_of(member)].copy_(shard)
        link.release(member)
    side.join()


def gather_plainly(p: Problem, out: torch.Tensor, gathered: torch.Tensor | None) -> None:
    """All shards by a collective, then one product, or one a member where rows are uneven."""
    most, width = max(p.rows), p.k * p.x.dtype.itemsize
    everything = all_gather_bytes(p.space, p.x.view(torch.uint8), most * width)
    scales = None
    if p.scale_x is not None:
        count = p.n_scales(most)
        found = all_gather_bytes(p.space, p.scale_x.view(torch.uint8), 4 * count, "scales")
        scales = found.view(torch.float32)
    for member, rows in enumerate(p.rows):
        shard = everything[member][: rows * width].view(p.x.dtype).view(rows, p.k)
        scale = None if scales is None else scales[member][: p.n_scales(rows)]
        if gathered is not None:
            gathered[p.rows_of(member)].copy_(shard)
        if p.n_rows != most * p.space.n_pes or scales is not None:
            multiply(p, out[p.rows_of(member)], shard, scale, whole=True)
    if p.n_rows == most * p.space.n_pes and scales is None:
        multiply(p, out, everything.view(p.x.dtype).view(p.n_rows, p.k), None, whole=True)


# ---- matmul_reduce_scatter, matmul_all_reduce ------------------------------------------------------


def chunks_of(p: Problem) -> int:
    """Into how many pieces the rows of an owner are cut, the same on all members.

    Only matmul_all_reduce gains from pieces: what is exposed at the end is the last one's way. Each
    has to fill the multiprocessors with tiles of 128 by 256.
    """
    if p.operation != "matmul_all_reduce":
        return 1
    columns = -(-p.n // 256)
    for chunks in (4, 3, 2):
        if -(-min(p.rows) // chunks // 128) * columns >= MULTIPROCESSORS:
            return chunks
    return 1 if p.x.is_cuda or min(p.rows) < 2 else 2  # the simulator shows that pieces work


def scatter_by_engine(p: Problem, out: torch.Tensor) -> None:
    """The others' rows are multiplied first and go by copy engines while the own ones are."""
    me, n_pes, width = p.space.me, p.space.n_pes, p.n * p.out_dtype.itemsize
    to_all, chunks = p.operation == "matmul_all_reduce", chunks_of(p)
    parts = Link(p.space, "matmul parts", max(p.rows) * width)
    results = Link(p.space, "matmul results", max(p.rows) * width) if to_all else None
    others = [(me + k) % n_pes for k in range(1, n_pes)]
    side = beside(p.x.device)
    kept = []
    for owner in others:
        whole = p.rows_of(owner)
        partial = torch.empty((p.rows[owner], p.n), dtype=p.out_dtype, device=p.x.device)
        kept.append(partial)  # until the streams are joined
        for chunk, (begin, end) in enumerate(_cuts(p.rows[owner], chunks)):
            rows = slice(whole.start + begin, whole.start + end)
            multiply(p, partial[begin:end], p.x[rows], rows_of_scale(p, rows), whole=False)
            side.fork()
            with side.current():
                if chunk == 0:
                    parts.claim(owner)
                parts.send(owner, begin * width, partial[begin:end], chunk)
    own = p.rows_of(me)
    if results is not None:
        with side.current():
            for member in others:
                results.claim(member)
    for chunk, (begin, end) in enumerate(_cuts(p.rows[me], chunks)):
        rows = slice(own.start + begin, own.start + end)
        mine = parts.view(me, slice(begin, end), p.n, p.out_dtype)
        multiply(p, mine, p.x[rows], rows_of_scale(p, rows), whole=False)
        side.fork()
        with side.current():
            place = out[rows] if to_all else out[begin:end]
            _sum_chunk(p, parts, results, place, chunk, (begin, end))
            for owner in others if results is not None else ():
                _fetch_chunk(p, results, out, owner, chunk, chunks)
    with side.current():
        for member in others:
            parts.release(member)
            if results is not None:
                results.release(member)
    side.join()
    kept.clear()


def _cuts(rows: int, chunks: int) -> list[tuple[int, int]]:
    """Begin and end of the pieces of an owner's rows."""
    return [(j * rows // chunks, (j + 1) * rows // chunks) for j in range(chunks)]


def _sum_chunk(
    p: Problem, parts: Link, results: Link | None, place: torch.Tensor, chunk: int,
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
        activation=p.activation,
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


def scatter_plainly(p: Problem, out: torch.Tensor) -> None:
    """The whole product here, an exchange of partial rows, their sum, and for all the sums again."""
    most, width = max(p.rows), p.n * p.out_dtype.itemsize
    product = torch.empty((p.n_rows, p.n), dtype=p.out_dtype, device=p.x.device)
    multiply(p, product, p.x, p.scale_x, whole=False)
    sums = out
    if p.operation == "matmul_all_reduce":
        sums = out[p.rows_of(p.space.me)]
    sum_rows(p.space, product, p.rows, sums, p.bias, p.activation)
    if p.operation == "matmul_all_reduce":
        everything = all_gather_bytes(p.space, sums.view(torch.uint8), most * width)
        for member, rows in enumerate(p.rows):
            flat = everything[member][: rows * width].view(p.out_dtype)
            out[p.rows_of(member)].copy_(flat.view(rows, p.n))


# ---- collectives -----------------------------------------------------------------------------------


def sum_rows(
    space: Workspace, product: torch.Tensor, rows: tuple[int, ...], out: torch.Tensor,
    bias: torch.Tensor | None = None, activation: str | None = None,
) -> None:  # fmt: skip
    """The caller's rows of all members' ``product`` added up in PE order: into ``out``."""
    size = max(rows) * product.shape[1] * product.dtype.itemsize
    slot = max(-(-size // 256) * 256, 256)
    block = space.block("matmul exchange", 2 * slot * space.n_pes)
    sent, came = block[: slot * space.n_pes], block[slot * space.n_pes :]
    first = 0
    for member, count in enumerate(rows):
        part = product[first : first + count].view(torch.uint8).reshape(-1)
        sent[member * slot : member * slot + part.numel()].copy_(part)
        first += count
    stream = _meet(space)
    do("alltoall", 1, (space.team.handle, came.data_ptr(), sent.data_ptr(), slot), stream)
    parts = came.view(product.dtype)
    step = slot // product.dtype.itemsize
    finish(out, parts, space.n_pes, step, bias=bias, activation=activation)


def all_gather_bytes(
    space: Workspace, source: torch.Tensor, slot: int, name: str = "gather"
) -> torch.Tensor:
    """The bytes of all members, ``slot`` of each, as (n_pes, slot); valid until the next call."""
    own_at = -(-slot * space.n_pes // 256) * 256
    block = space.block(f"matmul {name}", own_at + slot)
    everything, own = block[: slot * space.n_pes], block[own_at : own_at + slot]
    flat = source.reshape(-1)
    own[: flat.numel()].copy_(flat)
    stream = _meet(space)
    where = space.team.handle, everything.data_ptr(), own.data_ptr(), slot
    do("fcollect", 1, where, stream)
    return everything.view(space.n_pes, slot)


def _meet(space: Workspace) -> int | None:
    """All members have used what the last collective brought; the stream of the next one.

    Peers that only hosts reach are a host's affair: None, and the caller's stream has been waited for.
    """
    stream = current_stream()
    if stream is not None and not device_heap_is_near():
        if capturing():
            raise RuntimeError("peers out of reach of kernels: the plain road cannot be captured")
        torch.cuda.current_stream().synchronize()
        stream = None
    space.team.sync(stream=stream)
    return stream


def layout_of(p: Problem) -> str | None:
    """Why cuBLAS cannot multiply the FP8 tensors of a call, or None."""
    if p.x.dtype != FP8 or not p.x.is_cuda:
        return None
    if not p.transposed or p.k % 16 or p.n % 16:
        return (
            "cuBLAS multiplies float8_e4m3fn where w is the transpose of a contiguous (n, k) tensor "
            "and k and n are multiples of 16"
        )
    return None


def why_no_engine(p: Problem) -> str | None:
    """Why copy engines cannot do a call, or None."""
    if not device_heap_is_near():
        return "copies and words of a stream do not reach all peers (PYSHMEM_P2P=0, or other hosts)"
    return layout_of(p)
