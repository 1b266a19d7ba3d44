# SPDX-License-Identifier: BSD-3-Clause
"""A lock by compare and swap with acquire, given back by exchange with release. PEs: 2."""

import numpy as np
import triton
import triton.language as tl

import pyshmem
import pyshmem.triton as shmem


@triton.jit
def add(lock, data, ctx, K, B: tl.constexpr):
    offs = tl.arange(0, B)
    for _ in range(K):
        while shmem.atomic_cas(lock, 0, 1, 0, ctx, sem="acquire") != 0:
            pass
        v = shmem.load(data + offs, 0, ctx)
        shmem.store(data + offs, v + 1, 0, ctx)
        shmem.atomic_xchg(lock, 0, 0, ctx, sem="release")


with pyshmem.init(device="sim") as job:
    me, n = job.my_pe, job.n_pes
    lock = pyshmem.zeros(1, np.int32, heap="device")
    data = pyshmem.zeros(8, np.int64, heap="device")
    add[(2,)](lock, data, shmem.context(), 2, B=8)
    pyshmem.barrier_all()
    assert me != 0 or data[7] == 4 * n
