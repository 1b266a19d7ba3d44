# SPDX-License-Identifier: BSD-3-Clause
"""A ufunc writes by out= what the neighbour is getting. PEs: 2."""

import numpy as np

import pyshmem

with pyshmem.init(device="none") as job:
    me, n = job.my_pe, job.n_pes
    mine, got = pyshmem.zeros(4), pyshmem.zeros(4)
    pyshmem.barrier_all()
    pyshmem.get_nbi(got, mine, 1 - me)  # <1>
    np.add(mine, 1.0, out=mine)  # <2>
    pyshmem.barrier_all()
