# SPDX-License-Identifier: BSD-3-Clause
"""Any of the flags has come, and all slots are added up. PEs: 3."""

import numpy as np
import triton
import triton.language as tl

import pyshmem
import pyshmem.triton as shmem


@triton.jit
def gather(box, out, flags, ctx, N, B: tl.constexpr):
    me = shmem.my_pe(ctx)
    offs = tl.arange(0, B)
    for k in range(N):
        if k != me:
            to = box + me * B + offs
            shmem.put_signal(to, out + offs, flags + me, 1, shmem.SIGNAL_SET, k, ctx)  # <1>
    shmem.wait_until_any(flags, N, shmem.CMP_EQ, 1, ctx)
    acc = tl.zeros((B,), tl.float32)
    for k in range(N):
        acc += tl.load(box + k * B + offs)  # <2>
    tl.store(out + B + offs, acc)


with pyshmem.init(device="sim") as job:
    me, n = job.my_pe, job.n_pes
    box, out = (pyshmem.ones(24, np.float32, heap="device") for _ in range(2))
    flags = pyshmem.zeros(4, np.uint64, heap="device")
    gather[(1,)](box, out, flags, shmem.context(), n, B=8)
    pyshmem.barrier_all()
