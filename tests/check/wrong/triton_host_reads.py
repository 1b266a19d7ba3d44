# SPDX-License-Identifier: BSD-3-Clause
"""The host reads what the neighbour's kernel has put, and has met it by sync alone. PEs: 2."""

import numpy as np
import triton
import triton.language as tl

import pyshmem
import pyshmem.triton as shmem


@triton.jit
def send(dest, source, ctx, B: tl.constexpr):
    right = (shmem.my_pe(ctx) + 1) % shmem.n_pes(ctx)
    offs = tl.arange(0, B)
    shmem.put(dest + offs, source + offs, right, ctx)  # <1>


with pyshmem.init(device="sim") as job:
    dest, source = (pyshmem.zeros(8, np.int64, heap="device") for _ in range(2))
    send[(1,)](dest, source, shmem.context(), B=8)
    pyshmem.sync_all()
    print(dest[0])  # <2>
