# SPDX-License-Identifier: BSD-3-Clause
"""Two PEs put the same column. PEs: 3."""

import numpy as np

import pyshmem

with pyshmem.init(device="none") as job:
    me = job.my_pe
    matrix = pyshmem.zeros((4, 4), np.int64)
    if me > 0:
        pyshmem.iput(matrix.reshape(16)[2:], np.full(3, me), 0, dst=4)  # <1> <2>
    pyshmem.barrier_all()
