# SPDX-License-Identifier: BSD-3-Clause
"""What Triton computes on tiles, by dtype: values, or an error, interpreted as compiled for a GPU.

``test_tile_operations.py`` runs the operations, ``tests/unit/test_triton_ptx.py`` compiles them for
sm_90 by this file as a program, which prints those that do not compile, as JSON.
"""

from __future__ import annotations

import json

import triton
import triton.language as tl

N = tl.constexpr(8)


@triton.jit
def unary(x, out, WHAT: tl.constexpr):
    i = tl.arange(0, N)
    v = tl.load(x + i)
    if WHAT == "negative":
        v = -v
    elif WHAT == "abs":
        v = tl.abs(v)
    elif WHAT == "copy":
        v = v
    elif WHAT == "flip":
        v = tl.flip(v, 0)
    elif WHAT == "sort":
        v = tl.sort(v)
    elif WHAT == "descending":
        v = tl.sort(v, descending=1)
    elif WHAT == "cumsum":
        v = tl.cumsum(v, 0)
    elif WHAT == "cumsum from behind":
        v = tl.cumsum(v, 0, reverse=True)
    elif WHAT == "cumprod":
        v = tl.cumprod(v, 0)
    elif WHAT == "sum everywhere":
        v = tl.zeros((N,), v.dtype) + tl.sum(v, 0)
    elif WHAT == "reshape":
        v = tl.reshape(tl.trans(tl.reshape(v, (2, 4))), (N,))
    elif WHAT == "gather":
        v = tl.gather(v, 7 - i, 0)
    elif WHAT == "join":
        first, _ = tl.split(tl.join(v, v))
        v = first
    elif WHAT == "broadcast":
        v = tl.broadcast_to(tl.load(x + 2), (N,))
    elif WHAT == "full":
        v = tl.full((N,), 1.5, v.dtype)
    elif WHAT == "masked load":
        v = tl.load(x + i, mask=i > 3, other=0.0)
    elif WHAT == "as an int32":
        v = v.to(tl.int32)
    elif WHAT == "of an int32":
        v = (i - 4).to(v.dtype)
    elif WHAT == "of truth values":
        v = (i < 4).to(v.dtype)
    elif WHAT == "as a truth value":
        v = v.to(tl.int1)
    elif WHAT == "as fp16":
        v = v.to(tl.float16)
    elif WHAT == "as bf16":
        v = v.to(tl.bfloat16)
    elif WHAT == "as fp8e5":
        v = v.to(tl.float8e5)
    elif WHAT == "as fp8e4nv":
        v = v.to(tl.float8e4nv)
    elif WHAT == "as fp64":
        v = v.to(tl.float64)
    elif WHAT == "of fp64":
        v = (v.to(tl.float64) * 1.0625).to(v.dtype)
    elif WHAT == "of fp32":
        v = (v.to(tl.float32) * 1.0625).to(v.dtype)
    tl.store(out + i, v.to(tl.float32))


@triton.jit
def binary(x, y, out, WHAT: tl.constexpr):
    i = tl.arange(0, N)
    v, w = tl.load(x + i), tl.load(y + i)
    if WHAT == "add":
        v = v + w
    elif WHAT == "subtract":
        v = v - w
    elif WHAT == "multiply":
        v = v * w
    elif WHAT == "divide":
        v = v / w
    elif WHAT == "remainder":
        v = v % w
    elif WHAT == "maximum":
        v = tl.maximum(v, w)
    elif WHAT == "minimum":
        v = tl.minimum(v, w)
    elif WHAT == "where":
        v = tl.where(i % 2 == 0, v, w)
    elif WHAT == "fma":
        v = tl.fma(v, w, v)
    elif WHAT == "clamp":
        v = tl.clamp(v, -w, w)
    elif WHAT == "add a scalar":
        v = v + 1.5
    elif WHAT == "add a float32":
        v = v + w.to(tl.float32)
    elif WHAT == "less":
        v = v < w
    elif WHAT == "less as an int32":
        v = (v < w).to(tl.int32)
    elif WHAT == "equal or more":
        v = (v == w) | (v >= w)
    elif WHAT == "not less":
        v = ~(v < w)
    elif WHAT == "more than zero":
        v = v > 0.0
    elif WHAT == "where less":
        v = tl.where(v < w, v, w)
    tl.store(out + i, v.to(tl.float32))


@triton.jit
def _larger(a, b):
    return tl.where(a > b, a, b)


@triton.jit
def _sums(a, b, c, d):
    return a + c, b + d


@triton.jit
def scalar(x, y, out, WHAT: tl.constexpr):
    i = tl.arange(0, N)
    v, w = tl.load(x + i), tl.load(y + i)
    if WHAT == "sum":
        v = tl.sum(v, 0)
    elif WHAT == "max":
        v = tl.max(v, 0)
    elif WHAT == "min":
        v = tl.min(v, 0)
    elif WHAT == "argmax":
        v = tl.argmax(v, 0)
    elif WHAT == "argmin":
        v = tl.argmin(v, 0)
    elif WHAT == "max with index":
        value, index = tl.max(v, 0, return_indices=True)
        v = value.to(tl.float32) + index
    elif WHAT == "min with index":
        value, index = tl.min(v, 0, return_indices=True)
        v = value.to(tl.float32) + index
    elif WHAT == "own reduction":
        v = tl.reduce(v, 0, _larger)
    elif WHAT == "own reduction of two":
        v, w = tl.reduce((v, w), 0, _sums)
        v = v - w
    elif WHAT == "sum of a comparison":
        v = tl.sum((v < w).to(tl.int32), 0)
    elif WHAT == "any":
        v = tl.max((v < w).to(tl.int32), 0)
    elif WHAT == "sum of float32":
        v = tl.sum(v, 0, dtype=tl.float32)
    tl.store(out, v.to(tl.float32))


