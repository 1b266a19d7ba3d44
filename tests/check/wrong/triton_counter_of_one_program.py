# SPDX-License-Identifier: BSD-3-Clause
"""Programs add to a counter, and the waiting one wants one of two. PEs: 2."""

import numpy as np
import triton
import triton.language as tl

import pyshmem
import pyshmem.triton as shmem


@triton.jit
def work(dest, sig, out, ctx, B: tl.constexpr):
    p = tl.program_id(0)
    peer = 1 - shmem.my_pe(ctx)
    offs = p * B + tl.arange(0, B)
    shmem.store(dest + offs, offs, peer, ctx)  # <1>
    shmem.signal_op(sig, 1, shmem.SIGNAL_ADD, peer, ctx)
    if p == 0:
        shmem.signal_wait_until(sig, shmem.CMP_GE, 1, ctx)
        all = tl.arange(0, 2 * B)
        tl.store(out + all, tl.load(dest + all))  # <2>


with pyshmem.init(device="sim") as job:
    dest, out = (pyshmem.zeros(16, np.int64, heap="device") for _ in range(2))
    sig = pyshmem.zeros(1, np.uint64, heap="device")
    work[(2,)](dest, sig, out, shmem.context(), B=8)
    pyshmem.barrier_all()
