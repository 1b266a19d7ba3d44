# SPDX-License-Identifier: BSD-3-Clause
"""Two groups of warps in one program, in Gluon: one moves tiles between PEs, the other computes.

You learn: pyshmem.gluon inside gl.warp_specialize; a signal a tile between the groups of two PEs.
Run: python -m pyshmem run -n 4 examples/21_gluon_warp_groups.py
Output: 64 tiles moved and computed by two groups of warps: ok; without a GPU: needs a GPU
"""

import sys

import numpy as np

import pyshmem

try:
    import pyshmem.gluon as shmem
except pyshmem.UnsupportedError as error:
    with pyshmem.init() as job:
        if job.my_pe == 0:
            print(error)
    sys.exit()

from triton.experimental import gluon
from triton.experimental.gluon import language as gl


@gluon.jit
def move(inbox, source, full, tiles, ctx, B: gl.constexpr, WARPS: gl.constexpr):
    """The tiles of this program to the right neighbour, each with its signal behind it."""
    layout: gl.constexpr = gl.BlockedLayout([4], [32], [WARPS], [0])
    right = (shmem.my_pe(ctx) + 1) % shmem.n_pes(ctx)
    for tile in range(gl.program_id(0), tiles, gl.num_programs(0)):
        offs = tile * B + gl.arange(0, B, layout)
        with shmem.stage("send", ctx):  # for timelines; nothing while none is made
            shmem.put_signal(
                inbox + offs, source + offs, full + tile, 1, shmem.SIGNAL_SET, right, ctx
            )


@gluon.jit
def compute(out, inbox, full, tiles, ctx, B: gl.constexpr, WARPS: gl.constexpr):
    """Takes each tile when it has come from the left; the others are on their way meanwhile."""
    layout: gl.constexpr = gl.BlockedLayout([4], [32], [WARPS], [0])
    for tile in range(gl.program_id(0), tiles, gl.num_programs(0)):
        offs = tile * B + gl.arange(0, B, layout)
        with shmem.stage("wait", ctx):
            shmem.signal_wait_until(full + tile, shmem.CMP_EQ, 1, ctx)
        with shmem.stage("compute", ctx):
            x = gl.load(inbox + offs)
            for _ in range(10):
                x = 0.5 * x + 1
            gl.store(out + offs, x)


@gluon.jit
def move_and_compute(out, inbox, source, full, tiles, ctx, B: gl.constexpr):
    gl.warp_specialize(
        [
            (compute, (out, inbox, full, tiles, ctx, B, 4)),
            (move, (inbox, source, full, tiles, ctx, B, 4)),
        ],
        [4],
        [64],
    )


with pyshmem.init() as job:
    tiles, B = 64, 1024
    source = pyshmem.full(tiles * B, job.my_pe, dtype=np.float32, heap="device")
    out, inbox = (pyshmem.zeros(tiles * B, dtype=np.float32, heap="device") for _ in range(2))
    full = pyshmem.zeros(tiles, dtype=np.int64, heap="device")
    arguments = map(shmem.wrap, (out, inbox, source, full))
    move_and_compute[(8,)](*arguments, tiles, shmem.context(), B=B, num_warps=4)
    expected = float((job.my_pe - 1) % job.n_pes)
    for _ in range(10):
        expected = 0.5 * expected + 1
    assert np.allclose(pyshmem.to_numpy(out), expected)
    pyshmem.barrier_all()
    if job.my_pe == 0:
        print(f"{tiles} tiles moved and computed by two groups of warps: ok", flush=True)
