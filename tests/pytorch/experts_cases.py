# SPDX-License-Identifier: BSD-3-Clause
"""Kernels of ``pyshmem.fused`` that move tokens and keys, compiled for sm_90 without a GPU.

As a program it prints their PTX as JSON: ``TRITON_INTERPRET=0 python experts_cases.py [names]``.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import Any

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource, compile

from pyshmem.fused._shared import copy_engine_kernels as links_kernels
from pyshmem.fused._shared.slots import Slots
from pyshmem.fused.exchange import kernels as exchange_kernels
from pyshmem.fused.exchange import launch
from pyshmem.fused.flash_decode import kernels as flash_decode_kernels
from pyshmem.fused.grouped_matmul import kernels as group_matmul_kernels
from pyshmem.fused.grouped_matmul import sharded_layout_kernels as group_layout_kernels
from pyshmem.fused.moe import combine_kernels as experts_combine_kernels
from pyshmem.fused.moe import copy_engine_kernels as experts_engine_kernels
from pyshmem.fused.moe import dispatch_kernels as experts_kernels
from pyshmem.fused.moe import grad_kernels as experts_grad_kernels
from pyshmem.fused.moe import routing, routing_kernels
from pyshmem.fused.moe.masked import agreement_kernels
from pyshmem.fused.moe.masked import move_kernels as masked_kernels
from pyshmem.triton.primitives import job_constants

job_constants._bind(1 << 40)  # as init would

_MOVES = {"slots": Slots("*i64", "i32", "i32"), "chunks": "i32",
          "shape": experts_kernels.ChunkShape("i32", "i32", "i32"), "ctx": "*i64"}  # fmt: skip
_TABLE = {"table": routing.RoutingTable("*i64", "i32", "i32")}
_MADE = {"made": routing_kernels.Layout("*i32", "*i32", "*i32", "*i32"), **_TABLE}
_COUNTS = {"tokens": "i32", "most": "i32", "experts": "i32"}
_GIVEN = {"given": experts_kernels.Given("*bf16", "*i64", "*fp32"), **_COUNTS}
_HALVES = {"to": experts_kernels.Dest("*bf16", "*bf16"), **_GIVEN, **_MOVES}
_ROWS = launch.Rows("i32", "i32", "i32")
_CALL = {"CALL": routing_kernels.Call(TEAM=0, K=8, PROGRAMS=128, SENDERS=32, BLOCK=2048)}
_TILE = {"TILE": experts_kernels.Tile(FORMAT="", ALL=True, TR=2, TT=2, TC=8192), **_CALL}
_LAYOUT = {"LAYOUT": routing_kernels.LayoutTile(KP=8, EP=64, TB=16, TN=128)}

_STEP = {
    "plan": "*i64",
    "parts": masked_kernels.Parts("*i64", "i32", "i32", "i32", "i32"),
    "ctx": "*i64",
}

#: Kernel, types of its arguments, constants.
CASES: dict[str, tuple] = {
    "exchange_rows": (
        exchange_kernels.exchange_rows,
        {"out": "*i32", "x": "*i32", "table": "*i64", "slots": Slots("*i64", "i32", "i32"),
         "most_out": "i32", "most_in": "i32", "out_layout": _ROWS, "x_layout": _ROWS,
         "width": "i32", "rows": "i32", "ctx": "*i64"},
        {"TILE": exchange_kernels.Tile(TEAM=0, PROGRAMS=128, TR=1, TC=8192, VEC=16)},
    ),
    "alltoall_ll": (
        exchange_kernels.alltoall_ll,
        {"out": "*i32", "x": "*i32", "part": "i32", "words": "*i64", "ctx": "*i64"},
        {"TEAM": 0, "BLOCK": 1024},
    ),
    "all_gather_ll": (
        exchange_kernels.all_gather_ll,
        {"out": "*i16", "x": "*i16", "part": "i32", "words": "*i64", "ctx": "*i64"},
        {"TEAM": 1, "BLOCK": 2048},
    ),
    "lay_out_experts": (
        experts_kernels.lay_out_experts,
        {**_MADE, **_COUNTS, "words_out": "*i64", "ids": "*i64", "ctx": "*i64"},
        {**_CALL, **_LAYOUT},
    ),
    "dispatch_tokens": (
        experts_kernels.dispatch_tokens,
        {**_HALVES, "positions": "*i32"},
        _TILE,
    ),
    "dispatch_at_once": (
        experts_kernels.dispatch_at_once,
        {**_HALVES, "words_out": "*i64", **_MADE},
        {**_TILE, **_LAYOUT},
    ),
    "dispatch_decode": (
        experts_kernels.dispatch_decode,
        {**_HALVES, **_MADE, "to": experts_kernels.Dest("*u8", "*fp32"),
         "given": experts_kernels.Given("*bf16", "*i32", "*fp32")},
        {**_CALL, "TILE": experts_kernels.Tile("fp8", ALL=True, TR=1, TT=4, TC=8192, WIDTH=7168),
         "LAYOUT": routing_kernels.LayoutTile(KP=8, EP=64, TB=64, TN=128, TO=2)},
    ),
    "dispatch_decode_nvfp4": (
        experts_kernels.dispatch_decode,
        {**_HALVES, **_MADE, "to": experts_kernels.Dest("*u8", "*u8")},
        {**_CALL, "TILE": experts_kernels.Tile("nvfp4", True, 1, 4, 8192, GLOBAL=True, WIDTH=7168),
         "LAYOUT": routing_kernels.LayoutTile(KP=8, EP=64, TB=64, TN=128, TO=2)},
    ),
    "dispatch_decode_long": (
        experts_kernels.dispatch_decode,
        {**_HALVES, **_MADE},
        {**_TILE, **_LAYOUT},
    ),
    "begin_step": (
        agreement_kernels.begin_step,
        {"plan": "*i64", "words": "*i64", "limit": "i64", "ctx": "*i64"},
        {"TEAM": 1},
    ),
    "end_operation": (
        agreement_kernels.end_operation,
        {"plan": "*i64", "mask": "*u8", "words": "*i64", "limit": "i64", "ctx": "*i64"},
        {"TEAM": 0, "COMBINE": 1},
    ),
    "send_tokens": (
        masked_kernels.send_tokens,
        {**_GIVEN, **_STEP, "weights": "*fp32"},
        {**_CALL, "TILE": experts_kernels.Tile("nvfp4", True, 1, 1, 8192, GLOBAL=True, WIDTH=7168)},
    ),
    "take_tokens": (
        masked_kernels.take_tokens,
        {**_GIVEN, **_STEP, "weights": "*fp32", "to": experts_kernels.Dest("*bf16", "*bf16"),
         "lists": masked_kernels.Lists("*i32", "*i32")},
        {**_CALL, "TILE": experts_kernels.Tile("", ALL=True, TR=1, TT=1, TC=8192)},
    ),
    "lay_out_step": (
        masked_kernels.lay_out_step,
        {"made": routing_kernels.Layout("*i32", "*i32", "*i32", "*i32"), "ids": "*i32", "most": "i32",
         "experts": "i32", "first": "i32", "n_tokens": "i32"},
        {**_CALL, "LAYOUT": routing_kernels.LayoutTile(8, 0, 64, 0, 2)},
    ),
    "send_sums": (
        masked_kernels.send_sums,
        {"y": "*bf16", "pairs": "*i32", "weights": "*i32", "most": "i32", **_STEP},
        {**_CALL, "TC": 4096},
    ),
    "add_sums": (
        masked_kernels.add_sums,
        {"out": "*bf16", "y": "*bf16", "pairs": "*i32", "weights": "*i32", "ids": "*i64", **_COUNTS,
         **_STEP},
        {**_CALL, "TC": 4096},
    ),
    "combine_tokens": (
        experts_combine_kernels.combine_tokens,
        {"out": "*bf16", "y": "*bf16", "pairs": "*i32", "weights": "*fp32", "ids": "*i64", **_COUNTS,
         **_TABLE, **_MOVES},
        {**_CALL, "SUM": experts_combine_kernels.Sum(TC=4096, PAIR=True, EARLY=True)},
    ),
    "dispatch_by_engine": (
        experts_engine_kernels.dispatch_by_engine,
        {"out": "*bf16", "words_out": "*i64", **_GIVEN, **_MADE,
         "arrivals": experts_engine_kernels.Arrivals("*bf16", "i32", "*i64"), "step": "i32",
         "pitch": "i32", "width": "i32", "ctx": "*i64"},
        {**_TILE, **_LAYOUT},
    ),
    "group_matmul_tiles": (
        group_matmul_kernels.group_matmul_tiles,
        {"y": "*bf16", "x": "*bf16", "scales": "*bf16", "rows": "*i32", "offsets": "*i32", "w": "*bf16",
         "experts": "i32", "n": "i32", "k": "i32"},
        {"BASED": False,
         "TILE": group_matmul_kernels.Tile(FP8=False, TURNED=False, BM=128, BN=128, BK=64)},
    ),
    "group_matmul_weights": (
        group_matmul_kernels.group_matmul_weights,
        {"dw": "*bf16", "x": "*bf16", "rows": "*i32", "dy": "*bf16", "offsets": "*i32", "n": "i32",
         "k": "i32"},
        {"BK": 128, "BN": 128, "BP": 64},
    ),
    "sums_of_pairs": (
        group_matmul_kernels.sums_of_pairs,
        {"dest": "*bf16", "dy": "*bf16", "order": "*i64", "bounds": "*i32", "rows": "i32", "k": "i32"},
        {"B": 2048},
    ),
    "await_word": (
        links_kernels.await_word_kernel,
        {"address": "i64", "value": "i32", "pe": "i32", "ctx": "*i64"},
        {},
    ),
    "pairs_of_gradients": (
        experts_grad_kernels.pairs_of_gradients,
        {"dy": "*bf16", "dots": "*fp32", "gradients": "*bf16", "y": "*bf16", "rows": "*i32",
         "weights": "*fp32", "last": "*i32", "pairs": "i32", "width": "i32"},
        {"B": 2048},
    ),
    "keys_of_pairs": (
        group_layout_kernels.keys_of_pairs,
        {"keys": "*i32", "ids": "*i32", "member_of": "*i32", "n_pairs": "i32", "n_pes": "i32",
         "experts": "i32", "ctx": "*i64"},
        {"K": 8, "B": 512},
    ),
    "places_of_pairs": (
        group_layout_kernels.places_of_pairs,
        {"rows": "*i32", "local": "*i32", "pairs": "*i32", "order": "*i64", "keys": "*i32",
         "firsts": "*i32", "n_pairs": "i32", "n_pes": "i32", "experts": "i32"},
        {"K": 8, "B": 512},
    ),
    "sum_of_choices": (
        group_layout_kernels.sum_of_choices,
        {"dest": "*bf16", "y": "*bf16", "pairs": "*i32", "weights": "*fp32", "offsets": "*i32",
         "first": "i32", "n_rows": "i32", "n": "i32"},
        {"K": 8, "B": 2048, "BASED": True},
    ),
    "decode_parts": (
        flash_decode_kernels.decode_parts,
        {"sums": "*fp32", "stats": "*fp32", "q": "*bf16", "k": "*bf16", "v": "*bf16", "lengths": "*i32",
         "keys": "i32", "heads": "i32", "queries": "i32", "splits": "i32", "scale": "fp32"},
        {"SPLIT": flash_decode_kernels.Split(GROUP=8, EACH=True, QP=2, ROWS=16, D=128, DP=128, KEYS=64)},
    ),
    "own_parts": (
        flash_decode_kernels.own_parts,
        {"sums": "*fp32", "stats": "*fp32", "q": "*bf16", "k": "*bf16", "v": "*bf16", "bounds": "*i32",
         "keys": "i32", "heads": "i32", "tokens": "i32", "splits": "i32", "scale": "fp32"},
        {"SPLIT": flash_decode_kernels.Split(4, EACH=False, QP=1, ROWS=16, D=128, DP=128, KEYS=64)},
    ),
    "merge_own": (
        flash_decode_kernels.merge_own,
        {"out": "*bf16", "sums": "*fp32", "stats": "*fp32", "bounds": "*i32", "heads": "i32",
         "splits": "i32"},
        {"D": 128, "DP": 128, "SP": 16},
    ),
    "merge_parts": (
        flash_decode_kernels.merge_parts,
        {"out": "*bf16", "sums": "*fp32", "stats": "*fp32", "items": "i32", "splits": "i32",
         "words": "*i64", "ctx": "*i64"},
        {"TEAM": 0, "D": 128, "DP": 128, "SP": 32},
    ),
}  # fmt: skip

#: Numbers that are multiples of 16 in usual calls, which Triton finds at a launch.
_EVEN = ("stride", "outer", "head", "slot", "words", "half", "width", "pitch", "cells", "lists_head",
         "out_stride", "x_stride", "out_outer", "x_outer", "part", "n", "k")  # fmt: skip


def parts(place: int, name: str, kind: Any) -> Iterator[tuple[tuple[int, ...], str, str]]:
    """The places, names and types of a parameter: those of its fields, if it is a group."""
    if isinstance(kind, str):
        yield (place,), name, kind
    else:
        for number, field in enumerate(kind._fields):
            yield (place, number), field, kind[number]


def ptx(name: str) -> str:
    kernel, types, constants = CASES[name]
    names = kernel.arg_names
    aligned = {
        place: [["tt.divisibility", 16]]
        for k, v in types.items()
        for place, name, one in parts(names.index(k), k, v)
        if one.startswith("*") or name in _EVEN
    }
    signature = {k: types.get(k, "constexpr") for k in names}
    values = {(names.index(k),): constants[k] for k in names if k not in types}
    source = ASTSource(kernel, signature, values, aligned)
    return compile(
        source, target=GPUTarget("cuda", 90, 32), options={"num_warps": 8, "maxnreg": 128}
    ).asm["ptx"]


if __name__ == "__main__":
    texts = {f"{name}-90": ptx(name) for name in sys.argv[1:] or list(CASES)}
    json.dump({"version": triton.__version__, "ptx": texts}, sys.stdout)
