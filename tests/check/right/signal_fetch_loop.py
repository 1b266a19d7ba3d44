# SPDX-License-Identifier: BSD-3-Clause
"""signal_fetch in a loop, and other work between. PEs: 2."""

import numpy as np

import pyshmem

with pyshmem.init(device="none") as job:
    peer = 1 - job.my_pe
    data, flag, work = pyshmem.zeros(4, np.int64), pyshmem.new_signal(), 0
    for turn in (1, 2, 3):
        pyshmem.put_signal(data, np.full(4, turn), flag, turn, pyshmem.SIGNAL_SET, peer)
        while int(pyshmem.signal_fetch(flag)) < turn:
            work += 1
        print(data.sum())
        pyshmem.sync_all()
