# SPDX-License-Identifier: BSD-3-Clause
"""Matrix products by one persistent kernel: tiles that wait for chunks, or that go to their owner.

Shards come by copy engines, in chunks with a word each; partial tiles are stored by the kernel itself.
Grids have no more programs than the GPU has multiprocessors, so that all are resident: a program waits
only for copies, for tiles that others compute before they wait for anything, and for sums of such.
"""

from __future__ import annotations

import itertools

import torch

import pyshmem.triton as shmem

from ..._torch.arguments import as_bytes
from ..._torch.launches import current_stream
from .._shared.copy_engine import CopyChannel, settle, side_stream
from .._shared.workspace import Workspace, device_heap_is_p2p
from . import kernels
from .arguments import FP8, Problem, share_of_rows
from .copy_engine import send_shard, shard_channel
from .tiles import config, end_of, n_programs

_CHUNKS = 4  # of a shard; at most links.CHUNKS
_UNIT = 16  # bytes that addresses are multiples of, so that loads are as wide


def why_no_tiles(p: Problem) -> str | None:
    """Why tiles cannot do a call, or None; the same on all members but for addresses."""
    if not device_heap_is_p2p():
        return "kernels do not reach all peers (PYSHMEM_P2P=0, or other hosts)"
    if p.rows != share_of_rows(p.n_rows, p.space.n_pes):
        return f"rows {p.rows} are not those of share_of_rows({p.n_rows}, {p.space.n_pes})"
    if p.blocks is not None:
        return "tiles do not multiply elements whose blocks have scales"
    if p.x.dtype == FP8 and p.k % 16:
        return f"k is {p.k}, and rows of float8_e4m3fn are multiples of 16 bytes there"
    return None


def _pes(space: Workspace, device: torch.device) -> torch.Tensor:
    """The members' world numbers, for kernels."""
    numbers = space.team.pes()
    made: torch.Tensor = space.thing(
        "numbers of PEs", device, lambda: torch.tensor(numbers, dtype=torch.int32, device=device)
    )
    return made


