# SPDX-License-Identifier: BSD-3-Clause
"""A tile of a graph waits for the tile beside the one that it uses. PEs: 2."""

import numpy as np
import triton
import triton.language as tl

import pyshmem
import pyshmem.triton as shmem
from pyshmem.triton import tasks


@triton.jit
def make(tile, data, ctx, B: tl.constexpr):
    offs = tile * B + tl.arange(0, B)
    tl.store(data + offs, offs + shmem.my_pe(ctx))  # <1>


@triton.jit
def send(tile, box, data, flags, ctx, B: tl.constexpr):
    offs = tile * B + tl.arange(0, B)
    peer = 1 - shmem.my_pe(ctx)
    shmem.store(box + offs, tl.load(data + offs), peer, ctx)  # <2>
    shmem.signal_op(flags + tile, 1, shmem.SIGNAL_ADD, peer, ctx)


@triton.jit
def add(tile, total, box, flags, turn, ctx, B: tl.constexpr, TILES: tl.constexpr):
    for n in range(TILES):
        shmem.signal_wait_until(flags + n, shmem.CMP_GE, tl.load(turn) + 1, ctx)
    tl.store(total, tl.sum(tl.load(box + tl.arange(0, B * TILES))))
    tl.store(turn, tl.load(turn) + 1)


with pyshmem.init(device="sim") as job:
    box, data = (pyshmem.zeros(32, np.int64, heap="device") for _ in range(2))
    total, turn = (pyshmem.zeros(1, np.int64, heap="device") for _ in range(2))
    flags = pyshmem.zeros(4, np.uint64, heap="device")
    graph = tasks.Graph()
    made = graph.add(make, tiles=4, args=(data,), constants={"B": 8})
    sent = graph.add(
        send,
        tiles=4,
        args=(box, data, flags),
        constants={"B": 8},
        after=[(made, lambda n: [n ^ 1])],
    )
    graph.add(add, args=(total, box, flags, turn), constants={"B": 8, "TILES": 4}, after=[sent])
    step = graph.build(3)
    step()
    pyshmem.barrier_all()
