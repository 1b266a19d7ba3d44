# SPDX-License-Identifier: BSD-3-Clause
"""Iris: two peers add with release to one counter, one has come, which? PEs: 3."""

import numpy as np
import triton
import triton.language as tl

import pyshmem
import pyshmem.triton as shmem


@triton.jit
def produce(box, count, ctx, ME: tl.constexpr, B: tl.constexpr):
    offs = tl.arange(0, B)
    shmem.store(box + ME * B + offs, offs + ME, 0, ctx)  # <1>
    shmem.atomic_add(count, 1, 0, ctx, sem="release", scope="sys")


@triton.jit
def consume(out, box, count, ctx, B: tl.constexpr):
    shmem.wait_until(count, shmem.CMP_GE, 1, ctx)
    offs = tl.arange(0, B)
    tl.store(out + offs, tl.load(box + B + offs))  # <2>


with pyshmem.init(device="sim") as job:
    me, n = job.my_pe, job.n_pes
    box, out = (pyshmem.zeros(24, np.int64, heap="device") for _ in range(2))
    count = pyshmem.zeros(1, np.int32, heap="device")
    if me:
        produce[(1,)](box, count, shmem.context(), ME=me, B=8)
    else:
        consume[(1,)](out, box, count, shmem.context(), B=8)
    pyshmem.barrier_all()
