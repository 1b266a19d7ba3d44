# SPDX-License-Identifier: BSD-3-Clause
"""All programs of all members meet between the store and the load of others' tiles. PEs: 2."""

import numpy as np
import triton
import triton.language as tl

import pyshmem
import pyshmem.triton as shmem


@triton.jit
def shift(data, out, ctx, B: tl.constexpr):
    p = tl.program_id(0)
    offs = tl.arange(0, B)
    tl.store(data + p * B + offs, p + offs)
    shmem.sync_grid(ctx)
    came = shmem.load(data + (1 - p) * B + offs, 1 - shmem.my_pe(ctx), ctx)
    shmem.sync_grid(ctx)
    tl.store(data + p * B + offs, came)
    tl.store(out + p * B + offs, came)


with pyshmem.init(device="sim") as job:
    me, n = job.my_pe, job.n_pes
    data, out = (pyshmem.zeros(16, np.int32, heap="device") for _ in range(2))
    shift[(2,)](data, out, shmem.context(), B=8)
    assert out[0] == 1
    pyshmem.barrier_all()
