# SPDX-License-Identifier: BSD-3-Clause
"""Kernels that call every function of ``pyshmem.triton``, compiled without a GPU.

As a program it compiles them all for sm_90, sm_80 and sm_100 with the Triton it runs on and prints the
PTX as JSON: ``TRITON_INTERPRET=0 python triton_cases.py [names]``; with ``PYSHMEM_P2P=0`` for peers that
loads and stores do not reach, and with ``STAGED=1`` as while a timeline is made.
"""

from __future__ import annotations

import json
import os
import sys

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource, compile

import pyshmem.triton as shmem
import pyshmem.triton.dist as dl
from pyshmem.host.observe import stages
from pyshmem.interop import iris
from pyshmem.interop.triton_dist.language.extra import language_extra, libshmem_device
from pyshmem.triton import ll_channels as channels
from pyshmem.triton import task_source, tasks
from pyshmem.triton.primitives import job_constants as job_constants

stages._compiled_in = bool(os.environ.get("STAGED"))  # as a timeline would
job_constants._bind(1 << 40)  # as init would

CASES: dict[str, tuple] = {}


def case(constants=None, **types):
    """The kernel's arguments: pointers are 16-byte aligned, as Triton finds them at a launch."""

    def register(kernel):
        CASES[kernel.fn.__name__] = (kernel, types, constants or {})
        return kernel

    return register


@case({"B": 1024}, dest="*fp32", source="*fp32", n="i32", pe="i32", ctx="*i64")
@triton.jit
def copy_out(dest, source, n, pe, ctx, B: tl.constexpr):
    i = tl.program_id(0) * B
    while i < n:
        offs = i + tl.arange(0, B)
        shmem.store(dest + offs, tl.load(source + offs), pe, ctx)
        i += tl.num_programs(0) * B


@case({"B": 1024}, dest="*bf16", source="*bf16", n="i32", pe="i32", ctx="*i64")
@triton.jit
def copy_in(dest, source, n, pe, ctx, B: tl.constexpr):
    i = tl.program_id(0) * B
    while i < n:
        offs = i + tl.arange(0, B)
        tl.store(dest + offs, shmem.load(source + offs, pe, ctx))
        i += tl.num_programs(0) * B


@case({"B": 1024}, dest="*i8", source="*i8", n="i32", pe="i32", ctx="i64")
@triton.jit
def masked(dest, source, n, pe, ctx, B: tl.constexpr):
    offs = tl.arange(0, B)
    m = offs < n
    shmem.put(dest + offs, source + offs, pe, ctx, mask=m)
    shmem.get(dest + offs, source + offs, pe, ctx, mask=m, other=0)
    shmem.copy(dest + offs, source + offs, pe, pe + 1, ctx, mask=m)
    tl.store(shmem.ptr(dest, pe, ctx) + offs, 1, mask=m)
    shmem.store(dest + offs, 1, pe, ctx, mask=m, eviction_policy="evict_first")
    shmem.store(dest + offs, 1, pe, ctx, mask=m, cache_modifier=".cs")


@case({"B": 128}, dest="*i32", pe="i32", ctx="*i64")
@triton.jit
def atomics(dest, pe, ctx, B: tl.constexpr):
    offs = tl.arange(0, B)
    shmem.atomic_add(dest + offs, 1, pe, ctx, mask=offs < 100)
    shmem.atomic_sub(dest + offs, 1, pe, ctx)
    shmem.atomic_and(dest + offs, 1, pe, ctx, sem="relaxed")
    shmem.atomic_or(dest + offs, 1, pe, ctx)
    shmem.atomic_xor(dest + offs, 1, pe, ctx)
    shmem.atomic_min(dest + offs, 1, pe, ctx)
    shmem.atomic_max(dest + offs, 1, pe, ctx)
    old = shmem.atomic_xchg(dest + offs, 1, pe, ctx)
    tl.store(dest + offs, shmem.atomic_cas(dest + offs, old, 1, pe, ctx))


