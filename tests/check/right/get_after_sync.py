# SPDX-License-Identifier: BSD-3-Clause
"""Own stores, a sync, and gets: stores of a PE are there when it comes to the sync. PEs: 3."""

import numpy as np

import pyshmem

with pyshmem.init(device="none") as job:
    me, n = job.my_pe, job.n_pes
    mine, got = pyshmem.zeros(4, np.int64), np.zeros(4, np.int64)
    for turn in range(3):
        mine[:] = 10 * turn + me
        pyshmem.sync_all()
        pyshmem.get(got, mine, (me + 1) % n)
        assert got[0] == 10 * turn + (me + 1) % n
        pyshmem.sync_all()
