# SPDX-License-Identifier: BSD-3-Clause
"""Compiles bitwise atomics of floats for sm_90 and prints what is said. Triton itself takes some."""

from __future__ import annotations

import json

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource, compile

import pyshmem.triton as shmem
from pyshmem.interop import iris
from pyshmem.triton.primitives import job_constants as roads

roads._bind(1 << 40)  # as init would


@triton.jit
def bitwise(dest, other, ctx, WHAT: tl.constexpr):
    value = tl.load(other)
    if WHAT == "and":
        shmem.atomic_and(dest, value, 0, ctx)
    elif WHAT == "or":
        shmem.atomic_or(dest, value, 0, ctx)
    else:
        shmem.atomic_xor(dest, value, 0, ctx)


@triton.jit
def bitwise_of_iris(dest, other, ctx, WHAT: tl.constexpr):
    value = tl.load(other)
    if WHAT == "and":
        iris.atomic_and(dest, value, 0, 1, ctx)
    elif WHAT == "or":
        iris.atomic_or(dest, value, 0, 1, ctx)
    else:
        iris.atomic_xor(dest, value, 0, 1, ctx)


def said(kernel, dtype: str, what: str) -> str:
    """The texts of the errors; empty: it compiles."""
    types = {"dest": f"*{dtype}", "other": f"*{dtype}", "ctx": "*i64", "WHAT": "constexpr"}
    try:
        compile(ASTSource(kernel, types, {"WHAT": what}), target=GPUTarget("cuda", 90, 32))
    except Exception as raised:
        texts, error = [], raised
        while error is not None:
            texts.append(str(error))
            error = error.__cause__
        return "\n".join(texts)
    return ""


if __name__ == "__main__":
    print(
        json.dumps(
            [
                (what, dtype, said(kernel, dtype, what))
                for kernel in (bitwise, bitwise_of_iris)
                for dtype in ("fp32", "fp64", "fp16", "bf16", "i32", "u64")
                for what in ("and", "or", "xor")
            ]
        )
    )
