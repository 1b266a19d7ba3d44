# SPDX-License-Identifier: BSD-3-Clause
"""The dest of a collective under way is read. PEs: 2."""

import numpy as np

import pyshmem

with pyshmem.init(device="none") as job:
    me, n = job.my_pe, job.n_pes
    mine, total = pyshmem.full(4, me, np.int64), pyshmem.zeros(4, np.int64)
    request = pyshmem.max_reduce_nb(total, mine)  # <1>
    print(float(total[0]))  # <2>
    request.wait()
    pyshmem.barrier_all()
