# SPDX-License-Identifier: BSD-3-Clause
"""A tile of a program, and a relaxed signal that orders nothing. PEs: 2."""

import numpy as np
import triton
import triton.language as tl

import pyshmem
import pyshmem.triton as shmem


@triton.jit
def exchange(dest, out, flag, ctx, B: tl.constexpr):
    peer = 1 - shmem.my_pe(ctx)
    offs = tl.arange(0, B)
    shmem.store(dest + offs, offs + 1, peer, ctx)
    shmem.signal_op(flag, 1, shmem.SIGNAL_SET, peer, ctx, sem="relaxed")
    shmem.signal_wait_until(flag, shmem.CMP_EQ, 1, ctx)
    tl.store(out + offs, tl.load(dest + offs))


with pyshmem.init(device="sim") as job:
    dest, out = (pyshmem.zeros(8, np.int64, heap="device") for _ in range(2))
    flag = pyshmem.new_signal(heap="device")
    exchange[(1,)](dest, out, flag, shmem.context(), B=8)
    print(out)
