# SPDX-License-Identifier: BSD-3-Clause
"""Values that non-blocking calls fetch are used behind quiet. PEs: 2."""

import numpy as np

import pyshmem

with pyshmem.init(device="none") as job:
    me, n = job.my_pe, job.n_pes
    count, got = pyshmem.zeros(1, np.int64), pyshmem.zeros(2, np.int64)
    data = pyshmem.full(2, me, np.int64)
    pyshmem.barrier_all()
    pyshmem.atomic_fetch_add_nbi(got, count, 1, 1 - me)
    pyshmem.get_nbi(got[1:], data[1:], 1 - me)
    pyshmem.quiet()
    assert got.tolist() == [0, 1 - me]
    pyshmem.sync_all()
    data[:] = 5
