# SPDX-License-Identifier: BSD-3-Clause
"""Each word carries its turn, and is polled until it is of this turn. PEs: 2."""

import numpy as np
import triton
import triton.language as tl

import pyshmem
import pyshmem.triton as shmem


@triton.jit
def swap(box, out, turn, ctx, B: tl.constexpr):
    peer = 1 - shmem.my_pe(ctx)
    offs = tl.arange(0, B)
    shmem.store(box + offs, turn * 256 + offs, peer, ctx)
    word = tl.load(box + offs, volatile=True)
    while tl.min(word // 256) < turn:
        word = tl.load(box + offs, volatile=True)
    tl.store(out + offs, word % 256)


with pyshmem.init(device="sim") as job:
    box, out = (
        pyshmem.zeros((4, 8), np.int64, heap="device"),
        pyshmem.zeros(8, np.int64, heap="device"),
    )
    for turn in range(1, 4):
        swap[(1,)](box[turn], out, turn, shmem.context(), B=8)
    pyshmem.barrier_all()
