# SPDX-License-Identifier: BSD-3-Clause
"""One of two does not take the lock. PEs: 2."""

import numpy as np

import pyshmem

with pyshmem.init(device="none") as job:
    me = job.my_pe
    data = pyshmem.zeros(1, np.int64)
    lock = pyshmem.Lock()
    if me == 1:
        with lock:
            pyshmem.p(data, 1, 0)  # <1>
    elif me == 0:
        print(data[0])  # <2>
    pyshmem.barrier_all()
