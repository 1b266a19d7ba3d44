# SPDX-License-Identifier: BSD-3-Clause
"""A ring all-reduce: sums go round, then results, without an acknowledgement. PEs: 4."""

import numpy as np

import pyshmem

with pyshmem.init(device="none") as job:
    me, n = job.my_pe, job.n_pes
    right = (me + 1) % n
    data = pyshmem.zeros((n, 4), np.int64)
    box = pyshmem.zeros((n - 1, 4), np.int64)
    sig = pyshmem.new_signal(2 * n)
    data[:] = me + 1
    for s in range(n - 1):
        c = (me - s) % n
        pyshmem.put_signal(box[s], data[c], sig[s:], 1, pyshmem.SIGNAL_SET, right)
        pyshmem.signal_wait_until(sig[s:], pyshmem.CMP_EQ, 1)
        data[(me - s - 1) % n] += box[s]
    for s in range(n - 1):
        c = (me + 1 - s) % n
        pyshmem.put_signal(data[c], data[c], sig[n + s :], 1, pyshmem.SIGNAL_SET, right)
        pyshmem.signal_wait_until(sig[n + s :], pyshmem.CMP_EQ, 1)
    assert (data == n * (n + 1) // 2).all()
    pyshmem.barrier_all()
