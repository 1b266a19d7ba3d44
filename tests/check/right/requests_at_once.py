# SPDX-License-Identifier: BSD-3-Clause
"""Two collectives under way, and work on other arrays; waits in another order. PEs: 3."""

import numpy as np

import pyshmem

with pyshmem.init(device="none") as job:
    me, n = job.my_pe, job.n_pes
    a, b = pyshmem.full(4, me, np.int64), pyshmem.full(4, me, np.int64)
    total, all_of_b = pyshmem.zeros(4, np.int64), pyshmem.zeros(4 * n, np.int64)
    other = pyshmem.zeros(4, np.int64)
    for _ in range(3):
        first = pyshmem.sum_reduce_nb(total, a)
        second = pyshmem.fcollect_nb(all_of_b, b)
        other += 1
        second.wait()
        b += 1
        while not first.test():
            other += 1
        a[:] = total
        assert all_of_b.size == 4 * n
