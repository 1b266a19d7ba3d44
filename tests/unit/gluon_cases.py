# SPDX-License-Identifier: BSD-3-Clause
"""Kernels of Gluon that call every function of ``pyshmem.gluon``, compiled for sm_90 without a GPU.

As a program it prints their PTX as JSON: ``TRITON_INTERPRET=0 python gluon_cases.py FOLDER [names]``,
with ``STAGED=1`` as while a timeline is made. In the folder it leaves the kernels of the example.
"""

from __future__ import annotations

import builtins
import json
import os
import re
import sys
from pathlib import Path

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import compile
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon._runtime import GluonASTSource

import pyshmem.gluon as shmem
from pyshmem.host.observe import stages

EXAMPLE = Path(__file__).parents[2] / "examples" / "21_gluon_warp_groups.py"
CASES: dict[str, tuple] = {}

#: Gluon's own, which is in no file.
roads = sys.modules["pyshmem.gluon.primitives.job_constants"]

stages._compiled_in = bool(os.environ.get("STAGED"))  # as a timeline would
roads._bind(1 << 40)  # as init would


def case(constants=None, **types):
    def register(kernel):
        CASES[kernel.fn.__name__] = (kernel, types, constants or {})
        return kernel

    return register


@case({"B": 1024}, dest="*fp32", source="*fp32", pe="i32", ctx="*i64")
@gluon.jit
def tiles(dest, source, pe, ctx, B: gl.constexpr):
    layout: gl.constexpr = gl.BlockedLayout([4], [32], [gl.num_warps()], [0])
    offs = gl.arange(0, B, layout)
    m = offs < B - 1
    shmem.store(dest + offs, gl.load(source + offs), pe, ctx)
    gl.store(dest + offs, shmem.load(source + offs, pe, ctx))
    shmem.put(dest + offs, source + offs, pe, ctx, mask=m)
    shmem.get(dest + offs, source + offs, pe, ctx, mask=m)
    shmem.copy(dest + offs, source + offs, pe, pe + 1, ctx)
    gl.store(shmem.ptr(dest, pe, ctx) + offs, gl.load(source + offs))


@case({}, dest="*i32", pe="i32", ctx="*i64")
@gluon.jit
def atomics(dest, pe, ctx):
    layout: gl.constexpr = gl.BlockedLayout([1], [32], [gl.num_warps()], [0])
    offs = gl.arange(0, 128, layout)
    shmem.atomic_add(dest + offs, 1, pe, ctx, mask=offs < 100)
    shmem.atomic_sub(dest + offs, 1, pe, ctx)
    shmem.atomic_and(dest + offs, 1, pe, ctx, sem="relaxed")
    shmem.atomic_or(dest + offs, 1, pe, ctx)
    shmem.atomic_xor(dest + offs, 1, pe, ctx)
    shmem.atomic_min(dest + offs, 1, pe, ctx)
    shmem.atomic_max(dest + offs, 1, pe, ctx)
    shmem.atomic_xchg(dest + offs, 1, pe, ctx)
    gl.store(dest, shmem.atomic_cas(dest, 1, 2, pe, ctx))


@case({}, sig="*u64", words="*i32", n="i32", team="i32", pe="i32", ctx="*i64")
@gluon.jit
def signals(sig, words, n, team, pe, ctx):
    shmem.signal_op(sig, 1, shmem.SIGNAL_ADD, pe, ctx)
    shmem.signal_wait_until(sig, shmem.CMP_GE, shmem.signal_fetch(sig, ctx), ctx)
    shmem.wait_until(words, shmem.CMP_NE, 0, ctx)
    shmem.wait_until_all(words, n, shmem.CMP_GT, 0, ctx)
    found = shmem.wait_until_any(words, n, shmem.CMP_LT, 0, ctx)
    if shmem.test(words, shmem.CMP_LE, 3, ctx):
        gl.store(words + found, shmem.team_my_pe(team, ctx) + shmem.team_n_pes(team, ctx))
    shmem.fence(ctx)
    shmem.quiet(ctx)
    shmem.sync(ctx)
    shmem.barrier(ctx, team)
    shmem.barrier_grid(ctx)
    shmem.sync_grid(ctx, team)
    gl.store(words, shmem.team_translate_pe(team, 0, shmem.TEAM_WORLD, ctx))


@case({}, dest="*fp16", source="*fp16", sig="*u64", handler="i32", pe="i32", ctx="*i64")
@gluon.jit
def requests(dest, source, sig, handler, pe, ctx):
    shmem.put_chunk(dest, source, 100, pe, ctx)
    shmem.put_chunk(dest, source, 100, pe, ctx, sig, 3)
    shmem.get_chunk(dest, source, 100, pe, ctx)
    shmem.print("a number", 3, ctx)
    shmem.post(handler, 1, 2, 3, 4, ctx)
    if shmem.call(handler, 1, 2, 3, 4, ctx) != 7:
        shmem.abort(3, ctx, "the host said no")
    row, column = shmem.swizzle_by_pe(gl.program_id(0), 4, 4, pe, shmem.n_pes(ctx))
    gl.store(sig, (row + column).to(gl.uint64))


@case({"B": 1024}, dest="*fp32", source="*fp32", ctx="*i64")
@gluon.jit
def staged(dest, source, ctx, B: gl.constexpr):
    layout: gl.constexpr = gl.BlockedLayout([4], [32], [gl.num_warps()], [0])
    offs = gl.arange(0, B, layout)
    with shmem.stage("load", ctx, priority=1):
        tile = gl.load(source + offs)
    begin = shmem.stage_begin()
    gl.store(dest + offs, tile)
    shmem.stage_end(begin, "store", ctx)


def example_kernels(folder: str, namespace: dict) -> None:
    """The example's own kernels, without the program below them, which needs a GPU."""
    text = EXAMPLE.read_text()
    kernels = re.search(r"@gluon\.jit\ndef move\(.*?(?=\nwith pyshmem\.init)", text, re.DOTALL)
    assert kernels is not None
    path = Path(folder) / "gluon_example.py"  # Triton reads functions from their files
    head = text[text.index("from triton.experimental import gluon") : kernels.start()]
    path.write_text("import pyshmem.gluon as shmem\n" + head + kernels.group())
    exec(builtins.compile(path.read_text(), path, "exec"), namespace)


def ptx(kernel, types, constants) -> str:
    names = kernel.arg_names
    signature = {name: types.get(name, "constexpr") for name in names}
    aligned = {
        (k,): [["tt.divisibility", 16]] for k, n in enumerate(names) if signature[n][0] == "*"
    }
    values = {(names.index(k),): v for k, v in constants.items()}
    source = GluonASTSource(kernel, signature, values, aligned)
    compiled = compile(source, target=GPUTarget("cuda", 90, 32), options={"num_warps": 4})
    assert compiled.asm["cubin"]
    return compiled.asm["ptx"]


if __name__ == "__main__":
    space: dict = {"__name__": "gluon_example"}
    example_kernels(sys.argv[1], space)
    CASES["move_and_compute"] = (
        space["move_and_compute"],
        dict.fromkeys(("out", "inbox", "source"), "*fp32")
        | {"full": "*i64", "tiles": "i32", "ctx": "*i64"},
        {"B": 1024},
    )
    wanted = sys.argv[2:] or list(CASES)
    texts = {f"{name}-90": ptx(*CASES[name]) for name in wanted}
    json.dump({"version": triton.__version__, "ptx": texts}, sys.stdout)
