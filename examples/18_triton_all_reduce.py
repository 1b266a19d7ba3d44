# SPDX-License-Identifier: BSD-3-Clause
"""All-reduce three ways: in registers by one shot and by two, and a large array by whole grids.

You learn: channel, all_reduce, all_reduce_grid: what to take for which size.
Run: python -m pyshmem run -n 4 examples/18_triton_all_reduce.py
Output: one shot, two shots, grids: ok
"""

import numpy as np

import pyshmem
import pyshmem.triton as shmem
import triton
import triton.language as tl


@triton.jit
def in_registers(out, source, words, ctx, TWO: tl.constexpr, B: tl.constexpr):
    """A kernel goes on with the sum where it has it: here with its square."""
    offs = tl.program_id(0) * B + tl.arange(0, B)
    total = shmem.all_reduce(tl.load(source + offs), words, ctx, two_shots=TWO)
    tl.store(out + offs, total * total)


@triton.jit
def in_memory(out, source, n, ctx, B: tl.constexpr):
    shmem.all_reduce_grid(out, source, n, ctx, B)


with pyshmem.init() as job:
    B, programs, ctx = 64, 2, shmem.context()
    n = B * programs
    source = shmem.wrap(pyshmem.full(n, job.my_pe + 1, dtype=np.float32, heap="device"))
    out = shmem.wrap(pyshmem.zeros(n, dtype=np.float32, heap="device"))
    words = shmem.channel(programs, 4 * B)
    total = job.n_pes * (job.n_pes + 1) // 2
    for two in (False, True):
        in_registers[(programs,)](out, source, words, ctx, TWO=two, B=B)
        assert (pyshmem.to_numpy(out.array) == total**2).all()
    in_memory[(programs,)](out, source, n, ctx, B=B)
    assert (pyshmem.to_numpy(out.array) == total).all()
    pyshmem.barrier_all()
    if job.my_pe == 0:
        print("one shot, two shots, grids: ok", flush=True)
