# SPDX-License-Identifier: BSD-3-Clause
"""What was put is done when the array is freed, and its memory is another's. PEs: 2."""

import numpy as np

import pyshmem

with pyshmem.init(device="none") as job:
    me, n = job.my_pe, job.n_pes
    for step in range(3):
        box = pyshmem.zeros(16, np.int64)
        pyshmem.put_nbi(box, np.full(16, step), 1 - me)
        pyshmem.free(box)
    other = pyshmem.zeros(16, np.int64)
    assert other.sum() == 0
    pyshmem.barrier_all()
