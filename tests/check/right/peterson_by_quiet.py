# SPDX-License-Identifier: BSD-3-Clause
"""Two PEs exclude each other by two flags and a turn. PEs: 2."""

import numpy as np

import pyshmem

with pyshmem.init(device="none") as job:
    me, n = job.my_pe, job.n_pes
    flag, turn, data = (
        pyshmem.zeros(2, np.int64),
        pyshmem.zeros(1, np.int64),
        pyshmem.zeros(1, np.int64),
    )
    other = 1 - me
    for _ in range(4):
        pyshmem.atomic_set(flag[me:], 1, 0)
        pyshmem.quiet()
        pyshmem.atomic_set(turn, other, 0)
        pyshmem.quiet()
        while (
            int(pyshmem.atomic_fetch(flag[other:], 0))
            and int(pyshmem.atomic_fetch(turn, 0)) == other
        ):
            pass
        pyshmem.p(data, int(pyshmem.g(data, 0)) + 1, 0)
        pyshmem.quiet()
        pyshmem.atomic_set(flag[me:], 0, 0)
        pyshmem.quiet()
    pyshmem.barrier_all()
