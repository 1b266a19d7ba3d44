# SPDX-License-Identifier: BSD-3-Clause
"""The tail of a tile is not masked off, and runs into its neighbour's. PEs: 2."""

import numpy as np
import triton
import triton.language as tl

import pyshmem
import pyshmem.triton as shmem


@triton.jit
def tiles(dest, ctx, B: tl.constexpr):
    p = tl.program_id(0)
    peer = 1 - shmem.my_pe(ctx)
    offs = p * 6 + tl.arange(0, B)
    shmem.store(dest + offs, offs + p, peer, ctx)  # <1> <2>


with pyshmem.init(device="sim") as job:
    dest = pyshmem.zeros(16, np.int64, heap="device")
    tiles[(2,)](dest, shmem.context(), B=8)
    pyshmem.barrier_all()
