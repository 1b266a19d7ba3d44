# SPDX-License-Identifier: BSD-3-Clause
"""What a copy engine fetches is read before quiet. PEs: 2."""

import numpy as np
import triton
import triton.language as tl

import pyshmem
import pyshmem.triton as shmem


@triton.jit
def fetch(box, theirs, ctx, B: tl.constexpr):
    offs = tl.arange(0, B)
    shmem.get_chunk(box, theirs, B, 1 - shmem.my_pe(ctx), ctx)  # <1>
    tl.store(box + offs, tl.load(box + offs) * 2)  # <2>
    shmem.quiet(ctx)


with pyshmem.init(device="sim") as job:
    box, theirs = (pyshmem.ones(8, np.int64, heap="device") for _ in range(2))
    fetch[(1,)](box, theirs, shmem.context(), B=8)
    pyshmem.barrier_all()
