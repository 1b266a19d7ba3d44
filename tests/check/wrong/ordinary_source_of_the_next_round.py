# SPDX-License-Identifier: BSD-3-Clause
"""A source on no heap of puts that do not block is filled anew for each. PEs: 2."""

import numpy as np

import pyshmem

with pyshmem.init(device="none") as job:
    me, n = job.my_pe, job.n_pes
    rows = pyshmem.zeros((3, 4))
    source = np.zeros(4)
    for number in range(3):
        source[:] = number + 1  # <1>
        pyshmem.put_nbi(rows[number], source, (me + 1) % n)  # <2>
    pyshmem.barrier_all()
