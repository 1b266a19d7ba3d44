# SPDX-License-Identifier: BSD-3-Clause
"""Matrix products and collectives, one after the other: for few bytes, and for peers out of reach."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch

from ..._torch.arguments import as_bytes
from ..._torch.launches import current_stream
from ..._torch.staging import Reduction, capturing
from ...host.collectives.dispatch import ALIGNMENT, do, sides_reached
from .._shared.workspace import Workspace, device_heap_is_p2p
from .arguments import Problem
from .local import finish, multiply


class _Collected(NamedTuple):
    """Where all members' rows of a shape come, and where the own ones leave."""

    where: tuple[int, int, int]  # addresses and bytes, of fcollect
    own: torch.Tensor
    shards: tuple[torch.Tensor, ...]
    joint: torch.Tensor | None  # all shards, if nothing is between them


def _collected(
    space: Workspace, rows: tuple[int, ...], columns: int, dtype: torch.dtype
) -> _Collected:
    width, most = columns * dtype.itemsize, max(rows)
    where, everything, own = _gather_where(space, most * width, "gather")

    def matrix(flat: torch.Tensor, count: int) -> torch.Tensor:
        return flat[: count * width].view(dtype).view(count, columns)

    shards = (matrix(everything[m * most * width :], count) for m, count in enumerate(rows))
    joint = matrix(everything, sum(rows)) if len(set(rows)) == 1 else None
    return _Collected(where, matrix(own, rows[space.me]), tuple(shards), joint)


def gather_plainly(p: Problem, out: torch.Tensor, gathered: torch.Tensor | None) -> None:
    """All shards by a collective, then one product, or one a member where rows are uneven."""
    plan: _Collected = p.plan("gather plainly", lambda: _collected(p.space, p.rows, p.k, p.x.dtype))
    to, own, slot = plan.where
    if plan.joint is not None and _by_kernels() and _is_any(p.x):
        own = p.x.data_ptr()
    else:
        plan.own.copy_(p.x)
    _collect(p.space, (to, own, slot))
    if gathered is not None:
        _take(p, plan, gathered)
    if plan.joint is not None and p.scale_x is None:
        multiply(p, out, plan.joint, None, whole=True)
        return
    scales: Any = [None] * len(p.rows)
    if p.scale_x is not None:
        nbytes = p.scale_x.itemsize * p.n_scales(max(p.rows)) + 15 & -16
        found = all_gather_bytes(p.space, as_bytes(p.scale_x), nbytes, "scales")
        scales = found.view(p.scale_x.dtype)
    for member, shard in enumerate(plan.shards):
        scale = None if p.scale_x is None else scales[member][: p.n_scales(p.rows[member])]
        multiply(p, out[p.rows_of(member)], shard, scale, whole=True)


class _Exchanged(NamedTuple):
    """Where the rows of a product of a shape leave for their owners, and come."""

    where: tuple[int, int, int]  # addresses and bytes, of alltoall
    product: torch.Tensor | None  # all that leaves, if nothing is between the members' rows
    leaving: tuple[torch.Tensor, ...]
    came: torch.Tensor
    step: int  # elements between what comes from members


def _plan_scatter(p: Problem) -> _Exchanged:
    width = p.n * p.out_dtype.itemsize
    where, sent, came = _exchange_where(p.space, max(p.rows) * width)
    slot = where[2]
    leaving = tuple(
        sent[m * slot :][: count * width].view(p.out_dtype).view(count, p.n)
        for m, count in enumerate(p.rows)
    )
    product = None
    if {count * width for count in p.rows} == {slot}:
        product = sent.view(p.out_dtype).view(p.n_rows, p.n)
    step = slot // p.out_dtype.itemsize
    return _Exchanged(where, product, leaving, came.view(p.out_dtype), step)


def scatter_plainly(p: Problem, out: torch.Tensor) -> None:
    """The whole product here, then a reduction, or an exchange of partial rows and their sum."""
    if p.operation == "matmul_all_reduce":
        (_reduce_by_owners if p.invariant else _reduce_plainly)(p, out)
    else:
        _scatter_rows(p, out)


def _scatter_rows(p: Problem, out: torch.Tensor) -> None:
    """The whole product here, an exchange of partial rows and their sum: the caller's rows."""
    plan: _Exchanged = p.plan("scatter plainly", lambda: _plan_scatter(p))
    product = plan.product
    if product is None:
        product = torch.empty((p.n_rows, p.n), dtype=p.out_dtype, device=p.x.device)
    multiply(p, product, p.x, p.scale_x, whole=False)
    # Which sizes go there says whether a bias is rounded apart: batch invariant, none does.
    if product is plan.product and _by_kernels() and not p.invariant:
        _add_up(p, product, out)
        return
    if plan.product is None:
        for part, rows in zip(plan.leaving, product.split(p.rows), strict=True):
            part.copy_(rows)
    _exchange(p.space, plan.where)
    finish(out, plan.came, p.space.n_pes, plan.step, bias=p.bias, activation=p.activation)


def _add_up(p: Problem, product: torch.Tensor, out: torch.Tensor) -> None:
    """The caller's rows of all members' ``product``, added up in ``out`` by one kernel."""
    what, dest = Reduction("sum", p.out_dtype), out if _is_any(out) else torch.empty_like(out)
    given = p.space.team.handle, what.number, what.element
    where = dest.data_ptr(), product.data_ptr(), dest.numel()
    do("reduce_scatter", 3, (*given, *where), _stream_in_step(p.space))
    if p.bias is not None or p.activation is not None:
        finish(out, dest, bias=p.bias, activation=p.activation)
    elif dest is not out:
        out.copy_(dest)


