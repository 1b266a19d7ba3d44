# SPDX-License-Identifier: BSD-3-Clause
"""A program waits for its own tile's signal and loads the tile of the next. PEs: 2."""

import numpy as np
import triton
import triton.language as tl

import pyshmem
import pyshmem.triton as shmem


@triton.jit
def both(out, dest, source, signals, ctx, B: tl.constexpr):
    p = tl.program_id(0)
    peer = 1 - shmem.my_pe(ctx)
    offs = p * B + tl.arange(0, B)
    shmem.store(dest + offs, tl.load(source + offs), peer, ctx)  # <1>
    shmem.signal_op(signals + p, 1, shmem.SIGNAL_SET, peer, ctx)
    shmem.signal_wait_until(signals + p, shmem.CMP_GE, 1, ctx)
    other = (1 - p) * B + tl.arange(0, B)
    tl.store(out + offs, tl.load(dest + other))  # <2>


with pyshmem.init(device="sim") as job:
    dest, source, out = (pyshmem.ones(16, np.float32, heap="device") for _ in range(3))
    signals = pyshmem.zeros(2, np.uint64, heap="device")
    both[(2,)](out, dest, source, signals, shmem.context(), B=8)
    pyshmem.barrier_all()
