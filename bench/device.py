# SPDX-License-Identifier: BSD-3-Clause
"""Device figures of pyshmem: one JSON line each, timed inside the kernels.

Run: python -m pyshmem run -n 2 bench/device.py
``nvshmem_device.cu`` prints the same figures of NVSHMEM, measured the same way; ``compare.py`` puts
them side by side. On more than 2 PEs only the barriers are measured.
"""

import json

import pyshmem  # before numba

import numpy as np
from numba import cuda

from pyshmem import device as shmem
from pyshmem.device._backend import now

SIZES = [8 << (3 * k) for k in range(8)]  # 8 B to 16 MiB
WIDE = (8, 16, 64, 128)  # blocks of 1024 threads


def mover(routine):
    """A kernel whose blocks each move their part of ``source``, again and again."""

    @cuda.jit
    def kernel(dest, source, peer, iterations, ns):
        part = source.size // cuda.gridDim.x
        lo = cuda.blockIdx.x * part
        begin = now()
        for _ in range(iterations):
            routine(dest[lo : lo + part], source[lo : lo + part], peer)
        shmem.quiet_work_group()
        if cuda.threadIdx.x == 0:
            ns[cuda.blockIdx.x, 0] = begin
            ns[cuda.blockIdx.x, 1] = now()

    return kernel


k_put, k_put_nbi, k_get = (
    mover(routine)
    for routine in (shmem.put_work_group, shmem.put_nbi_work_group, shmem.get_work_group)
)


@cuda.jit
def k_put_thread(dest, source, peer, iterations, ns):
    begin = now()
    for _ in range(iterations):
        shmem.put(dest, source, peer)
    shmem.quiet()
    ns[0, 0] = begin
    ns[0, 1] = now()


@cuda.jit
def k_fetch_add(dest, peer, iterations, ns):
    total = np.int64(0)
    begin = now()
    for _ in range(iterations):
        total += shmem.atomic_fetch_add(dest, 1, peer)
    ns[0, 0] = begin
    ns[0, 1] = now() + (total == -1)


@cuda.jit
def k_signal_pingpong(sig, iterations, ns):
    me = shmem.my_pe()
    peer = 1 - me
    k = 1
    begin = now()
    while k <= iterations:
        if me == 0:
            shmem.signal_op(sig, k, shmem.SIGNAL_SET, peer)
            shmem.signal_wait_until(sig, shmem.CMP_GE, k)
        else:
            shmem.signal_wait_until(sig, shmem.CMP_GE, k)
            shmem.signal_op(sig, k, shmem.SIGNAL_SET, peer)
        k += 1
    ns[0, 0] = begin
    ns[0, 1] = now()


@cuda.jit
def k_put_signal_pingpong(dest, source, sig, iterations, ns):
    me = shmem.my_pe()
    peer = 1 - me
    k = 1
    begin = now()
    while k <= iterations:
        if me == 0:
            shmem.put_signal_work_group(dest, source, sig, k, shmem.SIGNAL_SET, peer)
            shmem.signal_wait_until_work_group(sig, shmem.CMP_GE, k)
        else:
            shmem.signal_wait_until_work_group(sig, shmem.CMP_GE, k)
            shmem.put_signal_work_group(dest, source, sig, k, shmem.SIGNAL_SET, peer)
        k += 1
    if cuda.threadIdx.x == 0:
        ns[0, 0] = begin
        ns[0, 1] = now()


def meeting(routine):
    """A kernel whose one block meets the other PEs, again and again."""

    @cuda.jit
    def kernel(iterations, ns):
        begin = now()
        for _ in range(iterations):
            routine()
        if cuda.threadIdx.x == 0:
            ns[0, 0] = begin
            ns[0, 1] = now()

    return kernel


k_barrier, k_sync = meeting(shmem.barrier_all_work_group), meeting(shmem.sync_all_work_group)


