# SPDX-License-Identifier: BSD-3-Clause
"""Plain stores by ptr and a put, then a signal behind all of them; a test in a loop. PEs: 2."""

import numpy as np
import triton
import triton.language as tl

import pyshmem
import pyshmem.triton as shmem


@triton.jit
def send(dest, source, sig, ctx, B: tl.constexpr):
    right = (shmem.my_pe(ctx) + 1) % shmem.n_pes(ctx)
    offs = tl.arange(0, B)
    tl.store(shmem.ptr(dest + offs, right, ctx), tl.load(source + offs))
    shmem.put(dest + B + offs, source + offs, right, ctx, mask=offs < 5)
    shmem.signal_op(sig, 1, shmem.SIGNAL_ADD, right, ctx)
    while not shmem.test(sig, shmem.CMP_GE, 1, ctx):
        pass
    tl.store(source + offs, tl.load(dest + B + offs, mask=offs < 5, other=0))


with pyshmem.init(device="sim") as job:
    source, sig = (
        pyshmem.zeros(8, np.float32, heap="device"),
        pyshmem.zeros(1, np.uint64, heap="device"),
    )
    dest = pyshmem.zeros(16, np.float32, heap="device")
    send[(1,)](dest, source, sig, shmem.context(), B=8)
    print(source.sum(), dest.sum())
