# SPDX-License-Identifier: BSD-3-Clause
"""What a non-blocking get fetches is read before quiet. PEs: 2."""

import numpy as np

import pyshmem

with pyshmem.init(device="none") as job:
    me, n = job.my_pe, job.n_pes
    right = (me + 1) % n
    data = pyshmem.zeros(8, np.int64)
    flag = pyshmem.new_signal()

    here = pyshmem.zeros(8, np.int64)
    pyshmem.get_nbi(here, data, right)  # <1>
    print(here[3])  # <2>
    pyshmem.quiet()
    pyshmem.barrier_all()
