# SPDX-License-Identifier: BSD-3-Clause
"""What a routine refuses touches nothing, and a kernel that raises has ended. PEs: 2."""

import contextlib

import numpy as np
from numba import cuda

import pyshmem
import pyshmem.device as shmem


@cuda.jit
def refused(data, sig, what):
    if what == 0:
        shmem.iput(data, data[4:], 2**61, 1, 3, 0)
    elif what == 1:
        shmem.put_signal(data[:4], data[4:], sig, 1, 7, 0)
    else:
        data[0] = 1
        shmem.put(data[1:3], data[4:6], shmem.my_pe())
        raise ValueError


@cuda.jit
def again(data):
    data[0] += 1
    shmem.put(data[2:4], data[1:3], shmem.my_pe())


with pyshmem.init(device="sim") as job:
    data = pyshmem.zeros(8, np.int64, heap="device")
    sig = pyshmem.new_signal(heap="device")
    for what in range(3):
        with contextlib.suppress(pyshmem.KernelFault, ValueError):
            refused[1, 1](data, sig, what)
            pyshmem.quiet()
    again[1, 1](data)
    assert data[0] == 2
    assert sig[0] == 0
