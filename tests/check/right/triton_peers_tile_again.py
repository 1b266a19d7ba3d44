# SPDX-License-Identifier: BSD-3-Clause
"""A program stores a tile at a peer, loads it from there and stores it again. PEs: 2."""

import numpy as np
import triton
import triton.language as tl

import pyshmem
import pyshmem.triton as shmem


@triton.jit
def again(a, ctx, B: tl.constexpr):
    offs, other = tl.arange(0, B), 1 - shmem.my_pe(ctx)
    for _ in range(2):
        shmem.store(a + offs, shmem.load(a + offs, other, ctx) + 1, other, ctx)


with pyshmem.init(device="sim") as job:
    a = pyshmem.zeros(8, np.int64, heap="device")
    again[(1,)](shmem.wrap(a), shmem.context(), B=8)
    pyshmem.barrier_all()
    assert (pyshmem.to_numpy(a) == 2).all()
