# SPDX-License-Identifier: BSD-3-Clause
"""Tiles between neighbours, a signal a tile: program 0 produces, program 1 consumes.

You learn: store, signal_op, signal_wait_until; the programs of a grid wait for each other.
Run: python -m pyshmem run -n 4 examples/11_triton_producer_consumer.py
Output: 8 tiles from each PE to the next: ok
"""

import numpy as np

import pyshmem
import pyshmem.triton as shmem
import triton
import triton.language as tl


@triton.jit
def queue(buffer, out, source, full, ctx, tiles, B: tl.constexpr):
    right = (shmem.my_pe(ctx) + 1) % shmem.n_pes(ctx)
    for tile in range(tiles):
        offs = tile * B + tl.arange(0, B)
        if tl.program_id(0) == 0:
            shmem.store(buffer + offs, 2 * tl.load(source + offs), right, ctx)
            shmem.signal_op(full + tile, 1, shmem.SIGNAL_SET, right, ctx)  # behind the tile
        else:
            shmem.signal_wait_until(full + tile, shmem.CMP_EQ, 1, ctx)
            tl.store(out + offs, tl.load(buffer + offs) + 1)


with pyshmem.init() as job:
    tiles, B = 8, 64
    source = pyshmem.full(tiles * B, job.my_pe, dtype=np.float32, heap="device")
    buffer, out = (pyshmem.zeros(tiles * B, dtype=np.float32, heap="device") for _ in range(2))
    full = pyshmem.zeros(tiles, dtype=np.int64, heap="device")
    arguments = map(shmem.wrap, (buffer, out, source, full))
    queue[(2,)](*arguments, shmem.context(), tiles, B=B)
    left = (job.my_pe - 1) % job.n_pes
    assert (pyshmem.to_numpy(out) == 2 * left + 1).all()
    pyshmem.barrier_all()
    if job.my_pe == 0:
        print(f"{tiles} tiles from each PE to the next: ok", flush=True)
