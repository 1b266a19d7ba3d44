# SPDX-License-Identifier: BSD-3-Clause
"""Arrays of NumPy are registered, and used as heap memory is. PEs: 2."""

import numpy as np

import pyshmem

with pyshmem.init(device="none") as job:
    peer = 1 - job.my_pe
    mine, other, flag = np.zeros(8, np.int64), np.zeros(8, np.int64), pyshmem.new_signal()
    with pyshmem.register(mine), pyshmem.register(other):
        for turn in (1, 2):
            pyshmem.put(mine, np.full(8, turn), peer)
            pyshmem.put_signal(
                other[4:], np.ones(4, np.int64), flag, turn, pyshmem.SIGNAL_SET, peer
            )
            pyshmem.signal_wait_until(flag, pyshmem.CMP_EQ, turn)
            pyshmem.barrier_all()
            pyshmem.get(mine, other, peer)
            pyshmem.sync_all()
    print(mine.sum())
