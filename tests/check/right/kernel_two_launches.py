# SPDX-License-Identifier: BSD-3-Clause
"""One kernel puts, the next one waits; the host orders a third by a barrier. PEs: 2."""

import numpy as np
from numba import cuda

import pyshmem
import pyshmem.device as shmem


@cuda.jit
def send(data, flag, right):
    i = cuda.grid(1)
    data[4 + i] = i
    shmem.p(data[i:], data[4 + i] + 1, right)
    shmem.fence()
    shmem.signal_add(flag, 1, right)


@cuda.jit
def receive(data, out, flag):
    i = cuda.grid(1)
    shmem.signal_wait_until(flag, shmem.CMP_GE, 4)
    out[i] = data[3 - i]


@cuda.jit
def clear(data, right):
    shmem.p(data[cuda.grid(1) :], 0, right)


with pyshmem.init(device="sim") as job:
    me, n = job.my_pe, job.n_pes
    right, left = (me + 1) % n, (me - 1) % n
    data, out = (pyshmem.zeros(8, np.int64, heap="device") for _ in range(2))
    flag = pyshmem.new_signal(heap="device")
    send[2, 2](data, flag, right)
    receive[2, 2](data, out, flag)
    cuda.synchronize()
    pyshmem.barrier_all()
    clear[1, 4](data, right)
    cuda.synchronize()
    pyshmem.barrier_all()
    assert pyshmem.to_numpy(out).tolist() == [4, 3, 2, 1, 0, 0, 0, 0]
