# SPDX-License-Identifier: BSD-3-Clause
"""What an atomic operation will fetch is read before quiet. PEs: 3."""

import numpy as np

import pyshmem

with pyshmem.init(device="none") as job:
    me, n = job.my_pe, job.n_pes
    right = (me + 1) % n
    count, old = pyshmem.zeros(1, np.int64), pyshmem.zeros(4, np.int64)
    for k in range(4):
        pyshmem.atomic_fetch_add_nbi(old[k:], count, 2, right)  # <1>
    print(old.max())  # <2>
    pyshmem.barrier_all()
