# SPDX-License-Identifier: BSD-3-Clause
"""A counter is set to 0 by a plain store while others add to it. PEs: 2."""

import numpy as np

import pyshmem

with pyshmem.init(device="none") as job:
    me = job.my_pe
    count = pyshmem.zeros(1, np.int64)
    if me == 0:
        count[0] = 0  # <1>
    else:
        pyshmem.atomic_add(count, 1, 0)  # <2>
    pyshmem.barrier_all()
