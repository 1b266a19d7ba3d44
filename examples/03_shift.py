# SPDX-License-Identifier: BSD-3-Clause
"""A kernel puts an array into its right neighbour's memory and waits for its left one's.

You learn: a kernel that communicates by itself, on a GPU or in the simulator, with no host between.
Run: python -m pyshmem run -n 4 examples/03_shift.py
Output: ok
"""

import pyshmem  # before numba: where there is no GPU it turns on numba's simulator

import numpy as np
from numba import cuda

from pyshmem import device as shmem


@cuda.jit
def shift(dest, source, sig):
    right = (shmem.my_pe() + 1) % shmem.n_pes()
    shmem.put_signal_work_group(dest, source, sig, 1, shmem.SIGNAL_SET, right)
    if cuda.threadIdx.x == 0:
        shmem.signal_wait_until(sig, shmem.CMP_EQ, 1)


with pyshmem.init() as job:
    nelems = 1 << (20 if job.device == "cuda" else 12)
    source = pyshmem.full(nelems, job.my_pe, dtype=np.float32, heap="device")
    dest = pyshmem.zeros(nelems, dtype=np.float32, heap="device")
    sig = pyshmem.new_signal(heap="device")
    pyshmem.barrier_all()

    shift[1, 256](dest, source, sig)
    cuda.synchronize()

    assert (pyshmem.to_numpy(dest) == (job.my_pe - 1) % job.n_pes).all()
    pyshmem.barrier_all()
    if job.my_pe == 0:
        print("ok")
