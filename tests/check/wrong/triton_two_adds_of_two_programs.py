# SPDX-License-Identifier: BSD-3-Clause
"""Two programs add to one counter; one has come, and the first one's tile is read. PEs: 2."""

import numpy as np
import triton
import triton.language as tl

import pyshmem
import pyshmem.triton as shmem


@triton.jit
def push(dest, src, sig, ctx, B: tl.constexpr):
    p = tl.program_id(0)
    offs = p * B + tl.arange(0, B)
    shmem.store(dest + offs, tl.load(src + offs), 1 - shmem.my_pe(ctx), ctx)  # <1>
    shmem.signal_op(sig, 1, shmem.SIGNAL_ADD, 1 - shmem.my_pe(ctx), ctx)


@triton.jit
def use(out, dest, sig, ctx, B: tl.constexpr):
    shmem.signal_wait_until(sig, shmem.CMP_GE, 1, ctx)
    offs = tl.arange(0, B)
    tl.store(out + offs, tl.load(dest + offs))  # <2>


with pyshmem.init(device="sim") as job:
    me, n = job.my_pe, job.n_pes
    dest, src, out = (pyshmem.ones(16, np.float32, heap="device") for _ in range(3))
    sig = pyshmem.zeros(1, np.uint64, heap="device")
    push[(2,)](dest, src, sig, shmem.context(), B=8)
    use[(1,)](out, dest, sig, shmem.context(), B=8)
    pyshmem.barrier_all()
