# SPDX-License-Identifier: BSD-3-Clause
"""LL packets: each word has its own flag, and is waited for by itself. PEs: 2."""

import numpy as np

import pyshmem

with pyshmem.init(device="none") as job:
    me, n = job.my_pe, job.n_pes
    right = (me + 1) % n
    packets = pyshmem.zeros(4, np.uint64)
    for turn in range(1, 4):
        for k in range(4):
            pyshmem.p(packets[k:], turn << 32 | k, right)
        got = []
        for k in range(4):
            pyshmem.wait_until(packets[k:], pyshmem.CMP_GE, turn << 32)
            got.append(int(packets[k]) & 0xFFFF)
        assert got == [0, 1, 2, 3]
        pyshmem.barrier_all()
