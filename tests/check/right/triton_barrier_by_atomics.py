# SPDX-License-Identifier: BSD-3-Clause
"""A barrier of all programs by atomic adds, and a spin by one that adds nothing. PEs: 2."""

import numpy as np
import triton
import triton.language as tl

import pyshmem
import pyshmem.triton as shmem


@triton.jit
def rounds(data, out, count, ctx, TOTAL: tl.constexpr, B: tl.constexpr):
    p, n = tl.program_id(0), shmem.n_pes(ctx)
    me = shmem.my_pe(ctx)
    offs = p * B + tl.arange(0, B)
    for turn in range(1, 4):
        shmem.store(data + offs, offs + turn, (me + 1) % n, ctx)
        for pe in range(n):
            shmem.atomic_add(count, 1, pe, ctx, sem="release", scope="sys")
        while tl.atomic_add(count, 0, sem="acquire", scope="sys") < TOTAL * (2 * turn - 1):
            pass
        other = (1 - p) * B + tl.arange(0, B)
        tl.store(out + offs, tl.load(data + other))
        for pe in range(n):
            shmem.atomic_add(count, 1, pe, ctx, sem="release", scope="sys")
        while tl.atomic_add(count, 0, sem="acquire", scope="sys") < TOTAL * 2 * turn:
            pass


with pyshmem.init(device="sim") as job:
    me, n = job.my_pe, job.n_pes
    data, out = (pyshmem.zeros(16, np.int64, heap="device") for _ in range(2))
    count = pyshmem.zeros(1, np.int32, heap="device")
    rounds[(2,)](data, out, count, shmem.context(), TOTAL=4, B=8)
    print(out)
    pyshmem.barrier_all()
