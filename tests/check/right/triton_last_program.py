# SPDX-License-Identifier: BSD-3-Clause
"""The program that counts last signals for all: an atomic that releases and acquires. PEs: 2."""

import numpy as np
import triton
import triton.language as tl

import pyshmem
import pyshmem.triton as shmem


@triton.jit
def push(dest, src, count, sig, ctx, B: tl.constexpr):
    p = tl.program_id(0)
    peer = 1 - shmem.my_pe(ctx)
    offs = p * B + tl.arange(0, B)
    shmem.store(dest + offs, tl.load(src + offs), peer, ctx)
    if tl.atomic_add(count, 1, sem="acq_rel", scope="sys") == tl.num_programs(0) - 1:
        shmem.signal_op(sig, 1, shmem.SIGNAL_SET, peer, ctx)


@triton.jit
def use(out, dest, sig, ctx, B: tl.constexpr):
    shmem.signal_wait_until(sig, shmem.CMP_EQ, 1, ctx)
    offs = tl.arange(0, B)
    tl.store(out + offs, tl.load(dest + offs))


with pyshmem.init(device="sim") as job:
    dest, src, out = (pyshmem.ones(32, np.float32, heap="device") for _ in range(3))
    count, sig = (
        pyshmem.zeros(1, np.int32, heap="device"),
        pyshmem.zeros(1, np.uint64, heap="device"),
    )
    push[(4,)](dest, src, count, sig, shmem.context(), B=8)
    use[(1,)](out, dest, sig, shmem.context(), B=32)
    pyshmem.barrier_all()
