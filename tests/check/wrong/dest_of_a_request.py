# SPDX-License-Identifier: BSD-3-Clause
"""Another PE writes to the dest of a collective that has been begun. PEs: 2."""

import numpy as np

import pyshmem

with pyshmem.init(device="none") as job:
    me = job.my_pe
    total, mine = pyshmem.zeros(2, np.int64), pyshmem.full(2, me, np.int64)
    pyshmem.barrier_all()
    request = pyshmem.sum_reduce_nb(total, mine)  # <2>
    if me == 0:
        pyshmem.p(total, 1, 1)  # <1>
    request.wait()
    pyshmem.barrier_all()
