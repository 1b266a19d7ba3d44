# SPDX-License-Identifier: BSD-3-Clause
"""A fence, and a third PE that carries the news: only quiet is enough. PEs: 3."""

import numpy as np

import pyshmem

with pyshmem.init(device="none") as job:
    me = job.my_pe
    a, sig = pyshmem.zeros(4, np.int64), pyshmem.new_signal()
    if me == 0:
        pyshmem.put(a, np.full(4, 7), 1)  # <1>
        pyshmem.fence()
        pyshmem.signal_set(sig, 1, 2)
    elif me == 2:
        pyshmem.signal_wait_until(sig, pyshmem.CMP_EQ, 1)
        pyshmem.signal_set(sig, 1, 1)
    else:
        pyshmem.signal_wait_until(sig, pyshmem.CMP_EQ, 1)
        print(a[0])  # <2>
