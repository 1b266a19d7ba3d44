# SPDX-License-Identifier: BSD-3-Clause
"""A list of indices names an element that another PE writes. PEs: 2."""

import numpy as np

import pyshmem

with pyshmem.init(device="none") as job:
    me, n = job.my_pe, job.n_pes
    data = pyshmem.zeros(8, np.int64)
    pyshmem.p(data[5:], 1, 1 - me)  # <1>
    data[[1, 5]] = 3  # <2>
    pyshmem.barrier_all()
