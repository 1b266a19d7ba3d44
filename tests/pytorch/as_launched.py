# SPDX-License-Identifier: BSD-3-Clause
"""Compiles kernels for sm_90 as a launch on a GPU specialises them, without a GPU.

Numbers that are 1, and multiples of 16, are other code; in a group too, whatever ``do_not_specialize``
says. As a program it compiles the kernels of products, norms and tokens so: ``TRITON_INTERPRET=0 python
as_launched.py``.
"""

from __future__ import annotations

from typing import Any

import torch
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource, compile, make_backend
from triton.runtime.jit import MockTensor, create_function_from_signature

from pyshmem.fused._shared.slots import Slots
from pyshmem.fused.all_reduce_norm import (
    one_shot_channel_kernels,
    one_shot_ll_kernels,
    pull_kernels,
    row_kernels,
    two_shot_kernels,
)
from pyshmem.fused.flash_decode import kernels as flash_decode_kernels
from pyshmem.fused.grouped_matmul import kernels as grouped_kernels
from pyshmem.fused.matmul import kernels
from pyshmem.fused.moe import (
    combine_kernels,
    copy_engine_kernels,
    dispatch_kernels,
    routing,
    routing_kernels,
)
from pyshmem.triton.primitives import job_constants

TARGET = GPUTarget("cuda", 90, 32)
HALF, FLOAT, LONG, INT = map(MockTensor, (torch.bfloat16, torch.float32, torch.int64, torch.int32))


def compiled(kernel: Any, *given: Any, num_warps: int = 8, **constants: Any) -> Any:
    """What a launch with these arguments would run."""
    backend = make_backend(TARGET)
    binder = create_function_from_signature(kernel.signature, kernel.params, backend)
    options = {"num_warps": num_warps, "debug": False}
    bound, specialization, _ = binder(*given, **constants, **options)
    options, signature, values, attributes = kernel._pack_args(
        backend, options, bound, specialization, {}
    )
    source = ASTSource(kernel, signature, values, attributes)
    return compile(source, target=TARGET, options=options.__dict__)


def products(one: int) -> None:
    """With numbers of ``one`` where a call may have it."""
    tile = kernels.Tile(64, 64, 64, 8, False, True, "ieee", None)
    end, numbers = kernels.End(True, one, 0, True, "silu", True), (16, 0, 64, 64, 0, 2, INT, LONG)
    shards, scales = kernels.Shards(HALF, HALF, one), kernels.ShardScales(FLOAT, one, FLOAT)
    compiled(
        kernels.gather_matmul_kernel, HALF, shards, HALF, scales, HALF, kernels.ShardWords(LONG, one),
        *numbers, TILE=tile, END=end,
    )  # fmt: skip
    compiled(
        kernels.matmul_scatter_kernel, HALF, kernels.Owned(HALF, HALF, one), kernels.Operands(HALF,
        HALF), kernels.Scales(FLOAT, FLOAT), HALF, kernels.TileWords(LONG, LONG), *numbers, TILE=tile,
        END=end,
    )  # fmt: skip
    compiled(
        kernels.finish_kernel, HALF, HALF, HALF, HALF, FLOAT, FLOAT, HALF, one, one, one,
        SUM=kernels.Sum(2, 1, True, 1024), END=end,
    )  # fmt: skip


def norms(tokens: int) -> None:
    """Of so many rows."""
    given = *[HALF] * 6, FLOAT, FLOAT, tokens, 1e-6
    row = row_kernels.Row(64, 64, "rms", True, False, 0)
    compiled(row_kernels.local, *given, ROW=row)
    compiled(one_shot_channel_kernels.one_shot, *given, LONG, LONG, ROW=row)
    compiled(two_shot_kernels.two_shot, *given, HALF, HALF, LONG, LONG, LONG, ROW=row)
    row = row._replace(RING=pull_kernels.Ring(0, 2, 256, 2, 2))
    compiled(pull_kernels.pull, *given, HALF, LONG, LONG, 1, LONG, ROW=row)
    units = one_shot_ll_kernels.PacketsRow(192, 32, 32, "layer", True, True, -1, MEMBERS=2)
    compiled(one_shot_ll_kernels.one_shot, *given, LONG, LONG, 1, LONG, ROW=units)


def tokens(one: int) -> None:
    """To experts and back, with numbers of ``one`` where a call may have it."""
    call, layout = (
        routing_kernels.Call(0, 2, 128, 32, 2048),
        routing_kernels.LayoutTile(2, 4, 16, 128),
    )
    tile, table = dispatch_kernels.Tile("", True, 1, 1, 64), routing.RoutingTable(LONG, 32, 64)
    to, given = dispatch_kernels.Dest(HALF, HALF), dispatch_kernels.Given(HALF, INT, HALF)
    moves = Slots(LONG, 32, 64), one, dispatch_kernels.ChunkShape(one, 16, one), LONG
    made, sizes = routing_kernels.Layout(INT, INT, INT, INT), (one, one, one)
    fixed = {"CALL": call, "TILE": tile, "LAYOUT": layout}
    compiled(dispatch_kernels.dispatch_tokens, to, INT, given, *sizes, *moves, CALL=call, TILE=tile)
    compiled(
        dispatch_kernels.dispatch_at_once, to, made, LONG, given, *sizes, table, *moves, **fixed
    )
    compiled(dispatch_kernels.dispatch_decode, to, made, given, *sizes, table, *moves, **fixed)
    compiled(
        dispatch_kernels.lay_out_experts,
        made,
        LONG,
        INT,
        *sizes,
        table,
        LONG,
        CALL=call,
        LAYOUT=layout,
    )
    compiled(
        copy_engine_kernels.dispatch_by_engine, HALF, made, LONG, given, *sizes, table,
        copy_engine_kernels.Arrivals(HALF, one, LONG), 4, 16, one, LONG, **fixed,
    )  # fmt: skip
    compiled(
        combine_kernels.combine_tokens, HALF, HALF, INT, FLOAT, INT, *sizes, table, *moves, CALL=call,
        SUM=combine_kernels.Sum(64, True, False),
    )  # fmt: skip
    split = flash_decode_kernels.Split(one, False, 1, 16, 16, 16, 64)
    compiled(
        flash_decode_kernels.decode_parts, FLOAT, FLOAT, HALF, HALF, HALF, None, one, one, one, one, 1.0,
        SPLIT=split,
    )  # fmt: skip
    compiled(
        grouped_kernels.group_matmul_tiles, HALF, HALF, HALF, INT, INT, HALF, one, one, one,
        BASED=False, TILE=grouped_kernels.Tile(False, False, 16, 16, 16),
    )  # fmt: skip


if __name__ == "__main__":
    job_constants._bind(1 << 40)  # as init would
    for number in (1, 16, 24):
        products(number)
        norms(number)
        tokens(number)
    print("ok")
