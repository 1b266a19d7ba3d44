# SPDX-License-Identifier: BSD-3-Clause
"""Columns of two PEs share one. PEs: 3."""

import numpy as np

import pyshmem

with pyshmem.init(device="none") as job:
    me, n = job.my_pe, job.n_pes
    plate = pyshmem.zeros((4, 6), np.int64).reshape(-1)
    column = np.full(4, me)
    if me:
        for k in range(2):
            pyshmem.iput(plate[me + k :], column, 0, dst=6)  # <1> <2>
    pyshmem.barrier_all()
