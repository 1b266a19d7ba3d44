# SPDX-License-Identifier: BSD-3-Clause
"""All slots are added up behind a wait for all flags. PEs: 3."""

import numpy as np
import triton
import triton.language as tl

import pyshmem
import pyshmem.triton as shmem


@triton.jit
def gather(box, out, flags, ctx, N, B: tl.constexpr):
    me = shmem.my_pe(ctx)
    p = tl.program_id(0)
    offs = p * B + tl.arange(0, B)
    for k in range(N):
        shmem.put_signal(
            box + me * 2 * B + offs, out + offs, flags + p * N + me, 1, shmem.SIGNAL_SET, k, ctx
        )
    shmem.wait_until_all(flags + p * N, N, shmem.CMP_EQ, 1, ctx)
    acc = tl.zeros((B,), tl.float32)
    for k in range(N):
        acc += tl.load(box + k * 2 * B + offs)
    tl.store(out + offs, acc)


with pyshmem.init(device="sim") as job:
    me, n = job.my_pe, job.n_pes
    box, out = (
        pyshmem.ones(48, np.float32, heap="device"),
        pyshmem.ones(16, np.float32, heap="device"),
    )
    flags = pyshmem.zeros(8, np.uint64, heap="device")
    gather[(2,)](box, out, flags, shmem.context(), n, B=8)
    assert out[15] == n
    pyshmem.barrier_all()
