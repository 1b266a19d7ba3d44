# SPDX-License-Identifier: BSD-3-Clause
"""A relaxed signal tells nothing of what the program has stored in its own memory. PEs: 2."""

import numpy as np
import triton
import triton.language as tl

import pyshmem
import pyshmem.triton as shmem


@triton.jit
def work(dest, source, sig, ctx, B: tl.constexpr):
    me = shmem.my_pe(ctx)
    right = (me + 1) % shmem.n_pes(ctx)
    p = tl.program_id(0)
    offs = p * B + tl.arange(0, B)
    tl.store(dest + offs, tl.load(source + offs) + me)  # <1>
    shmem.signal_op(sig + p, 1, shmem.SIGNAL_SET, right, ctx, sem="relaxed")
    shmem.signal_wait_until(sig + p, shmem.CMP_EQ, 1, ctx)
    tl.store(source + offs, shmem.load(dest + offs, (me + 1) % shmem.n_pes(ctx), ctx))  # <2>


with pyshmem.init(device="sim") as job:
    dest, source = (pyshmem.zeros(16, np.int64, heap="device") for _ in range(2))
    sig = pyshmem.zeros(2, np.uint64, heap="device")
    work[(2,)](dest, source, sig, shmem.context(), B=8)
    print(sig.sum())