@case({"B": 128}, dest="*i32", pes="*i32", ctx="*i64")
@triton.jit
def many_pes(dest, pes, ctx, B: tl.constexpr):
    to = tl.load(pes + tl.arange(0, B))
    shmem.store(dest + to, shmem.atomic_add(dest + to, 1, to, ctx), to, ctx, mask=to < 3)


@case({"B": 1024}, dest="*fp32", source="*fp32", sig="*u64", pe="i32", ctx="*i64")
@triton.jit
def signals(dest, source, sig, pe, ctx, B: tl.constexpr):
    offs = tl.arange(0, B)
    shmem.put_signal(dest + offs, source + offs, sig, 1, shmem.SIGNAL_SET, pe, ctx)
    shmem.signal_wait_until(sig, shmem.CMP_EQ, 1, ctx)


@case({}, sig="*i64", pe="i32", ctx="*i64")
@triton.jit
def more_signals(sig, pe, ctx):
    shmem.signal_op(sig, 1, shmem.SIGNAL_ADD, pe, ctx)
    shmem.signal_op(sig, 1, shmem.SIGNAL_ADD, pe, ctx, "relaxed")
    shmem.signal_op(sig, 2, shmem.SIGNAL_SET, pe, ctx, sem="relaxed")
    seen = shmem.signal_wait_until(sig, shmem.CMP_GE, 5, ctx, pe)
    tl.store(sig, seen + shmem.signal_fetch(sig, ctx))


@case({}, sig="*i64", rounds="i64", ctx="*i64")
@triton.jit
def rounds_of_signals(sig, rounds, ctx):
    other = 1 - shmem.my_pe(ctx)
    for turn in range(rounds):
        shmem.signal_op(sig, turn, shmem.SIGNAL_SET, other, ctx)
        shmem.signal_wait_until(sig, shmem.CMP_GE, turn, ctx)


@case({}, rounds="i64", ctx="*i64")
@triton.jit
def rounds_of_grids(rounds, ctx):
    for _ in range(rounds):
        shmem.barrier_grid(ctx)


@case({}, words="*i32", n="i32", ctx="*i64")
@triton.jit
def waits(words, n, ctx):
    seen = shmem.wait_until(words, shmem.CMP_NE, 0, ctx)
    shmem.wait_until_all(words, n, shmem.CMP_GT, 0, ctx)
    found = shmem.wait_until_any(words, n, shmem.CMP_LT, 0, ctx)
    if shmem.test(words, shmem.CMP_LE, 3, ctx):
        tl.store(words + found, seen)


@case({}, words="*i32", team="i32", ctx="*i64")
@triton.jit
def meetings(words, team, ctx):
    shmem.fence(ctx)
    shmem.quiet(ctx)
    shmem.sync(ctx)
    shmem.barrier(ctx, team)
    tl.store(words, shmem.my_pe(ctx) + shmem.n_pes(ctx))
    tl.store(words + 1, shmem.team_my_pe(team, ctx) + shmem.team_n_pes(team, ctx))
    tl.store(words + 2, shmem.team_translate_pe(team, 0, shmem.TEAM_WORLD, ctx))


@case({}, team="i32", ctx="*i64")
@triton.jit
def grid_meetings(team, ctx):
    shmem.sync_grid(ctx)
    shmem.barrier_grid(ctx, team)


@case({"B": 1024}, dest="*fp32", source="*fp32", words="*i64", ctx="*i64")
@triton.jit
def one_shot(dest, source, words, ctx, B: tl.constexpr):
    offs = tl.arange(0, B)
    tl.store(dest + offs, shmem.all_reduce(tl.load(source + offs), words, ctx))


@case({"B": 1024}, dest="*bf16", source="*bf16", words="*i64", ctx="*i64")
@triton.jit
def two_shots(dest, source, words, ctx, B: tl.constexpr):
    offs = tl.arange(0, B)
    tile = shmem.all_reduce(tl.load(source + offs), words, ctx, "max", two_shots=True)
    tl.store(dest + offs, tile)


@case({"B": 1}, dest="*fp16", source="*fp16", words="*i64", ctx="*i64")
@triton.jit
def one_element(dest, source, words, ctx, B: tl.constexpr):
    offs = tl.arange(0, B)
    tl.store(dest + offs, shmem.all_reduce(tl.load(source + offs), words, ctx))


