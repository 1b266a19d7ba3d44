# SPDX-License-Identifier: BSD-3-Clause
"""Workers count up before what they have put is ordered; PE 0 waits for the count. PEs: 3."""

import numpy as np

import pyshmem

with pyshmem.init(device="none") as job:
    results = pyshmem.zeros(12, np.int64)
    done = pyshmem.zeros(1, np.int64)
    mine = np.array([job.my_pe + 1])
    pyshmem.put(results[job.my_pe :], mine, 0)  # <1>
    pyshmem.atomic_add(done, 1, 0)
    if job.my_pe == 0:
        pyshmem.wait_until(done, pyshmem.CMP_EQ, 3)
        print(results.sum())  # <2>
    pyshmem.barrier_all()
