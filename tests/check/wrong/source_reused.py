# SPDX-License-Identifier: BSD-3-Clause
"""The source of a non-blocking put is changed before quiet. PEs: 2."""

import numpy as np

import pyshmem

with pyshmem.init(device="none") as job:
    me, n = job.my_pe, job.n_pes
    right = (me + 1) % n
    data = pyshmem.zeros(8, np.int64)
    flag = pyshmem.new_signal()

    source = pyshmem.full(8, me, np.int64)
    pyshmem.put_nbi(data, source, right)  # <1>
    source[:] = 0  # <2>
    pyshmem.quiet()
    pyshmem.barrier_all()
