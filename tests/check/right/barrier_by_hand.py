# SPDX-License-Identifier: BSD-3-Clause
"""A barrier of signals in log2(n) rounds orders what was complete before it. PEs: 4."""

import numpy as np

import pyshmem

with pyshmem.init(device="none") as job:
    me, n = job.my_pe, job.n_pes
    data, arrived = pyshmem.zeros(n, np.int64), pyshmem.new_signal(2)
    for turn in range(1, 4):
        for pe in range(n):
            pyshmem.p(data[me:], turn, pe)
        pyshmem.quiet()
        for k in range(2):
            pyshmem.signal_set(arrived[k:], turn, (me + (1 << k)) % n)
            pyshmem.signal_wait_until(arrived[k:], pyshmem.CMP_GE, turn)
        assert (data == turn).all()
        pyshmem.sync_all()
