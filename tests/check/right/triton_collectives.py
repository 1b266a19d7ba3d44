# SPDX-License-Identifier: BSD-3-Clause
"""Tiles reduced and collected by a channel, a grid that meets, a reduction by grids. PEs: 2."""

import numpy as np
import triton
import triton.language as tl

import pyshmem
import pyshmem.triton as shmem


@triton.jit
def work(out, data, big, words, ctx, B: tl.constexpr):
    me = shmem.my_pe(ctx)
    p = tl.program_id(0)
    offs = tl.arange(0, B)
    tile = shmem.all_reduce(tl.load(data + p * B + offs), words, ctx)
    shmem.fcollect(out + p * 2 * B + offs, tile, B, words, ctx)
    tl.store(big + p * B + offs, tl.load(out + p * 2 * B + offs))
    shmem.barrier_grid(ctx)
    other = shmem.load(big + (1 - p) * B + offs, 1 - me, ctx)
    shmem.barrier_grid(ctx)
    tl.store(big + p * B + offs, other)
    shmem.all_reduce_grid(big, big, 2 * B, ctx, B)
    tl.store(out + p * 2 * B + offs, tl.load(big + (1 - p) * B + offs))


with pyshmem.init(device="sim") as job:
    data, big = (pyshmem.ones(16, np.float32, heap="device") for _ in range(2))
    out = pyshmem.zeros(32, np.float32, heap="device")
    words = shmem.channel(2, 256)
    work[(2,)](out, data, big, words, shmem.context(), B=8)
    print(out.sum(), big.sum())
