# SPDX-License-Identifier: BSD-3-Clause
"""Who does not get the lock comes again. PEs: 3."""

import numpy as np

import pyshmem

with pyshmem.init(device="none") as job:
    me, n = job.my_pe, job.n_pes
    lock = pyshmem.zeros(1, np.int64)
    record = pyshmem.zeros(3, np.int64)
    for _ in range(3):
        while not pyshmem.test_lock(lock):
            pass
        row = np.zeros(3, np.int64)
        pyshmem.get(row, record, 1)
        pyshmem.put(record, row + 1, 1)
        pyshmem.quiet()
        pyshmem.clear_lock(lock)
    pyshmem.barrier_all()
    assert me != 1 or record[2] == 3 * n
