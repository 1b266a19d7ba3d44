# SPDX-License-Identifier: BSD-3-Clause
"""The next round's tile is put while the peer may still read this one. PEs: 2."""

import numpy as np
import triton
import triton.language as tl

import pyshmem
import pyshmem.triton as shmem


@triton.jit
def rounds(box, out, flag, ctx, K, B: tl.constexpr):
    peer = 1 - shmem.my_pe(ctx)
    offs = tl.arange(0, B)
    for k in range(K):
        shmem.put_signal(box + offs, out + offs, flag, 1, shmem.SIGNAL_ADD, peer, ctx)  # <1>
        shmem.signal_wait_until(flag, shmem.CMP_GE, k + 1, ctx)
        tl.store(out + offs, tl.load(box + offs) + k)  # <2>


with pyshmem.init(device="sim") as job:
    me, n = job.my_pe, job.n_pes
    box, out = (pyshmem.ones(8, np.float32, heap="device") for _ in range(2))
    flag = pyshmem.zeros(1, np.uint64, heap="device")
    rounds[(1,)](box, out, flag, shmem.context(), 3, B=8)
    pyshmem.barrier_all()
