# SPDX-License-Identifier: BSD-3-Clause
"""The box is given back before it has been read. PEs: 2."""

import numpy as np

import pyshmem

with pyshmem.init(device="none") as job:
    me, other = job.my_pe, 1 - job.my_pe
    box, ready, free = pyshmem.zeros(4, np.int64), pyshmem.new_signal(), pyshmem.new_signal()
    total = 0
    for turn in range(1, 7):
        if me == 0:
            pyshmem.put_signal(box, np.full(4, turn), ready, turn, pyshmem.SIGNAL_SET, other)
            pyshmem.signal_wait_until(free, pyshmem.CMP_GE, turn)
        else:
            pyshmem.signal_wait_until(ready, pyshmem.CMP_GE, turn)
            pyshmem.signal_set(free, turn, other)
            total += int(pyshmem.g(box, me))
    print(total)
