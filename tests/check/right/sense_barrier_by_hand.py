# SPDX-License-Identifier: BSD-3-Clause
"""A barrier by hand with a sense, that completes puts first. PEs: 3."""

import numpy as np

import pyshmem

with pyshmem.init(device="none") as job:
    me, n = job.my_pe, job.n_pes
    count, sense = pyshmem.zeros(1, np.int64), pyshmem.zeros(1, np.int64)
    data = pyshmem.zeros(n, np.int64)

    def barrier(step):
        pyshmem.quiet()
        if int(pyshmem.atomic_fetch_inc(count, 0)) == n - 1:
            pyshmem.atomic_set(count, 0, 0)
            pyshmem.quiet()
            for pe in range(n):
                pyshmem.atomic_set(sense, step, pe)
        pyshmem.wait_until(sense, pyshmem.CMP_EQ, step)

    for step in range(1, 4):
        pyshmem.p(data[me:], 10 * step + me, (me + 1) % n)
        barrier(2 * step - 1)
        print(data[(me - 1) % n])
        barrier(2 * step)
