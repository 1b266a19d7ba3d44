# SPDX-License-Identifier: BSD-3-Clause
"""A program reads what a copy engine brings it, without quiet. PEs: 2."""

import numpy as np
import triton
import triton.language as tl

import pyshmem
import pyshmem.triton as shmem


@triton.jit
def bring(box, theirs, out, ctx, B: tl.constexpr):
    offs = tl.arange(0, B)
    shmem.get_chunk(box, theirs, B, 1 - shmem.my_pe(ctx), ctx)
    tl.store(out + offs, tl.load(box + offs))
    shmem.quiet(ctx)


with pyshmem.init(device="sim") as job:
    box, theirs, out = (pyshmem.zeros(8, np.int64, heap="device") for _ in range(3))
    theirs[:] = np.arange(8) + 10 * job.my_pe
    pyshmem.barrier_all()
    bring[(1,)](box, theirs, out, shmem.context(), B=8)
    print(out)
    pyshmem.barrier_all()
