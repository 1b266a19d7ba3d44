# SPDX-License-Identifier: BSD-3-Clause
"""A copy engine's put with its signal, its get behind quiet, a function that the host runs. PEs: 2."""

import numba
import numpy as np
import triton
import triton.language as tl

import pyshmem
import pyshmem.triton as shmem


@triton.jit
def exchange(box, back, mine, flag, double, ctx, B: tl.constexpr):
    peer = 1 - shmem.my_pe(ctx)
    offs = tl.arange(0, B)
    tl.store(mine + offs, offs + shmem.my_pe(ctx))
    shmem.put_chunk(box, mine, B, peer, ctx, flag, 1)
    shmem.signal_wait_until(flag, shmem.CMP_EQ, 1, ctx)
    first = tl.load(box)
    shmem.get_chunk(back, box, B, shmem.my_pe(ctx), ctx)
    shmem.quiet(ctx)
    tl.store(mine + offs, tl.load(back + offs) + first + shmem.call(double, 4, 0, 0, 0, ctx))
    shmem.post(double, 7, 0, 0, 0, ctx)
    shmem.quiet(ctx)


@numba.cfunc("int64(int64, int64, int64, int64)")
def double(value, _a, _b, _c):
    return 2 * value


with pyshmem.init(device="sim") as job:
    box, back, mine = (pyshmem.zeros(8, np.int64, heap="device") for _ in range(3))
    flag = pyshmem.new_signal(heap="device")
    handler = pyshmem.register_handler(double)
    exchange[(1,)](box, back, mine, flag, handler, shmem.context(), B=8)
    print(mine)
    pyshmem.barrier_all()
