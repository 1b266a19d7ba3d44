# SPDX-License-Identifier: BSD-3-Clause
"""A block puts 4 KiB and 4 MiB, once by its own stores and once by a copy engine that it asks.

You learn: the cutover, the size from which a kernel's put leaves its stores; how to set and watch it.
Run: python -m pyshmem run -n 4 examples/05_cutover.py
Output: the times of both ways (in the simulator they are the simulator's), then: ok
"""

import time

import pyshmem  # before numba: where there is no GPU it turns on numba's simulator

import numpy as np
from numba import cuda

from pyshmem import device as shmem

PUTS = 4


@cuda.jit
def put_often(dest, source, nelems, times):
    right = (shmem.my_pe() + 1) % shmem.n_pes()
    for _ in range(times):
        shmem.put_work_group(dest, source, right, nelems)
    shmem.quiet_work_group()


def measure(dest, source, nelems):
    """Microseconds of a put, and how many puts the host was asked for."""
    put_often[1, 128](dest, source, 0, 1)  # compiles
    cuda.synchronize()
    before, start = pyshmem.proxy_stats().requests, time.perf_counter()
    put_often[1, 128](dest, source, nelems, PUTS)
    cuda.synchronize()
    seconds = time.perf_counter() - start
    pyshmem.quiet()  # the proxy has counted what it has served
    return seconds / PUTS * 1e6, pyshmem.proxy_stats().requests - before


with pyshmem.init(device_heap_size="32M") as job:
    source = pyshmem.full(1 << 20, job.my_pe, dtype=np.float32, heap="device")
    dest = pyshmem.zeros(1 << 20, dtype=np.float32, heap="device")
    pyshmem.barrier_all()

    for nbytes in (4 << 10, 4 << 20):
        for way, cutover in (("stores", "never"), ("copy engine", 0)):
            pyshmem.cutover.set("put", cutover)  # for all shapes of groups and grids
            us, asked = measure(dest, source, nbytes // 4)
            # Nobody asks a copy engine for a put to itself; the host carries all to PEs out of reach.
            engine = way == "copy engine" and job.n_pes > 1
            assert asked in ((PUTS,) if engine else (0, PUTS)), asked
            if job.my_pe == 0:
                print(f"{nbytes >> 10:5} KiB by {way + ':':12} {us:8.1f} us")
    pyshmem.cutover.reset("put")  # back to what was measured for such GPUs

    pyshmem.barrier_all()
    assert (pyshmem.to_numpy(dest) == (job.my_pe - 1) % job.n_pes).all()
    if job.my_pe == 0:
        print("ok")
