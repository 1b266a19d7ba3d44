# SPDX-License-Identifier: BSD-3-Clause
"""Kernels of the fused matrix products, compiled for sm_90 without a GPU: prints the PTX as JSON.

``TRITON_INTERPRET=0 python matmul_cases.py``
"""

from __future__ import annotations

import json
import sys

import triton
from experts_cases import parts
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource, compile

from pyshmem.fused.matmul import kernels
from pyshmem.triton.primitives import job_constants

job_constants._bind(1 << 40)  # as init would

_GIVEN, _RESULT = (
    ("own", "gathered", "x", "w"),
    ("out", "parts", "results", "bias", "dest", "second"),
)
_WORDS = {"arrived": "*i64", "ready": "*i64", "pes": "*i32", "ctx": "i64"}
_SCALES = ("scale_x", "scale_w", "scales")
_ALIGNED = ("N", "K", "slot", "step", "nelems")

#: Kernel, dtype given, dtype of the result, w transposed, extents of a tile, warps.
CASES = {
    "gather": (kernels.gather_matmul_kernel, "bf16", "bf16", False, (128, 256, 64), 8),
    "gather_fp8": (kernels.gather_matmul_kernel, "fp8e4nv", "bf16", True, (128, 256, 128), 8),
    "scatter": (kernels.matmul_scatter_kernel, "fp16", "fp16", True, (128, 256, 64), 8),
    "product": (kernels.product_kernel, "bf16", "bf16", True, (64, 128, 64), 4),
    "product_of_few": (kernels.product_kernel, "bf16", "bf16", True, (16, 32, 256), 4),
    "product_fp8": (kernels.product_kernel, "fp8e4nv", "bf16", True, (64, 128, 128), 4),
    "finish": (kernels.finish_kernel, "bf16", "bf16", False, (0, 0, 0), 4),
}


def ptx(name: str) -> str:
    kernel, given, result, transposed, (rows, columns, depth), warps = CASES[name]
    eight = given.startswith("fp8")
    constants = {
        "TILE": kernels.Tile(
            rows, columns, depth, 8, transposed, True, "ieee", depth if eight else None
        ),
        "END": kernels.End(eight, 1, 1, True, "silu", ALL=True),
        "SUM": kernels.Sum(2, 1, True, 2048),
    }
    types = {
        **dict.fromkeys(_GIVEN, f"*{given}"), **dict.fromkeys(_RESULT, f"*{result}"),
        **dict.fromkeys(_SCALES, "*fp32"), **_WORDS,
        "shards": kernels.Shards(f"*{given}", f"*{given}", "i32"),
        "factors": kernels.ShardScales("*fp32", "i32", "*fp32"),
        "words": kernels.ShardWords("*i64", "i32"),
    }  # fmt: skip
    if name == "scatter":
        types |= {
            "owned": kernels.Owned(f"*{result}", f"*{result}", "i32"),
            "operands": kernels.Operands(f"*{given}", f"*{given}"),
            "factors": kernels.Scales("*fp32", "*fp32"),
            "words": kernels.TileWords("*i64", "*i64"),
        }
    names = kernel.arg_names
    signature = {k: "constexpr" if k in constants else types.get(k, "i32") for k in names}
    values = {(names.index(k),): v for k, v in constants.items() if k in names}
    aligned = {
        place: [["tt.divisibility", 16]]
        for k in names
        for place, one, kind in parts(names.index(k), k, signature[k])
        if kind.startswith("*") or one in _ALIGNED
    }
    source = ASTSource(kernel, signature, values, aligned)
    options = {"num_warps": warps, "num_stages": 3}
    compiled = compile(source, target=GPUTarget("cuda", 90, 32), options=options)
    assert compiled.asm["cubin"]
    return compiled.asm["ptx"]


if __name__ == "__main__":
    json.dump(
        {"version": triton.__version__, "ptx": {name: ptx(name) for name in CASES}}, sys.stdout
    )
