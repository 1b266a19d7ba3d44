# SPDX-License-Identifier: BSD-3-Clause
"""A third PE's tile is copied to the next one, and no signal says that it may be. PEs: 3."""

import numpy as np
import triton
import triton.language as tl

import pyshmem
import pyshmem.triton as shmem


@triton.jit
def move(dest, source, ctx, B: tl.constexpr):
    me = shmem.my_pe(ctx)
    offs = tl.arange(0, B)
    tl.store(source + offs, offs + me)  # <1>
    shmem.copy(dest + offs, source + offs, (me + 1) % 3, (me + 2) % 3, ctx)  # <2>


with pyshmem.init(device="sim") as job:
    me, n = job.my_pe, job.n_pes
    dest, source = (pyshmem.zeros(8, np.int32, heap="device") for _ in range(2))
    move[(1,)](dest, source, shmem.context(), B=8)
    pyshmem.barrier_all()
