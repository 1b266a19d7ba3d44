# SPDX-License-Identifier: BSD-3-Clause
"""Compiles the kernels of all_reduce_rmsnorm, without a GPU, and prints their PTX as JSON.

For sm_90, and those that make blocks with scales for sm_100 and sm_120, too.
"""

from __future__ import annotations

import json

from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource, compile

from pyshmem.fused.all_reduce_norm import one_shot_channel_kernels, one_shot_ll_kernels, row_kernels
from pyshmem.fused.all_reduce_norm import pull_kernels as norm_pull_kernels
from pyshmem.fused.all_reduce_norm import push_kernels as norm_push_kernels
from pyshmem.fused.all_reduce_norm.one_shot_ll_kernels import PacketsRow
from pyshmem.fused.all_reduce_norm.pull_kernels import Ring
from pyshmem.fused.all_reduce_norm.row_kernels import Blocks, Row
from pyshmem.fused.all_reduce_norm.two_shot_kernels import two_shot
from pyshmem.fused.formats import kernels as formats_kernels
from pyshmem.triton.primitives import job_constants

job_constants._bind(1 << 40)  # as init would

BF16 = "x residual weight bias out residual_out inbox sums rows ring"
TYPES = dict.fromkeys(BF16.split(), "*bf16") | dict.fromkeys(
    ("words", "counts", "flags", "packets", "ctx"), "*i64"
)
TYPES |= {"scales": "*fp32", "global_scale": "*fp32", "eps": "fp32"}
TYPES |= {"tokens": "i32", "mine": "i32", "count": "i32"}
CONSTANTS = {
    "HIDDEN": 3072,
    "BLOCK": 4096,
    "NORM": "rms",
    "RESIDUAL": True,
    "BIAS": False,
    "GROUP": 0,
}
FP8 = {"out": "*u8", "rows": "*u8"}
BYTES = {"out": "*u8", "scales": "*u8"}
MXFP8 = {"GROUP": 32, "BLOCKS": Blocks("mxfp8", 1, True)}
NVFP4 = {"GROUP": 16, "BLOCKS": Blocks("nvfp4", 2, True, True)}
UNITS = {"TEAM": 0, "WIDE": True, "MEMBERS": 2, "THIRD": 512, "PACKETS": 512}
PUSH = {"TEAM": 0, "MEMBERS": 2, "THREADS": 256}
PULL = {"TEAM": 0, "MEMBERS": 2, "THREADS": 256, "EVERY": 2, "AHEAD": 4}
CASES = {
    "local": ("local", {}, {}),
    "one_shot": ("one_shot", {}, {"TEAM": 0}),
    "units": ("packets", {}, {**UNITS, "HIDDEN": 6144, "THIRD": 1024, "PACKETS": 1024}),
    "units_fp8": ("packets", FP8, {**UNITS, "GROUP": 128}),
    "units_row_fp8": ("packets", FP8, {**UNITS, "GROUP": -1, "NORM": "layer", "BIAS": True}),
    "pull": ("pull", {}, {**PULL, "HIDDEN": 6144, "BLOCK": 8192}),
    "pull_fp8": ("pull", FP8, {**PULL, "GROUP": 4096}),
    "push": ("push", {}, {**PUSH, "HIDDEN": 6144, "BLOCK": 8192}),
    "one_shot_fp8": ("one_shot", FP8, {"TEAM": 0, "GROUP": 128}),
    "two_shot": ("two_shot", {}, {"TEAM": 0}),
    "two_shot_fp8": (
        "two_shot", FP8,
        {"TEAM": 3, "GROUP": 4096, "NORM": "layer", "BIAS": True},
    ),
}  # fmt: skip
BLOCKS = {
    "quantise_mxfp8": ("quantise", BYTES, {"BLOCKS": ("mxfp8", 3072, 96, 32, 1, False, False, 1, 4096)}),
    "quantise_nvfp4": ("quantise", BYTES, {"BLOCKS": ("nvfp4", 3072, 192, 16, 2, True, True, 1, 4096)}),
}  # fmt: skip
BLOCKS |= {
    name.replace("quantise", "dequantise"): ("dequantise", {"x": "*u8", "scales": "*u8"}, given[2])
    for name, given in BLOCKS.items()
}
BLOCKS |= {
    "units_parts_nvfp4": ("packets", BYTES, UNITS | NVFP4 | {"PARTS": 3}),
    "units_mxfp8": ("packets", BYTES, UNITS | MXFP8),
    "units_nvfp4": ("packets", BYTES, UNITS | NVFP4),
    "pull_mxfp8": ("pull", BYTES, PULL | MXFP8),
    "push_nvfp4": ("push", BYTES, PUSH | NVFP4),
    "two_shot_nvfp4": ("two_shot", BYTES, {"TEAM": 0} | NVFP4),
}
#: For sm_100 and sm_120 as well.
BLACKWELL = (
    "quantise_mxfp8", "quantise_nvfp4", "dequantise_mxfp8", "dequantise_nvfp4", "units_nvfp4",
)  # fmt: skip


#: By name.
KERNELS = {
    "local": row_kernels.local,
    "one_shot": one_shot_channel_kernels.one_shot,
    "two_shot": two_shot,
    "pull": norm_pull_kernels.pull,
    "push": norm_push_kernels.push,
    "packets": one_shot_ll_kernels.one_shot,
    "quantise": formats_kernels.quantise_rows,
    "dequantise": formats_kernels.dequantise_rows,
}


def ptx(name: str, architecture: int = 90) -> str:
    kernel_name, types, constants = (CASES | BLOCKS)[name]
    kernel = KERNELS[kernel_name]
    names = kernel.arg_names
    types, constants = TYPES | types, CONSTANTS | constants
    signature = {one: types.get(one, "constexpr") for one in names}
    values = {(names.index(one),): value for one, value in constants.items() if one in names}
    aligned = {
        (place,): [["tt.divisibility", 16]]
        for place, one in enumerate(names)
        if signature[one].startswith("*")
    }
    if "ROW" in names:
        if "THREADS" in constants:
            constants["RING"] = Ring(*(constants[one] for one in Ring._fields if one in constants))
        kind = PacketsRow if "THIRD" in constants else Row
        row = kind(**{one: constants[one] for one in kind._fields if one in constants})
        values[names.index("ROW"),] = row
    else:
        values[names.index("BLOCKS"),] = formats_kernels.Blocks(*constants["BLOCKS"])
    source = ASTSource(kernel, signature, values, aligned)
    compiled = compile(source, target=GPUTarget("cuda", architecture, 32), options={"num_warps": 8})
    assert compiled.asm["cubin"]
    return compiled.asm["ptx"]


texts = {
    "norms": {name: ptx(name) for name in CASES},
    "blocks": {name: ptx(name) for name in BLOCKS},
}
for name in BLACKWELL:
    texts["blocks"] |= {f"{name} {number}": ptx(name, number) for number in (100, 120)}
print(json.dumps(texts))
