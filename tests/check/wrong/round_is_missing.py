# SPDX-License-Identifier: BSD-3-Clause
"""A barrier by hand of one round out of two. PEs: 4."""

import numpy as np

import pyshmem

with pyshmem.init(device="none") as job:
    me, n = job.my_pe, job.n_pes
    data, arrived = pyshmem.zeros(n, np.int64), pyshmem.new_signal(2)
    for pe in range(n):
        pyshmem.p(data[me:], 1, pe)  # <1>
    pyshmem.quiet()
    pyshmem.signal_set(arrived, 1, (me + 1) % n)
    pyshmem.signal_wait_until(arrived, pyshmem.CMP_GE, 1)
    print(data.sum())  # <2>
    pyshmem.barrier_all()
