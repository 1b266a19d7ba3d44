# SPDX-License-Identifier: BSD-3-Clause
"""Tiles for all PEs, a fence, and relaxed counts of those that have come. PEs: 3."""

import numpy as np
import triton
import triton.language as tl

import pyshmem
import pyshmem.triton as shmem


@triton.jit
def gemm_push(part, inbox, flags, ctx, ME, N, B: tl.constexpr):
    p = tl.program_id(0)
    offs = p * B + tl.arange(0, B)
    mine = tl.load(part + offs) * 2
    for k in range(N):
        shmem.store(inbox + ME * 4 * B + offs, mine, k, ctx)
    shmem.fence(ctx)
    for k in range(N):
        shmem.atomic_add(flags + p, 1, k, ctx, sem="relaxed", scope="sys")


@triton.jit
def reduce(out, inbox, flags, ctx, N, B: tl.constexpr):
    p = tl.program_id(0)
    while tl.atomic_add(flags + p, 0, sem="acquire", scope="sys") < N:
        pass
    offs = p * B + tl.arange(0, B)
    acc = tl.zeros((B,), tl.float32)
    for k in range(N):
        acc += tl.load(inbox + k * 4 * B + offs)
    tl.store(out + offs, acc)


with pyshmem.init(device="sim") as job:
    me, n = job.my_pe, job.n_pes
    part, out = (pyshmem.ones(32, np.float32, heap="device") for _ in range(2))
    inbox = pyshmem.zeros(32 * n, np.float32, heap="device")
    flags = pyshmem.zeros(4, np.int32, heap="device")
    ctx = shmem.context()
    gemm_push[(4,)](part, inbox, flags, ctx, me, n, B=8)
    reduce[(4,)](out, inbox, flags, ctx, n, B=8)
    print(out.sum())
    pyshmem.barrier_all()
