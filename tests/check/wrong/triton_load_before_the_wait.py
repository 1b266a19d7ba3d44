# SPDX-License-Identifier: BSD-3-Clause
"""The tile is loaded one line before the wait. PEs: 2."""

import numpy as np
import triton
import triton.language as tl

import pyshmem
import pyshmem.triton as shmem


@triton.jit
def swap(box, out, flag, ctx, B: tl.constexpr):
    peer = 1 - shmem.my_pe(ctx)
    offs = tl.arange(0, B)
    shmem.put_signal(box + offs, out + offs, flag, 1, shmem.SIGNAL_SET, peer, ctx)  # <1>
    came = tl.load(box + offs)  # <2>
    shmem.signal_wait_until(flag, shmem.CMP_EQ, 1, ctx)
    tl.store(out + offs, came)


with pyshmem.init(device="sim") as job:
    me, n = job.my_pe, job.n_pes
    box, out = (pyshmem.ones(8, np.float32, heap="device") for _ in range(2))
    flag = pyshmem.zeros(1, np.uint64, heap="device")
    swap[(1,)](box, out, flag, shmem.context(), B=8)
    pyshmem.barrier_all()
