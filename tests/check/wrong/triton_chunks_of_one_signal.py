# SPDX-License-Identifier: BSD-3-Clause
"""Two chunks set the same signal to 1; the wait has seen one of them. PEs: 2."""

import numpy as np
import triton
import triton.language as tl

import pyshmem
import pyshmem.triton as shmem


@triton.jit
def send(box, src, flag, out, ctx, B: tl.constexpr):
    offs = tl.arange(0, B)
    peer = 1 - shmem.my_pe(ctx)
    shmem.put_chunk(box, src, B, peer, ctx, flag, 1)  # <1>
    shmem.put_chunk(box + B, src + B, B, peer, ctx, flag, 1)
    shmem.signal_wait_until(flag, shmem.CMP_EQ, 1, ctx)
    tl.store(out + offs, tl.load(box + offs))  # <2>
    shmem.quiet(ctx)


with pyshmem.init(device="sim") as job:
    me, n = job.my_pe, job.n_pes
    box, src, out = (pyshmem.ones(16, np.int64, heap="device") for _ in range(3))
    flag = pyshmem.new_signal(heap="device")
    send[(1,)](box, src, flag, out, shmem.context(), B=8)
    pyshmem.barrier_all()
