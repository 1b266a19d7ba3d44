# SPDX-License-Identifier: BSD-3-Clause
"""Of two PEs that count up, one does so relaxed, and its tile is read too. PEs: 3."""

import numpy as np
import triton
import triton.language as tl

import pyshmem
import pyshmem.triton as shmem


@triton.jit
def work(data, out, flag, ctx, ME, B: tl.constexpr):
    offs = tl.arange(0, B)
    if ME == 0:
        shmem.store(data + offs, offs + 1, 2, ctx)
        shmem.atomic_add(flag, 1, 2, ctx, sem="release")
    if ME == 1:
        shmem.store(data + B + offs, offs + 1, 2, ctx)  # <1>
        shmem.atomic_add(flag, 1, 2, ctx, sem="relaxed")
    if ME == 2:
        while tl.atomic_add(flag, 0, sem="acquire", scope="sys") != 2:
            pass
        tl.store(out + offs, tl.load(data + offs) + tl.load(data + B + offs))  # <2>


with pyshmem.init(device="sim") as job:
    data, out = (pyshmem.zeros(16, np.int64, heap="device") for _ in range(2))
    flag = pyshmem.zeros(1, np.int32, heap="device")
    work[(1,)](data, out, flag, shmem.context(), job.my_pe, B=8)
    print(out)
