# SPDX-License-Identifier: BSD-3-Clause
"""Each PE takes a spin lock of its own copy, and writes the same row. PEs: 2."""

import numpy as np

import pyshmem

with pyshmem.init(device="none") as job:
    me = job.my_pe
    lock, total = pyshmem.zeros(1, np.int64), pyshmem.zeros(4, np.int64)
    while int(pyshmem.atomic_swap(lock, 1, me)) != 0:
        pass
    pyshmem.put(total, np.full(4, me), 0)  # <1> <2>
    pyshmem.quiet()
    pyshmem.atomic_set(lock, 0, me)
    pyshmem.barrier_all()
