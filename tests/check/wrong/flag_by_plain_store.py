# SPDX-License-Identifier: BSD-3-Clause
"""The flag is polled by plain reads in a loop. PEs: 2."""

import numpy as np

import pyshmem

with pyshmem.init(device="none") as job:
    flag = pyshmem.zeros(1, np.int64)
    if job.my_pe == 0:
        pyshmem.p(flag, 1, 1)  # <1>
    else:
        for _ in range(1000):
            if flag[0]:  # <2>
                break
    pyshmem.barrier_all()
