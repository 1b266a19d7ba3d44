# SPDX-License-Identifier: BSD-3-Clause
"""Signals, waits, meetings and collectives of pyshmem.triton, by two programs a PE."""

import numpy as np
import triton
import triton.language as tl

import pyshmem
import pyshmem.triton as shmem

B = 8


@triton.jit
def signals(dest, out, sig, ctx, B: tl.constexpr):
    me, n = shmem.my_pe(ctx), shmem.n_pes(ctx)
    p, right = tl.program_id(0), (me + 1) % n
    offs = p * B + tl.arange(0, B)
    for k in range(3):
        shmem.store(dest + offs, offs + 10 * me + k, right, ctx)
        shmem.signal_op(sig + p, 1, shmem.SIGNAL_ADD, right, ctx)
        shmem.signal_wait_until(sig + p, shmem.CMP_EQ, k + 1, ctx)
        tl.store(out + offs, tl.load(dest + offs))
        shmem.sync_grid(ctx)
    shmem.store(dest + offs, offs + 7 * me, right, ctx)
    shmem.barrier_grid(ctx)
    tl.store(out + offs, tl.load(dest + offs))


@triton.jit
def relaxed(dest, out, sig, ctx, B: tl.constexpr):
    me, n = shmem.my_pe(ctx), shmem.n_pes(ctx)
    p, right = tl.program_id(0), (me + 1) % n
    offs = p * B + tl.arange(0, B)
    shmem.store(dest + offs, offs + me, right, ctx)
    shmem.fence(ctx)
    shmem.signal_op(sig + p, 1, shmem.SIGNAL_SET, right, ctx, sem="relaxed")
    shmem.wait_until(sig + p, shmem.CMP_EQ, 1, ctx)
    tl.store(out + offs, tl.load(dest + offs))


@triton.jit
def alone(dest, out, flags, ctx, B: tl.constexpr):
    me, n = shmem.my_pe(ctx), shmem.n_pes(ctx)
    right, offs = (me + 1) % n, tl.arange(0, B)
    for k in range(3):
        shmem.put(dest + offs, out + B + offs, right, ctx)
        shmem.barrier(ctx)
        tl.store(out + offs, tl.load(dest + offs) + k)
        shmem.sync(ctx)
    for pe in range(n):
        shmem.store(dest + me * B + offs, offs + pe, pe, ctx)
        shmem.signal_op(flags + me, 1, shmem.SIGNAL_SET, pe, ctx)
    shmem.wait_until_all(flags, n, shmem.CMP_EQ, 1, ctx)
    for pe in range(n):
        tl.store(out + pe * B + offs, tl.load(dest + pe * B + offs))


@triton.jit
def tiles(x, out, words, ctx, B: tl.constexpr):
    p, n = tl.program_id(0), shmem.n_pes(ctx)
    offs = p * B + tl.arange(0, B)
    for _ in range(3):
        got = shmem.all_reduce(tl.load(x + offs), words, ctx)
        tl.store(out + offs, shmem.broadcast(got, 1, words, ctx))
    tl.store(out + offs, got * n)


@triton.jit
def grids(x, out, got, words, ctx, B: tl.constexpr):
    offs = tl.arange(0, 2 * B)
    for k in range(2):
        tl.store(x + offs, (offs + k).to(tl.float32))
        shmem.all_reduce_grid(out, x, 2 * B, ctx, B, words=words)
        tl.store(got + offs, tl.load(out + offs))
        shmem.all_reduce_grid(out, x, 2 * B, ctx, B)
        tl.store(got + offs, tl.load(out + offs))


def check(found, want):
    assert np.array_equal(np.asarray(found), want), (found, want)


with pyshmem.init(device="sim") as job:
    me, n = job.my_pe, job.n_pes
    left, at = (me - 1) % n, np.arange(2 * B)
    dest, out = (pyshmem.zeros(n * 2 * B, np.int64, heap="device") for _ in range(2))
    sig, flags, told = (pyshmem.zeros(n + 2, np.uint64, heap="device") for _ in range(3))
    x = pyshmem.zeros(2 * B, np.float32, heap="device")
    total, got = (pyshmem.zeros(2 * B, np.float32, heap="device") for _ in range(2))
    words = shmem.channel(programs=2, nbytes=4 * B)
    x[:] = at + me
    pyshmem.barrier_all()
    signals[(2,)](dest, out, sig, shmem.context(), B=B)
    check(out[: 2 * B], at + 7 * left)
    pyshmem.barrier_all()
    relaxed[(2,)](dest, out, told, shmem.context(), B=B)
    check(out[: 2 * B], at + left)
    pyshmem.barrier_all()
    alone[(1,)](dest, out, flags, shmem.context(), B=B)
    check(out[: n * B], np.tile(at[:B] + me, n))
    pyshmem.barrier_all()
    tiles[(2,)](x, total, words, shmem.context(), B=B)
    check(total, n * (n * at + sum(range(n))))
    grids[(1,)](x, total, got, words, shmem.context(), B=B)
    check(got, n * (at + 1))
