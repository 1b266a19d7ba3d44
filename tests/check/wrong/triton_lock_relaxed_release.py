# SPDX-License-Identifier: BSD-3-Clause
"""A lock that is given back relaxed. PEs: 2."""

import numpy as np
import triton
import triton.language as tl

import pyshmem
import pyshmem.triton as shmem


@triton.jit
def add(lock, data, ctx, B: tl.constexpr):
    offs = tl.arange(0, B)
    while shmem.atomic_cas(lock, 0, 1, 0, ctx, sem="acquire") != 0:
        pass
    v = shmem.load(data + offs, 0, ctx)  # <2>
    shmem.store(data + offs, v + 1, 0, ctx)  # <1>
    shmem.atomic_xchg(lock, 0, 0, ctx, sem="relaxed")


with pyshmem.init(device="sim") as job:
    lock = pyshmem.zeros(1, np.int32, heap="device")
    data = pyshmem.zeros(8, np.int64, heap="device")
    add[(1,)](lock, data, shmem.context(), B=8)
    pyshmem.barrier_all()
    if job.my_pe == 0:
        print(data)
