# SPDX-License-Identifier: BSD-3-Clause
"""A flag that is polled by volatile loads, then a kernel launched behind it. PEs: 2."""

import numpy as np
import triton
import triton.language as tl

import pyshmem
import pyshmem.triton as shmem


@triton.jit
def send(dest, flag, ctx, B: tl.constexpr):
    right = (shmem.my_pe(ctx) + 1) % shmem.n_pes(ctx)
    offs = tl.arange(0, B)
    shmem.store(dest + offs, offs, right, ctx)
    shmem.fence(ctx)
    shmem.store(flag, 1, right, ctx)
    while tl.load(flag, volatile=True) != 1:
        pass


@triton.jit
def use(dest, out, B: tl.constexpr):
    offs = tl.arange(0, B)
    tl.store(out + offs, tl.load(dest + offs))


with pyshmem.init(device="sim") as job:
    dest, out = (pyshmem.zeros(8, np.int64, heap="device") for _ in range(2))
    flag = pyshmem.zeros(1, np.int64, heap="device")
    send[(1,)](dest, flag, shmem.context(), B=8)
    use[(1,)](dest, out, B=8)
    print(out.sum())
