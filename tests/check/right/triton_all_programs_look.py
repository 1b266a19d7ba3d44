# SPDX-License-Identifier: BSD-3-Clause
"""Each program polls the peer's count by a compare-and-swap that puts back what it finds. PEs: 2."""

import numpy as np
import triton
import triton.language as tl

import pyshmem
import pyshmem.triton as shmem


@triton.jit
def scatter(source, dest, count, out, ctx, P: tl.constexpr, B: tl.constexpr):
    offs = tl.program_id(0) * B + tl.arange(0, B)
    me = shmem.my_pe(ctx)
    shmem.store(dest + offs, tl.load(source + offs), 1 - me, ctx)
    shmem.atomic_add(count, 1, 1 - me, ctx, sem="release")
    while shmem.atomic_cas(count, P, P, me, ctx, sem="acquire") != P:
        pass
    tl.store(out + offs, tl.load(dest + (P * B - 1) - offs))


with pyshmem.init(device="sim") as job:
    source = pyshmem.arange(64, dtype=np.int32, heap="device")
    dest, out = (pyshmem.zeros(64, np.int32, heap="device") for _ in range(2))
    count = pyshmem.zeros(1, np.int32, heap="device")
    arrays = map(shmem.wrap, (source, dest, count, out))
    scatter[(4,)](*arrays, shmem.context(), P=4, B=16)
    assert (pyshmem.to_numpy(out) == 63 - np.arange(64)).all()
    pyshmem.barrier_all()
