# SPDX-License-Identifier: BSD-3-Clause
"""Tasks are claimed by fetch_add on a counter of PE 0; each puts a result. PEs: 3."""

import numpy as np

import pyshmem

with pyshmem.init(device="none") as job:
    counter = pyshmem.zeros(1, np.int64)
    results = pyshmem.zeros(12, np.int64)
    done = pyshmem.zeros(1, np.int64)
    while (task := int(pyshmem.atomic_fetch_inc(counter, 0))) < 12:
        pyshmem.put(results[task:], np.array([task * task]), 0)
        pyshmem.fence()
        pyshmem.atomic_add(done, 1, 0)
    if job.my_pe == 0:
        pyshmem.wait_until(done, pyshmem.CMP_EQ, 12)
        print(results.sum())
    pyshmem.barrier_all()
