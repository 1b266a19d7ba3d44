# SPDX-License-Identifier: BSD-3-Clause
"""A counter of atomics is read plainly. PEs: 2."""

import numpy as np

import pyshmem

with pyshmem.init(device="none") as job:
    me = job.my_pe
    count = pyshmem.zeros(1, np.int64)
    pyshmem.atomic_add(count, 1, 0)  # <1>
    if me == 0:
        print(count[0])  # <2>
    pyshmem.barrier_all()
