# SPDX-License-Identifier: BSD-3-Clause
"""What can be measured besides transfers: the ring, meetings and collectives, signals and atomics."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

import pyshmem
from pyshmem import device as shmem

from . import kernels, put_get
from .timing import Clock, Shape

ONE: Shape = (1, 1)


def ring(clock: Clock) -> None:
    """Null requests with and without replies, credits a request, and ordering with nothing offloaded."""
    pyshmem.barrier_all()
    if clock.job.my_pe == 0:
        clock.emit("ring_null", 0, ONE, clock.alone(kernels.ring_ask, ONE))
        for shape in ((2, 1),) if clock.simulated else ((32, 32), (128, 32), (128, 128)):
            _requests(clock, shape)
        for routine in (shmem.fence, shmem.quiet):
            us = clock.alone(kernels.sync(routine), ONE)
            clock.emit(routine.__name__, 0, ONE, us)
    pyshmem.barrier_all()


def _requests(clock: Clock, shape: Shape) -> None:
    """Microseconds a request when many threads send, and messages of credit a request."""
    count = shape[0] * shape[1]
    before = pyshmem.proxy_stats()
    us = clock.alone(kernels.ring_tell, shape, budget_us=20000)
    after = pyshmem.proxy_stats()
    clock.emit("ring_request", 0, shape, us / count)
    share = (after.credits - before.credits) / (after.requests - before.requests)
    clock.emit("ring_credits_per_request", 0, shape, share)


def collectives(clock: Clock) -> None:
    """Meetings at every scope, and collectives of the world by one block."""
    for call in ("sync_all", "barrier_all"):
        for suffix, threads in (("", 1), ("_warp", 32), ("_work_group", 32), ("_work_group", 1024)):
            threads = min(threads, 64) if clock.simulated else threads
            kernel = kernels.sync(getattr(shmem, call + suffix))
            us = clock.together(kernel, (threads, 1), 500)
            clock.emit(call + suffix, 0, (threads, 1), us)
    n_pes = clock.job.n_pes
    shape = (32, 1) if clock.simulated else (1024, 1)
    sizes = (8, 256) if clock.simulated else tuple(8 << (3 * k) for k in range(7))
    dest, source = (
        pyshmem.zeros(n_pes * sizes[-1] // 4, dtype=np.float32, heap="device") for _ in range(2)
    )
    d, s = shmem.as_argument(dest), shmem.as_argument(source)
    routines = {
        "fcollect_work_group": kernels.exchange(shmem.fcollect_work_group),
        "broadcast_work_group": kernels.broadcast,
        "alltoall_work_group": kernels.exchange(shmem.alltoall_work_group),
        "sum_reduce_work_group": kernels.exchange(shmem.sum_reduce_work_group),
        "sum_reduce_scatter_work_group": kernels.exchange(shmem.sum_reduce_scatter_work_group),
    }
    for op, kernel in routines.items():
        for nbytes in sizes:
            iterations = 200 if nbytes < 100000 else 40
            us = clock.together(kernel, shape, iterations, d, s, nbytes // 4)
            clock.emit(op, nbytes, shape, us)
    pyshmem.barrier_all()
    pyshmem.free(dest)
    pyshmem.free(source)


def signals(clock: Clock) -> None:
    """Ping-pong by signals, alone and with data, and a fetching atomic."""
    job = clock.job
    sizes = (8, 1024) if clock.simulated else (8, 1024, 65536, 1 << 20)
    dest, source = (pyshmem.zeros(sizes[-1], dtype=np.uint8, heap="device") for _ in range(2))
    counter = pyshmem.zeros(1, dtype=np.int64, heap="device")
    sig = pyshmem.new_signal(heap="device")

    def least(kernel: object, shape: Shape, iterations: int, *args: object) -> float:
        times = []
        for _ in range(2 if clock.simulated else 4):  # every run needs the signal at 0
            pyshmem.barrier_all()
            pyshmem.put(sig, np.zeros(1, np.uint64), job.my_pe)
            pyshmem.barrier_all()
            times.append(clock.once(kernel, shape, iterations, *args))
        return min(times[1:])

    if job.n_pes == 2:
        often = 2 if clock.simulated else 1000
        clock.emit("signal_pingpong", 8, ONE, least(kernels.signal_pingpong, ONE, often, sig))
        shape = (32, 1) if clock.simulated else (1024, 1)
        for nbytes in sizes:
            part = (shmem.as_argument(array)[:nbytes] for array in (dest, source))
            iterations = min(often, 200) if nbytes > 100000 else often
            us = least(kernels.put_signal_pingpong, shape, iterations, *part, sig)
            clock.emit("put_signal_pingpong", nbytes, shape, us)
    pyshmem.barrier_all()
    if job.my_pe == 0:
        us = clock.alone(kernels.fetch_add, ONE, shmem.as_argument(counter), job.n_pes - 1)
        clock.emit("fetch_add", 8, ONE, us)
    pyshmem.barrier_all()
    for array in (dest, source, counter, sig):
        pyshmem.free(array)


def put(clock: Clock) -> None:
    """Puts of PE 0 to PE 1 by all ways."""
    put_get.measure(clock, ("put",))


def get(clock: Clock) -> None:
    """Gets of PE 0 from PE 1 by all ways."""
    put_get.measure(clock, ("get",))


PARTS: dict[str, Callable[[Clock], None]] = {
    "put": put,
    "get": get,
    "ring": ring,
    "collectives": collectives,
    "signals": signals,
}
