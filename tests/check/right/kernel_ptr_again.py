# SPDX-License-Identifier: BSD-3-Clause
"""Threads store at a peer, load what others of the block have stored there, and store again. PEs: 2."""

import numpy as np
from numba import cuda

import pyshmem
from pyshmem import device as shmem


@cuda.jit
def turn(a):
    there, t = shmem.ptr(a, 1 - shmem.my_pe()), cuda.threadIdx.x
    there[t] = t
    there[t] += 3
    cuda.syncthreads()
    other = there[7 - t]
    cuda.syncthreads()
    there[t] = other


with pyshmem.init(device="sim") as job:
    a = pyshmem.zeros(8, np.int64, heap="device")
    turn[1, 8](a)
    cuda.synchronize()
    pyshmem.barrier_all()
    assert (pyshmem.to_numpy(a) == 10 - np.arange(8)).all()
