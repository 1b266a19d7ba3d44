# SPDX-License-Identifier: BSD-3-Clause
"""signal_fetch has seen the first round, and the second is read. PEs: 2."""

import numpy as np

import pyshmem

with pyshmem.init(device="none") as job:
    peer = 1 - job.my_pe
    data, flag = pyshmem.zeros((2, 4), np.int64), pyshmem.new_signal()
    pyshmem.put_signal(data[0], np.ones(4, np.int64), flag, 1, pyshmem.SIGNAL_SET, peer)
    while pyshmem.signal_fetch(flag) != 1:
        pass
    pyshmem.sync_all()
    pyshmem.put_signal(data[1], np.ones(4, np.int64), flag, 2, pyshmem.SIGNAL_SET, peer)  # <1>
    print(data[1].sum())  # <2>
    pyshmem.barrier_all()
