# SPDX-License-Identifier: BSD-3-Clause
"""Matrix products and collectives, one after the other: for few bytes, and for peers out of reach."""

from __future__ import annotations

import torch

from ..host.collectives.dispatch import do
from ..interop.torch.staging import capturing
from .links import current_stream
from .matmul_arguments import Problem
from .matmul_local import finish, multiply
from .workspace import Workspace, device_heap_is_near


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
