# SPDX-License-Identifier: BSD-3-Clause
"""The source of a copy engine's put is changed before quiet. PEs: 2."""

import numpy as np
import triton
import triton.language as tl

import pyshmem
import pyshmem.triton as shmem


@triton.jit
def send(box, mine, flag, ctx, B: tl.constexpr):
    offs = tl.arange(0, B)
    shmem.put_chunk(box, mine, B, 1 - shmem.my_pe(ctx), ctx, flag, 1)  # <1>
    tl.store(mine + offs, offs)  # <2>
    shmem.quiet(ctx)
    shmem.signal_wait_until(flag, shmem.CMP_EQ, 1, ctx)


with pyshmem.init(device="sim") as job:
    box, mine = (pyshmem.zeros(8, np.int64, heap="device") for _ in range(2))
    flag = pyshmem.new_signal(heap="device")
    send[(1,)](box, mine, flag, shmem.context(), B=8)
    pyshmem.barrier_all()
