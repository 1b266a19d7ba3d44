# SPDX-License-Identifier: BSD-3-Clause
"""The first one's fence is for one PE; the third hears of it by the second. PEs: 3."""

import numpy as np

import pyshmem

with pyshmem.init(device="none") as job:
    me = job.my_pe
    data, sig = pyshmem.zeros(4, np.int64), pyshmem.new_signal()
    if me == 0:
        pyshmem.put(data, np.arange(4), 2)
        pyshmem.fence()
        pyshmem.signal_set(sig, 1, 1)
    elif me == 1:
        pyshmem.signal_wait_until(sig, pyshmem.CMP_EQ, 1)
        pyshmem.signal_set(sig, 1, 2)
    else:
        pyshmem.signal_wait_until(sig, pyshmem.CMP_EQ, 1)
        print(data.sum())
