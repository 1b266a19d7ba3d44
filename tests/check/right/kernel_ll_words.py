# SPDX-License-Identifier: BSD-3-Clause
"""Flags in data in a kernel: each word carries its round; threads poll their own word. PEs: 2."""

import numpy as np
from numba import cuda

import pyshmem
import pyshmem.device as shmem


@cuda.jit
def exchange(box, out, turn):
    i = cuda.grid(1)
    peer = 1 - shmem.my_pe()
    shmem.p(box[i:], (turn << 20) + 100 * shmem.my_pe() + i, peer)
    shmem.wait_until(box[i:], shmem.CMP_GE, turn << 20)
    out[i] = box[i] - (turn << 20)


with pyshmem.init(device="sim") as job:
    box, out = (pyshmem.zeros(8, np.int64, heap="device") for _ in range(2))
    for turn in range(1, 4):
        exchange[2, 4](box, out, turn)
        pyshmem.sync_all()
    print(out)