def _reduce_plainly(p: Problem, out: torch.Tensor) -> None:
    """The product where peers reach it, added up there on all members, or, of few bytes, in ``out``."""

    def make() -> tuple[torch.Tensor, Reduction]:
        nbytes = p.n_rows * p.n * p.out_dtype.itemsize
        flat = p.space.block("matmul sums", nbytes)[:nbytes]
        return flat.view(p.out_dtype).view(p.n_rows, p.n), Reduction("sum", p.out_dtype)

    product, what = p.plan("reduce plainly", make)
    multiply(p, product, p.x, p.scale_x, whole=False)
    if p.bias is not None:  # by the rows' owner alone: members may have different ones, or none
        product[p.rows_of(p.space.me)].add_(p.bias)
    team, sums = p.space.team.handle, product
    if _by_kernels() and _is_any(out) and not any(sides_reached("reduce", team, product.nbytes)):
        sums = out
    given = team, what.number, what.element, sums.data_ptr(), product.data_ptr(), product.numel()
    do("reduce", 3, given, _stream_in_step(p.space))
    if p.activation is not None:
        finish(out, sums, activation=p.activation)
    elif sums is not out:
        out.copy_(sums)


def _reduce_by_owners(p: Problem, out: torch.Tensor) -> None:
    """Sums and ends are the rows' owner's, as those of tiles are, and then all members gather them."""
    mine = out.new_empty((p.rows[p.space.me], p.n))
    _scatter_rows(p, mine)
    width = p.n * p.out_dtype.itemsize
    found = all_gather_bytes(p.space, as_bytes(mine), max(p.rows) * width, "sums")
    for member, count in enumerate(p.rows):
        rows = found[member][: count * width].view(p.out_dtype)
        out[p.rows_of(member)].copy_(rows.view(count, p.n))


def _take(p: Problem, plan: _Collected, out: torch.Tensor) -> None:
    """All members' rows, to ``out``."""
    if plan.joint is not None:
        out.copy_(plan.joint)
        return
    for member, shard in enumerate(plan.shards):
        out[p.rows_of(member)].copy_(shard)


# ---- collectives -----------------------------------------------------------------------------------


def sum_rows(
    space: Workspace, product: torch.Tensor, rows: tuple[int, ...], out: torch.Tensor,
    bias: torch.Tensor | None = None, activation: str | None = None,
) -> None:  # fmt: skip
    """The caller's rows of all members' ``product`` added up in PE order: into ``out``."""
    where, sent, came = _exchange_where(
        space, max(rows) * product.shape[1] * product.dtype.itemsize
    )
    slot, first = where[2], 0
    for member, count in enumerate(rows):
        part = as_bytes(product[first : first + count])
        sent[member * slot : member * slot + part.numel()].copy_(part)
        first += count
    _exchange(space, where)
    parts = came.view(product.dtype)
    step = slot // product.dtype.itemsize
    finish(out, parts, space.n_pes, step, bias=bias, activation=activation)


def _exchange_where(
    space: Workspace, nbytes: int
) -> tuple[tuple[int, int, int], torch.Tensor, torch.Tensor]:
    """Addresses and bytes for alltoall, where rows leave for their owners, and where they come."""
    slot = max(-(-nbytes // 256) * 256, 256)
    block = space.block("matmul exchange", 2 * slot * space.n_pes)
    sent, came = block[: slot * space.n_pes], block[slot * space.n_pes : 2 * slot * space.n_pes]
    return (came.data_ptr(), sent.data_ptr(), slot), sent, came


def _exchange(space: Workspace, where: tuple[int, int, int]) -> None:
    do("alltoall", 1, (space.team.handle, *where), _stream_in_step(space))


def _collect(space: Workspace, where: tuple[int, int, int]) -> None:
    do("fcollect", 1, (space.team.handle, *where), _stream_in_step(space))


def _gather_where(
    space: Workspace, slot: int, name: str
) -> tuple[tuple[int, int, int], torch.Tensor, torch.Tensor]:
    """Addresses and bytes for fcollect, where all members' bytes come, and where the own ones leave."""
    own_at = -(-slot * space.n_pes // 256) * 256
    block = space.block(f"matmul {name}", own_at + slot)
    everything, own = block[: slot * space.n_pes], block[own_at : own_at + slot]
    return (everything.data_ptr(), own.data_ptr(), slot), everything, own


def all_gather_bytes(
    space: Workspace, source: torch.Tensor, slot: int, name: str = "gather"
) -> torch.Tensor:
    """The bytes of all members, ``slot`` of each, as (n_pes, slot); valid until the next call."""
    where, everything, own = _gather_where(space, slot, name)
    flat = source.reshape(-1)
    own[: flat.numel()].copy_(flat)
    _collect(space, where)
    return everything.view(space.n_pes, slot)


def _by_kernels() -> bool:
    """Whether kernels on a stream do what is plain, among members that loads and stores reach."""
    return current_stream() is not None and device_heap_is_p2p()


def _is_any(tensor: torch.Tensor) -> bool:
    """Whether they take the tensor, on the heap or not, for a side that no other member reaches.

    Such sides are the source of fcollect and the dest of reduce_scatter.
    """
    return tensor.is_contiguous() and tensor.data_ptr() % ALIGNMENT == 0


def _stream_in_step(space: Workspace) -> int | None:
    """All members have used what the last collective brought; the stream of the next one.

    A collective on a stream needs no sync: among members that loads and stores reach it stores to
    no array of another one before that one's stream has come to it. Peers that only hosts reach are a
    host's affair: None, and the caller's stream has been waited for.
    """
    stream = current_stream()
    if stream is not None:
        if device_heap_is_p2p():
            return stream
        if capturing():
            raise RuntimeError("peers out of reach of kernels: unfused products cannot be captured")
        torch.cuda.current_stream().synchronize()
    space.team.sync()
    return None
