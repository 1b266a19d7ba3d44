# SPDX-License-Identifier: BSD-3-Clause
"""Each PE sets a bit of its own behind its data; who waits for all has heard all. PEs: 3."""

import numpy as np

import pyshmem

with pyshmem.init(device="none") as job:
    me, n = job.my_pe, job.n_pes
    bits, data = pyshmem.zeros(1, np.uint64), pyshmem.zeros(n, np.int64)
    for pe in range(n):
        pyshmem.p(data[me:], me + 5, pe)
        pyshmem.fence()
        pyshmem.atomic_or(bits, 1 << me, pe)
    pyshmem.wait_until(bits, pyshmem.CMP_EQ, (1 << n) - 1)
    assert (data == np.arange(n) + 5).all()
    pyshmem.barrier_all()