@triton.jit
def rows(x, out, WHAT: tl.constexpr):
    places = tl.arange(0, 2)[:, None] * 4 + tl.arange(0, 4)[None, :]
    v = tl.load(x + places)
    if WHAT == "sums of rows":
        v = tl.sum(v, 1, keep_dims=True)
    elif WHAT == "argmax of rows":
        v = tl.argmax(v, 1, keep_dims=True)
    elif WHAT == "cumsum of rows":
        v = tl.cumsum(v, 1)
    elif WHAT == "own scan of rows":
        v = tl.associative_scan(v, 1, _larger)
    elif WHAT == "max of columns":
        v = tl.max(v, 0, return_indices=True, keep_dims=True)[0]
    tl.store(out + places, tl.broadcast_to(v.to(tl.float32), (2, 4)))


@triton.jit
def atomic(x, y, out, WHAT: tl.constexpr):
    i = tl.arange(0, N)
    w = tl.load(y + i)
    if WHAT == "atomic add":
        old = tl.atomic_add(x + i, w)
    elif WHAT == "masked atomic add":
        old = tl.where(i < 4, tl.atomic_add(x + i, w, mask=i < 4), 0.0)
    elif WHAT == "atomic max":
        old = tl.atomic_max(x + i, w)
    elif WHAT == "atomic exchange":
        old = tl.atomic_xchg(x + i, w)
    elif WHAT == "atomic and":
        old = tl.atomic_and(x + i, w)
    tl.store(out + i, old.to(tl.float32))


ONE_TILE = (
    "negative", "abs", "copy", "flip", "sort", "descending", "cumsum", "cumsum from behind", "cumprod",
    "sum everywhere", "reshape", "gather", "join", "broadcast", "full", "masked load",
    "as an int32", "of an int32", "of truth values", "as a truth value", "as fp16", "as bf16",
    "as fp8e5",
    "as fp8e4nv", "as fp64", "of fp64", "of fp32",
)  # fmt: skip
TWO_TILES = (
    "add", "subtract", "multiply", "divide", "remainder", "maximum", "minimum", "where", "fma",
    "clamp", "add a scalar",
    "add a float32", "less", "less as an int32", "equal or more", "not less", "more than zero",
    "where less",
)  # fmt: skip
TO_A_SCALAR = (
    "sum", "max", "min", "argmax", "argmin", "max with index", "min with index", "own reduction",
    "own reduction of two", "sum of a comparison", "any", "sum of float32",
)  # fmt: skip
OF_ROWS = (
    "sums of rows", "argmax of rows", "cumsum of rows", "own scan of rows", "max of columns",
)  # fmt: skip
ATOMIC = (
    "atomic add", "masked atomic add", "atomic max", "atomic exchange", "atomic and",
)  # fmt: skip
#: The kernel of each operation, and whether it takes two arrays.
OPERATIONS = {
    **dict.fromkeys(ONE_TILE, (unary, False)), **dict.fromkeys(TWO_TILES, (binary, True)),
    **dict.fromkeys(TO_A_SCALAR, (scalar, True)), **dict.fromkeys(OF_ROWS, (rows, False)),
    **dict.fromkeys(ATOMIC, (atomic, True)),
}  # fmt: skip
#: Those that are no arithmetic: FP8 is moved, or converted first.
_WITH_FP8 = {
    "abs", "copy", "flip", "reshape", "gather", "join", "broadcast", "full", "masked load",
    "divide", "remainder", "where",
    "add a float32", "max", "min", "sum of float32", "as fp16", "as bf16", "of fp32",
}  # fmt: skip
VERSION = tuple(map(int, triton.__version__.split(".")[:2]))
#: What Triton compiles otherwise for FP8 before 3.9: there is no quotient, and a constant beside a tile
#: is a float32; nor a constant of FP8 in 3.6.
if VERSION < (3, 9):
    _WITH_FP8 = _WITH_FP8 - {"divide", "remainder"} | {"more than zero"}
if VERSION < (3, 7):
    _WITH_FP8 = _WITH_FP8 - {"full"}
#: By dtype: what does not compile for a GPU, and what the interpreter refuses.
REFUSED = {
    "fp32": set(), "fp16": {"atomic max", "atomic exchange", "atomic and"},
    "bf16": {"atomic max", "atomic exchange", "atomic and"},
    "fp8e4nv": OPERATIONS.keys() - _WITH_FP8 - {"as fp8e4nv"},
    "fp8e5": OPERATIONS.keys() - _WITH_FP8 - {"as fp8e5"},
}  # fmt: skip
DTYPES = ("fp32", "fp16", "bf16", "fp8e4nv", "fp8e5")


def compile_all() -> dict[str, dict]:
    """By dtype: how many operations compile for sm_90, and how many do not; others than REFUSED."""
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource, compile

    target, found = GPUTarget("cuda", 90, 32), {}
    for dtype in DTYPES:
        errors = {}
        for what, (kernel, two) in OPERATIONS.items():
            types = {"x": f"*{dtype}"} | ({"y": f"*{dtype}"} if two else {}) | {"out": "*fp32"}
            source = ASTSource(kernel, types | {"WHAT": "constexpr"}, {"WHAT": what})
            try:
                compile(source, target=target)
            except Exception as error:
                errors[what] = str(error)[-200:]
        other = {what: errors.get(what, "it compiles") for what in errors.keys() ^ REFUSED[dtype]}
        counts = {"compiled": len(OPERATIONS) - len(errors), "refused": len(errors)}
        found[dtype] = counts | {"unexpected": other}
    return found


if __name__ == "__main__":
    print(json.dumps(compile_all()))
