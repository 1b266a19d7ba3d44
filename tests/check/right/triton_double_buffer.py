# SPDX-License-Identifier: BSD-3-Clause
"""Two buffers by turns, with signals for full and for free. PEs: 2."""

import numpy as np
import triton
import triton.language as tl

import pyshmem
import pyshmem.triton as shmem


@triton.jit
def steps(box, src, out, full, free, k_max, ctx, B: tl.constexpr):
    peer = 1 - shmem.my_pe(ctx)
    offs = tl.arange(0, B)
    for k in range(k_max):
        if k >= 2:
            shmem.signal_wait_until(free, shmem.CMP_GE, k - 1, ctx)
        shmem.put_signal(box + (k % 2) * B + offs, src + offs, full, 1, shmem.SIGNAL_ADD, peer, ctx)
        shmem.signal_wait_until(full, shmem.CMP_GE, k + 1, ctx)
        tl.store(out + offs, tl.load(out + offs) + tl.load(box + (k % 2) * B + offs))
        shmem.signal_op(free, 1, shmem.SIGNAL_ADD, peer, ctx)


with pyshmem.init(device="sim") as job:
    box, src, out = (pyshmem.ones(16, np.float32, heap="device") for _ in range(3))
    full_, free_ = (pyshmem.zeros(1, np.uint64, heap="device") for _ in range(2))
    steps[(1,)](box, src, out, full_, free_, 6, shmem.context(), B=8)
    pyshmem.barrier_all()