def _aligned(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor, or a copy of one that begins between two units."""
    return tensor if tensor.data_ptr() % _UNIT == 0 else tensor.clone()


# ---- all_gather_matmul -----------------------------------------------------------------------------


def _bounds(rows: int, most: int, height: int) -> tuple[int, list[int]]:
    """Rows of a chunk, a multiple of a tile's, and where the chunks of ``rows`` rows begin and end.

    Four chunks of the longest shard cost the copy engine little. Of no rows there is one chunk, which
    brings a word alone: what is released without a wait may be released before it is claimed.
    """
    step = -(-most // (_CHUNKS * height)) * height
    return step, [*range(0, max(rows, 1), step), rows]


def gather_by_tiles(p: Problem, out: torch.Tensor, gathered: torch.Tensor | None) -> None:
    """One kernel, whose tiles wait for the chunk of rows that they need."""
    me, n_pes, base = p.space.me, p.space.n_pes, min(p.rows)
    x, (tile, options) = _aligned(p.x), config(p)
    channel, scales_at = shard_channel(p)
    step, bounds = _bounds(p.rows[me], max(p.rows), tile.BM)
    stream, side = current_stream(), side_stream(p.x.device)
    side.fork(stream)
    for k in range(1, n_pes):
        send_shard(p, channel, scales_at, (me - k) % n_pes, bounds, side.handle)
    if p.scale_x is not None:
        own = channel.bytes_of(me)[scales_at : scales_at + p.scale_x.nbytes]
        own.copy_(as_bytes(p.scale_x))
    block = channel.block.view(p.x.dtype)
    words = channel.full_words()
    tiles = n_pes * -(-max(p.rows) // tile.BM) * -(-p.n // tile.BN)
    scales = channel.block.view(torch.float32)[scales_at // 4 :]
    try:
        kernels.gather_matmul_kernel[(n_programs(p, tiles),)](
            out, kernels.Shards(x, block, channel.slot // _UNIT), p.w,
            kernels.ShardScales(scales, channel.slot // 4, p.w if p.scale_w is None else p.scale_w),
            out if p.bias is None else p.bias, kernels.ShardWords(words, step), base,
            p.n_rows - n_pes * base, p.n, p.k, me, n_pes, _pes(p.space, p.x.device), shmem.context(),
            TILE=tile, END=end_of(p), **options,
        )  # fmt: skip
    except Exception as error:
        settle(error, lambda: _drop_shards(p, channel, tile.BM, stream))
        raise
    if gathered is not None:
        gathered[p.rows_of(me)].copy_(p.x)
    for k in range(1, n_pes):
        member = (me + k) % n_pes
        if gathered is not None:
            shard = channel.view(member, slice(0, p.rows[member]), p.k, p.x.dtype)
            gathered[p.rows_of(member)].copy_(shard)
    others = [(me + k) % n_pes for k in range(1, n_pes)]
    for member in others:
        if not p.rows[member]:  # no tile waits for it
            channel.arrived(member, 0, stream)
    words.zero_()
    for member in others:
        channel.release(member, stream)
    side.join(stream)


def _drop_shards(p: Problem, channel: CopyChannel, height: int, stream: int | None) -> None:
    """What comes for a kernel that was not launched."""
    others = [(p.space.me + k) % p.space.n_pes for k in range(1, p.space.n_pes)]
    for member in others:
        _, bounds = _bounds(p.rows[member], max(p.rows), height)
        for chunk in range(len(bounds) - 1):
            channel.arrived(member, chunk, stream)
    for member in others:
        channel.release(member, stream)
    side_stream(p.x.device).join(stream)


# ---- matmul_reduce_scatter, matmul_all_reduce ------------------------------------------------------


def _take_back(channels: tuple[CopyChannel, ...], others: list[int], stream: int | None) -> None:
    for channel, member in itertools.product(channels, others):
        channel.take_back(member, stream)


def _exchange_nothing(
    p: Problem, parts: CopyChannel, others: list[int], stream: int | None
) -> None:
    """Words in place of tiles for owners of no rows: they release what the others have claimed."""
    for member in others:
        if not p.rows[member]:
            parts.announce(member, 0, stream)
    if not p.rows[p.space.me]:
        for member in others:
            parts.arrived(member, 0, stream)


def scatter_by_tiles(p: Problem, out: torch.Tensor) -> None:
    """One kernel, whose tiles go to the owner of their rows; the owner's programs add them up."""
    me, n_pes, base = p.space.me, p.space.n_pes, min(p.rows)
    to_all, (tile, options) = p.operation == "matmul_all_reduce", config(p)
    width = p.n * p.out_dtype.itemsize
    parts = CopyChannel(p.space, "matmul parts", max(p.rows) * width)
    results = CopyChannel(p.space, "matmul result tiles", max(p.rows) * width) if to_all else parts
    per_member = -(-max(p.rows) // tile.BM) * -(-p.n // tile.BN)
    nbytes = 8 * n_pes * per_member
    words = p.space.block("matmul tile words", 2 * nbytes, zeroed=True)[: 2 * nbytes]
    both = words.view(torch.int64)
    others = [(me + k) % n_pes for k in range(1, n_pes)]
    channels = (parts, results) if to_all else (parts,)
    stream = current_stream()
    for channel in channels:
        for member in others:
            channel.claim(member, stream)
    sums, finished = (each.block.view(p.out_dtype) for each in (parts, results))
    scales = p.x if p.scale_x is None else p.scale_x, p.w if p.scale_w is None else p.scale_w
    try:
        kernels.matmul_scatter_kernel[(n_programs(p, n_pes * per_member),)](
            out, kernels.Owned(sums, finished, parts.slot // p.out_dtype.itemsize),
            kernels.Operands(_aligned(p.x), p.w), kernels.Scales(*scales),
            out if p.bias is None else p.bias,
            kernels.TileWords(both, both[n_pes * per_member :]), base, p.n_rows - n_pes * base, p.n,
            p.k, me, n_pes, _pes(p.space, p.x.device), shmem.context(), TILE=tile,
            END=end_of(p, to_all=to_all), **options,
        )  # fmt: skip
    except Exception as error:  # on all members: what cannot be compiled, or has no room
        settle(error, lambda: _take_back(channels, others, stream))
        raise
    _exchange_nothing(p, parts, others, stream)
    words.zero_()
    for channel in channels:
        for member in others:
            channel.release(member, stream)
