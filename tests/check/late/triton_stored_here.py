# SPDX-License-Identifier: BSD-3-Clause
"""A program stores a tile here for its peer to load, and tells it by a relaxed atomic. PEs: 2."""

import numpy as np
import triton
import triton.language as tl

import pyshmem
import pyshmem.triton as shmem


@triton.jit
def offer(box, out, flag, ctx, B: tl.constexpr):
    peer = 1 - shmem.my_pe(ctx)
    offs = tl.arange(0, B)
    tl.store(box + offs, offs + 1)
    shmem.atomic_xchg(flag, 1, peer, ctx, sem="relaxed")
    shmem.wait_until(flag, shmem.CMP_EQ, 1, ctx)
    tl.store(out + offs, shmem.load(box + offs, peer, ctx))


with pyshmem.init(device="sim") as job:
    box, out = (pyshmem.zeros(8, np.int64, heap="device") for _ in range(2))
    flag = pyshmem.zeros(1, np.int64, heap="device")
    offer[(1,)](box, out, flag, shmem.context(), B=8)
    print(out)
