# SPDX-License-Identifier: BSD-3-Clause
"""A kernel gets what the neighbour's kernel stores to a third PE, behind sync_all. PEs: 3."""

import numpy as np
import triton
import triton.language as tl

import pyshmem
import pyshmem.triton as shmem


@triton.jit
def push(dest, ctx, B: tl.constexpr):
    offs = tl.arange(0, B)
    shmem.store(dest + offs, offs, (shmem.my_pe(ctx) + 1) % 3, ctx)  # <1>


@triton.jit
def pull(out, dest, ctx, B: tl.constexpr):
    offs = tl.arange(0, B)
    tl.store(out + offs, shmem.load(dest + offs, (shmem.my_pe(ctx) + 2) % 3, ctx))  # <2>


with pyshmem.init(device="sim") as job:
    dest, out = (pyshmem.zeros(8, np.int64, heap="device") for _ in range(2))
    push[(1,)](dest, shmem.context(), B=8)
    pyshmem.sync_all()
    pull[(1,)](out, dest, shmem.context(), B=8)
    print(out.sum())
    pyshmem.barrier_all()
