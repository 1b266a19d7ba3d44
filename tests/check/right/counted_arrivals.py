# SPDX-License-Identifier: BSD-3-Clause
"""A counter of all arrivals, by added signals. PEs: 3."""

import numpy as np

import pyshmem

with pyshmem.init(device="none") as job:
    me, n = job.my_pe, job.n_pes
    data, count = pyshmem.zeros(4 * n, np.int64), pyshmem.new_signal()
    for pe in range(n):
        part = data[4 * me : 4 * me + 4]
        pyshmem.put_signal(part, np.full(4, me), count, 1, pyshmem.SIGNAL_ADD, pe)
    pyshmem.signal_wait_until(count, pyshmem.CMP_EQ, n)
    assert data.sum() == 2 * n * (n - 1)
    pyshmem.barrier_all()
