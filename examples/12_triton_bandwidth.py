# SPDX-License-Identifier: BSD-3-Clause
"""Loads and stores between all pairs, and a heat map of their bandwidth.

You learn: load, store; one pair at a time. In the interpreter the figures mean nothing.
Run: python -m pyshmem run -n 4 examples/12_triton_bandwidth.py
Output: a row for each PE, GB/s of stores and of loads; then ok
"""

import time

import numpy as np

import pyshmem
import pyshmem.triton as shmem
import triton
import triton.language as tl


@triton.jit
def move(far, near, n, pe, ctx, STORES: tl.constexpr, B: tl.constexpr):
    first = tl.program_id(0) * B
    while first < n:
        offs = first + tl.arange(0, B)
        if STORES:
            shmem.store(far + offs, tl.load(near + offs, mask=offs < n), pe, ctx, mask=offs < n)
        else:
            tl.store(near + offs, shmem.load(far + offs, pe, ctx, mask=offs < n), mask=offs < n)
        first += tl.num_programs(0) * B


def seconds(stores, pe):
    grid, B = ((132,), 4096) if on_gpu else ((2,), 1024)
    move[grid](far, near, n, pe, ctx, STORES=stores, B=B)
    pyshmem.to_numpy(near[:1])  # waits for the kernel
    begin = time.perf_counter()
    move[grid](far, near, n, pe, ctx, STORES=stores, B=B)
    pyshmem.to_numpy(near[:1])
    return time.perf_counter() - begin


with pyshmem.init(device_heap_size="600M") as job:
    on_gpu = job.device == "cuda"
    n = 1 << (26 if on_gpu else 12)
    far, near = (pyshmem.full(n, job.my_pe, dtype=np.float32, heap="device") for _ in range(2))
    ctx = shmem.context()
    map_of = pyshmem.zeros((2, job.n_pes, job.n_pes), dtype=float)
    for stores in (True, False):
        for source in range(job.n_pes):
            for pe in range(job.n_pes):
                pyshmem.barrier_all()
                if source == job.my_pe:
                    pyshmem.p(map_of[int(stores), source, pe:], 4e-9 * n / seconds(stores, pe), 0)
    # The last who stored here was the last PE; what was loaded last is the last PE's.
    pyshmem.barrier_all()
    last = job.n_pes - 1
    assert (pyshmem.to_numpy(near) == last).all()
    if job.my_pe == 0:
        for way in (1, 0):
            print(("load", "store")[way], "GB/s, from row to column")
            for row in map_of[way]:
                print(" ".join(f"{figure:8.2f}" for figure in row))
        print("all pairs: ok", flush=True)
