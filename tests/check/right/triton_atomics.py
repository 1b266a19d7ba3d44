# SPDX-License-Identifier: BSD-3-Clause
"""A flag by atomics of Triton's own, and slots that tickets of another PE's counter give. PEs: 2."""

import numpy as np
import triton
import triton.language as tl

import pyshmem
import pyshmem.triton as shmem


@triton.jit
def exchange(dest, flag, counter, slots, ctx, B: tl.constexpr):
    me = shmem.my_pe(ctx)
    right = (me + 1) % shmem.n_pes(ctx)
    offs = tl.arange(0, B)
    shmem.store(dest + offs, offs + me, right, ctx)
    shmem.atomic_xchg(flag, 1, right, ctx)
    while tl.atomic_cas(flag, 1, 2, sem="acquire", scope="sys") != 1:
        pass
    total = tl.sum(tl.load(dest + offs))
    ticket = shmem.atomic_add(counter, 1, 0, ctx)
    shmem.store(slots + ticket, total, 0, ctx)
    shmem.quiet(ctx)


with pyshmem.init(device="sim") as job:
    dest, slots = (pyshmem.zeros(8, np.int64, heap="device") for _ in range(2))
    flag, counter = (pyshmem.zeros(1, np.int64, heap="device") for _ in range(2))
    exchange[(1,)](dest, flag, counter, slots, shmem.context(), B=8)
    pyshmem.sync_all()
    print(np.sort(slots[:2]))
