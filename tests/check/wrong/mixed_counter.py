# SPDX-License-Identifier: BSD-3-Clause
"""A counter is added to atomically by the others and plainly by its owner. PEs: 3."""

import numpy as np

import pyshmem

with pyshmem.init(device="none") as job:
    counter = pyshmem.zeros(1, np.int64)
    if job.my_pe == 0:
        counter[0] += 1  # <1>
    else:
        pyshmem.atomic_add(counter, 1, 0)  # <2>
    pyshmem.barrier_all()
