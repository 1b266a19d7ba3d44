# SPDX-License-Identifier: BSD-3-Clause
"""Each PE sets its bit on all; a bit comes behind what its PE has put before its quiet. PEs: 4."""

import numpy as np

import pyshmem

with pyshmem.init(device="none") as job:
    me, n = job.my_pe, job.n_pes
    parts, seen = pyshmem.zeros(n, np.int64), pyshmem.zeros(1, np.uint64)
    for pe in range(n):
        pyshmem.put_nbi(parts[me:], np.array([10 * me]), pe)
    pyshmem.quiet()
    for pe in range(n):
        pyshmem.atomic_or(seen, 1 << me, pe)
    pyshmem.wait_until(seen, pyshmem.CMP_EQ, (1 << n) - 1)
    print(*parts)