def emit(op, nbytes, pes, blocks, threads, us):
    row = {"peer": "pyshmem", "op": op, "bytes": nbytes, "pes": pes, "blocks": blocks}
    print(json.dumps(row | {"threads": threads, "us": round(us, 4)}), flush=True)


class Bench:
    def __init__(self, job):
        self.job = job
        self.ns = cuda.device_array((256, 2), np.int64)

    def time(self, op, kernel, blocks, threads, iterations, nbytes, *args, collective=False):
        """Microseconds an operation: the least of five runs, after one that compiles."""
        best = float("inf")
        for repeat in range(6):
            if collective:
                pyshmem.barrier_all()
            kernel[blocks, threads](*args, iterations, self.ns)
            cuda.synchronize()
            spans = self.ns.copy_to_host()[:blocks]
            if repeat:
                best = min(best, (spans[:, 1].max() - spans[:, 0].min()) / iterations / 1e3)
        if self.job.my_pe == 0:
            emit(op, nbytes, self.job.n_pes, blocks, threads, best)


def two_pes(bench, job):
    dest, source = (pyshmem.zeros(SIZES[-1], dtype=np.uint8, heap="device") for _ in range(2))
    counter = pyshmem.zeros(1, dtype=np.int64, heap="device")
    d, s, c = (shmem.as_argument(array) for array in (dest, source, counter))
    sig = pyshmem.new_signal(heap="device")

    def clear():
        pyshmem.barrier_all()
        pyshmem.put(sig, np.zeros(1, np.uint64), job.my_pe)
        pyshmem.barrier_all()

    for repeat in range(4):  # every run needs the signal at 0
        clear()
        k_signal_pingpong[1, 1](sig, 2000, bench.ns)
        cuda.synchronize()
        span = bench.ns.copy_to_host()[0]
        if job.my_pe == 0 and repeat:
            emit("signal_pingpong", 8, 2, 1, 1, (span[1] - span[0]) / 2000 / 1e3)
    for nbytes in (8, 1024, 65536, 1 << 20):
        for repeat in range(3):
            clear()
            iterations = 200 if nbytes > 100000 else 1000
            k_put_signal_pingpong[1, 1024](d[:nbytes], s[:nbytes], sig, iterations, bench.ns)
            cuda.synchronize()
            span = bench.ns.copy_to_host()[0]
            if job.my_pe == 0 and repeat:
                us = (span[1] - span[0]) / iterations / 1e3
                emit("put_signal_pingpong", nbytes, 2, 1, 1024, us)
    pyshmem.barrier_all()
    if job.my_pe == 0:
        for nbytes in SIZES:
            n = 20 if nbytes > 1 << 20 else 500
            for threads in (32, 128, 1024):
                n_here = n if threads == 1024 or nbytes <= 1 << 18 else 4
                args = (d[:nbytes], s[:nbytes], 1)
                bench.time("put_work_group", k_put, 1, threads, n_here, nbytes, *args)
                bench.time("put_nbi_work_group", k_put_nbi, 1, threads, n_here, nbytes, *args)
            bench.time("get_work_group", k_get, 1, 1024, n, nbytes, *args)
            for blocks in WIDE if nbytes >= 32768 else ():
                bench.time("put_work_group", k_put, blocks, 1024, n, nbytes, *args)
                bench.time("get_work_group", k_get, blocks, 1024, n, nbytes, *args)
        for nbytes in SIZES[:5]:
            bench.time("put", k_put_thread, 1, 1, 200, nbytes, d[:nbytes], s[:nbytes], 1)
        bench.time("fetch_add", k_fetch_add, 1, 1, 1000, 8, c, 1)
    pyshmem.barrier_all()


with pyshmem.init() as job:
    bench = Bench(job)
    if job.n_pes == 2:
        two_pes(bench, job)
    for threads in (32, 1024):
        bench.time("barrier_all_work_group", k_barrier, 1, threads, 500, 0, collective=True)
        bench.time("sync_all_work_group", k_sync, 1, threads, 500, 0, collective=True)
