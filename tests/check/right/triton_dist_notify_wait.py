# SPDX-License-Identifier: BSD-3-Clause
"""Triton-distributed: tile, quiet, signal; another kernel waits for each. PEs: 2."""

import numpy as np
import triton
import triton.language as tl

import pyshmem
import pyshmem.triton as shmem


@triton.jit
def push(dest, source, signals, ctx, B: tl.constexpr):
    p = tl.program_id(0)
    peer = 1 - shmem.my_pe(ctx)
    offs = p * B + tl.arange(0, B)
    shmem.store(dest + offs, tl.load(source + offs), peer, ctx)
    shmem.quiet(ctx)
    shmem.signal_op(signals + p, 1, shmem.SIGNAL_ADD, peer, ctx)


@triton.jit
def use(out, dest, signals, ctx, B: tl.constexpr):
    p = 1 - tl.program_id(0)
    shmem.signal_wait_until(signals + p, shmem.CMP_GE, 1, ctx)
    offs = p * B + tl.arange(0, B)
    tl.store(out + offs, tl.load(dest + offs) * 3)


with pyshmem.init(device="sim") as job:
    dest, source, out = (pyshmem.ones(16, np.float32, heap="device") for _ in range(3))
    signals = pyshmem.zeros(2, np.uint64, heap="device")
    push[(2,)](dest, source, signals, shmem.context(), B=8)
    use[(2,)](out, dest, signals, shmem.context(), B=8)
    print(out.sum())