@case({"B": 64}, dest="*i64", source="*i64", root="i32", words="*i64", ctx="*i64")
@triton.jit
def spread(dest, source, root, words, ctx, B: tl.constexpr):
    offs = tl.arange(0, B)
    tile = shmem.broadcast(tl.load(source + offs), root, words, ctx)
    shmem.fcollect(dest + offs, tile, B, words, ctx)
    shmem.alltoall(dest + offs, source + offs, B, words, ctx)


@case({"B": 2048}, dest="*bf16", source="*bf16", n="i32", ctx="*i64")
@triton.jit
def reduce_large(dest, source, n, ctx, B: tl.constexpr):
    shmem.all_reduce_grid(dest, source, n, ctx, B)


@case({"B": 2048}, dest="*bf16", source="*bf16", n="i32", words="*i64", ctx="*i64")
@triton.jit
def reduce_large_by_words(dest, source, n, words, ctx, B: tl.constexpr):
    shmem.all_reduce_grid(dest, source, n, ctx, B, words=words)


@case({"B": 4096}, dest="*u32", words="*i64", ctx="*i64")
@triton.jit
def pairs_of_units(dest, words, ctx, B: tl.constexpr):
    offs = tl.arange(0, B)
    number, base, step, row = channels.begin(words, B, 0, 0, ctx)
    wanted = 2 * tl.arange(0, B // 2) < B - 8
    tl.store(dest + offs, channels.receive_pairs(base, step, wanted, number, 1, 0, row, 0, ctx))


@case({}, dest="*fp16", source="*fp16", n="i64", sig="*u64", pe="i32", ctx="*i64")
@triton.jit
def chunks(dest, source, n, sig, pe, ctx):
    shmem.put_chunk(dest, source, n, pe, ctx)
    shmem.put_chunk(dest, source, n, pe, ctx, sig, 3)
    shmem.get_chunk(dest, source, n, pe, ctx)
    shmem.quiet(ctx)


@case({}, value="fp32", handler="i32", ctx="*i64")
@triton.jit
def messages(value, handler, ctx):
    shmem.print("a value of mine", value, ctx)
    shmem.print("", 3, ctx)
    shmem.print("alone", None, ctx)
    shmem.post(handler, 1, 2, 3, 4, ctx)
    if shmem.call(handler, 1, 2, 3, 4, ctx) != 7:
        shmem.abort(3, ctx, "the host said no")


@case({"B": 4}, found="*i32", pe="i32", n_pes="i32")
@triton.jit
def orders(found, pe, n_pes, B: tl.constexpr):
    row, column = shmem.swizzle_by_pe(tl.program_id(0), B, B, pe, n_pes)
    tl.store(found, row + column)
    row, column = shmem.swizzle_by_pe_last(tl.program_id(0), B, B, pe, n_pes)
    tl.store(found + 1, row + column)
    row, column = shmem.swizzle_straddling_first(tl.program_id(0), 100, 16, B, pe, n_pes)
    tl.store(found + 2, row + column)


@case({"B": 256}, dest="*fp32", source="*fp32", flags="*i32", sig="*u64", nbytes="i32")
@triton.jit
def distributed(dest, source, flags, sig, nbytes, B: tl.constexpr):
    right = (dl.rank() + 1) % dl.num_ranks()
    offs = tl.arange(0, B)
    tl.store(dl.symm_at(dest, right) + offs, tl.load(source + offs))
    dl.notify(flags, right, 1, sig_op="add", comm_scope="intra_node")
    dl.notify(flags, right)
    token = dl.wait(flags, 2, "sys", "acquire", waitValue=1)
    dest = dl.consume_token(dest, token)
    dl.putmem_signal_block(dest, source, nbytes, sig, 1, dl.SIGNAL_SET, right)
    dl.signal_wait_until(sig, dl.CMP_EQ, 1)
    dl.getmem_block(dest, source, nbytes, right)
    dl.fence_block()
    dl.quiet_block()
    dl.barrier_all_block()
    dl.sync_all_block()


@case({"B": 1024}, data="*bf16", results="*bf16", n="i32", here="i32", there="i32", bases="*u64")
@triton.jit
def irises(data, results, n, here, there, bases, B: tl.constexpr):
    offs = tl.program_id(0) * B + tl.arange(0, B)
    m = offs < n
    tile = iris.load(data + offs, here, there, bases, mask=m, cache_modifier=None)
    iris.store(results + offs, tile, here, there, bases, mask=m, cache_modifier=".cs", hint=8)
    iris.get(data + offs, results + offs, here, there, bases, mask=m)
    iris.put(data + offs, results + offs, here, there, bases, mask=m)
    iris.copy(data + offs, results + offs, here, there, here, bases, mask=m)


@case({}, words="*i32", sig="*i64", data="*fp32", n="i32", pe="i32")
@triton.jit
def libshmem(words, sig, data, n, pe):
    libshmem_device.int_p(words, 1, pe)
    libshmem_device.putmem_signal_nbi_warp(
        data, data, n, sig, 1, libshmem_device.NVSHMEM_SIGNAL_ADD, pe
    )
    libshmem_device.getmem(data, data, n, pe)
    libshmem_device.fcollect(libshmem_device.NVSHMEM_TEAM_WORLD, data, data, n)
    libshmem_device.broadcast_block(libshmem_device.NVSHMEMX_TEAM_NODE, data, data, n, 0)
    libshmem_device.signal_wait_until(sig, libshmem_device.NVSHMEM_CMP_GE, 1)
    libshmem_device.barrier_all()
    if language_extra.tid(0) + language_extra.tid(1) == 0:
        language_extra.st(words, 7, scope="gpu", semantic="release")
    old = language_extra.atomic_add(words + 1, 5, scope="sys", semantic="relaxed")
    seen = language_extra.atomic_cas(words + 1, old, 6, "sys", "acq_rel")
    tl.store(words + 2, language_extra.ld(words, "sys", "acquire") + seen)
    tl.store(words + 3, language_extra.num_warps() + language_extra.num_threads())
    language_extra.__syncthreads()


@case({"B": 1024, "here": 0}, context="*i64", data="*bf16", counts="*i32", there="i32")
@triton.jit
def iris_context(context, data, counts, there, here: tl.constexpr, B: tl.constexpr):
    offs = tl.arange(0, B)
    ctx = iris.DeviceContext.initialize(context, here, 2)
    tile = ctx.load(data + offs, from_rank=there, mask=offs < 1000, cache_modifier=".cg")
    ctx.store(data + offs, tile, to_rank=there, mask=offs < 1000, cache_modifier=".wt")
    ctx.get(data + offs, data + offs, there)
    ctx.put(data + offs, data + offs, there, load_cache_modifier=".ca", store_cache_modifier=".cs")
    ctx.copy(data + offs, data + offs, there, here)
    old = ctx.atomic_add(counts, 1, to_rank=there, sem="relaxed", scope="gpu")
    ctx.atomic_cas(counts, old, 1, there)
    ctx.atomic_min(counts, ctx.atomic_max(counts, ctx.atomic_xchg(counts, 1, there), there), there)


@case({"B": 1024}, data="*bf16", results="*bf16", n="i32", root="i32", ctx="*i64")
@triton.jit
def iris_roots(data, results, n, root, ctx, B: tl.constexpr):
    """``ctx.ccl``'s with a root, which a launch specialises where it is 1."""
    iris.ccl._of_root(results, data, n, root, ctx, True, B)
    iris.ccl._of_root(data, data, n, 1, ctx, False, B)
    iris.ccl._to_root(results, data, n, root, ctx, B)
    iris.ccl._to_root(results, data, 1, 1, ctx, B)
    iris.ccl._reduce(data, n, root, ctx, B)
    iris.ccl._reduce(data, n, 1, ctx, B)


@case({"B": 32}, data="*i32", here="i32", there="i32", bases="*u64")
@triton.jit
def iris_atomics(data, here, there, bases, B: tl.constexpr):
    offs = tl.arange(0, B)
    iris.atomic_add(data + offs, 1, here, there, bases, sem="release", scope="sys")
    iris.atomic_sub(data + offs, 1, here, there, bases)
    iris.atomic_xchg(data + offs, 1, here, there, bases, mask=offs < 5)
    iris.atomic_xor(data + offs, 1, here, there, bases, sem=None, scope=None)
    iris.atomic_and(data + offs, 1, here, there, bases)
    iris.atomic_or(data + offs, 1, here, there, bases)
    iris.atomic_min(data + offs, 1, here, there, bases)
    iris.atomic_max(data + offs, 1, here, there, bases)
    while iris.atomic_cas(data, 1, 0, here, there, bases, sem="acquire", scope="sys") != 1:
        pass


@triton.jit
def scale_tile(tile, x, y, ctx, B: tl.constexpr):
    offs = tile * B + tl.arange(0, B)
    tl.store(y + offs, tl.load(x + offs) * 2)


@triton.jit
def reduce_tile(tile, y, words, ctx, B: tl.constexpr):
    offs = tile * B + tl.arange(0, B)
    tl.store(y + offs, shmem.all_reduce(tl.load(y + offs), words, ctx))


@triton.jit
def scale_ahead(tile, x, y, ctx, B: tl.constexpr):
    tasks.prefetch(x + tile * B + tl.arange(0, B // 32) * 32)
    tasks.prefetch(y + tile * B + tl.arange(0, B // 128) * 128, 512)


graph = tasks.Graph("task_graph")
scaled = graph.add(scale_tile, tiles=9, args=(0, 0), constants={"B": 1024}, ahead=scale_ahead)
graph.add(reduce_tile, tiles=9, args=(0, 0), constants={"B": 1024}, after=[(scaled, range)])
flags = tasks._places_of_flags(graph.tasks)
CASES["task_graph"] = (
    task_source.compiled(
        "task_graph", task_source.source("task_graph", graph.tasks, flags, 4), graph.tasks
    ),
    dict.fromkeys(("rows", "needs", "board", "launches", "ctx", "a1_1"), "*i64")
    | dict.fromkeys(("a0_0", "a0_1", "a1_0"), "*fp32"),
    {"c0_B": 1024, "c1_B": 1024},
)


@case({"B": 256}, dest="*fp32", source="*fp32", n="i32", pe="i32", ctx="*i64")
@triton.jit
def staged(dest, source, n, pe, ctx, B: tl.constexpr):
    offs = tl.arange(0, B)
    for i in range(n):
        with shmem.stage("load", ctx, priority=3):
            tile = tl.load(source + i * B + offs)
        begin = shmem.stage_begin()
        shmem.store(dest + i * B + offs, tile, pe, ctx)
        shmem.stage_end(begin, "store", ctx)


@case({"B": 256}, dest="*fp32", source="*fp32", n="i32", pe="i32", ctx="*i64")
@triton.jit
def unstaged(dest, source, n, pe, ctx, B: tl.constexpr):
    offs = tl.arange(0, B)
    for i in range(n):
        tile = tl.load(source + i * B + offs)
        shmem.store(dest + i * B + offs, tile, pe, ctx)


def ptx(name: str, architecture: int) -> str:
    kernel, types, constants = CASES[name]
    names = kernel.arg_names
    aligned = {
        (names.index(k),): [["tt.divisibility", 16]]
        for k, v in types.items()
        if v.startswith("*") or k == "n"
    }
    signature = {k: types.get(k, "constexpr") for k in names}
    values = {(names.index(k),): v for k, v in constants.items()}
    source = ASTSource(kernel, signature, values, aligned)
    compiled = compile(source, target=GPUTarget("cuda", architecture, 32), options={"num_warps": 4})
    assert compiled.asm["cubin"]
    return compiled.asm["ptx"]


if __name__ == "__main__":
    wanted = sys.argv[1:] or list(CASES)
    architectures = (90, 80, 100) if job_constants._ALL_P2P else (90,)
    texts = {f"{name}-{arch}": ptx(name, arch) for name in wanted for arch in architectures}
    json.dump({"version": triton.__version__, "ptx": texts}, sys.stdout)
