# SPDX-License-Identifier: BSD-3-Clause
"""Remote stores, and a relaxed atomic on the peer's flag. PEs: 2."""

import numpy as np
import triton
import triton.language as tl

import pyshmem
import pyshmem.triton as shmem


@triton.jit
def produce(buffer, flags, ctx, B: tl.constexpr):
    p = tl.program_id(0)
    peer = 1 - shmem.my_pe(ctx)
    offs = p * B + tl.arange(0, B)
    shmem.store(buffer + offs, offs * 2, peer, ctx)  # <1>
    shmem.atomic_xchg(flags + p, 1, peer, ctx, sem="relaxed", scope="sys")


@triton.jit
def consume(out, buffer, flags, ctx, B: tl.constexpr):
    p = tl.program_id(0)
    while tl.atomic_cas(flags + p, 1, 0, sem="acquire", scope="sys") != 1:
        pass
    offs = p * B + tl.arange(0, B)
    tl.store(out + offs, tl.load(buffer + offs))  # <2>


with pyshmem.init(device="sim") as job:
    buffer, out = (pyshmem.zeros(32, np.int32, heap="device") for _ in range(2))
    flags = pyshmem.zeros(4, np.int32, heap="device")
    produce[(4,)](buffer, flags, shmem.context(), B=8)
    consume[(4,)](out, buffer, flags, shmem.context(), B=8)
    pyshmem.barrier_all()
