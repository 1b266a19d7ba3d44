# SPDX-License-Identifier: BSD-3-Clause
"""Threads take tickets of a counter at PE 0 and put into the place that they got. PEs: 2."""

import numpy as np
from numba import cuda

import pyshmem
import pyshmem.device as shmem


@cuda.jit
def take(count, places, me):
    ticket = shmem.atomic_fetch_inc(count, 0)
    shmem.p(places[ticket:], me + 1, 0)
    shmem.quiet()


with pyshmem.init(device="sim") as job:
    me, n = job.my_pe, job.n_pes
    right, left = (me + 1) % n, (me - 1) % n
    places = pyshmem.zeros(8, np.int64, heap="device")
    count = pyshmem.zeros(1, np.int64, heap="device")
    take[2, 2](count, places, me)
    cuda.synchronize()
    pyshmem.barrier_all()
    assert me or pyshmem.to_numpy(places).min() > 0
    pyshmem.barrier_all()
