# SPDX-License-Identifier: BSD-3-Clause
"""LL by hand on the host: value and round number in one word, polled with wait_until. PEs: 2."""

import numpy as np

import pyshmem

with pyshmem.init(device="none") as job:
    peer = 1 - job.my_pe
    line = pyshmem.zeros(4, np.int64)
    for turn in range(1, 5):
        for i in range(4):
            pyshmem.p(line[i:], turn << 32 | (10 * i + job.my_pe), peer)
        total = 0
        for i in range(4):
            pyshmem.wait_until(line[i:], pyshmem.CMP_GE, turn << 32)
            total += int(line[i]) & 0xFFFFFFFF
        print(turn, total)
        pyshmem.barrier_all()
