# SPDX-License-Identifier: BSD-3-Clause
"""All programs of the peer add to one counter, and the reader waits for all of them. PEs: 2."""

import numpy as np
import triton
import triton.language as tl

import pyshmem
import pyshmem.triton as shmem


@triton.jit
def push(dest, src, sig, ctx, B: tl.constexpr):
    p = tl.program_id(0)
    offs = p * B + tl.arange(0, B)
    peer = 1 - shmem.my_pe(ctx)
    shmem.store(dest + offs, tl.load(src + offs), peer, ctx)
    shmem.signal_op(sig, 1, shmem.SIGNAL_ADD, peer, ctx)


@triton.jit
def use(out, dest, sig, turn, ctx, B: tl.constexpr):
    shmem.signal_wait_until(sig, shmem.CMP_GE, 4 * turn, ctx)
    offs = tl.arange(0, B)
    tl.store(out + offs, tl.load(dest + offs))


with pyshmem.init(device="sim") as job:
    me, n = job.my_pe, job.n_pes
    dest, src, out = (pyshmem.ones(32, np.float32, heap="device") for _ in range(3))
    sig = pyshmem.zeros(1, np.uint64, heap="device")
    for turn in (1, 2, 3):
        push[(4,)](dest, src, sig, shmem.context(), B=8)
        use[(1,)](out, dest, sig, turn, shmem.context(), B=32)
        pyshmem.barrier_all()
