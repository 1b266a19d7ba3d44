# SPDX-License-Identifier: BSD-3-Clause
"""A fence orders what goes to one PE: another that hears of it knows nothing. PEs: 3."""

import numpy as np

import pyshmem

with pyshmem.init(device="none") as job:
    data, flag = pyshmem.zeros(8, np.int64), pyshmem.new_signal()
    if job.my_pe == 0:
        pyshmem.put(data, np.ones(8, np.int64), 1)
        pyshmem.fence()
        pyshmem.signal_set(flag, 1, 2)
    elif job.my_pe == 2:
        pyshmem.signal_wait_until(flag, pyshmem.CMP_EQ, 1)
        out = np.zeros(8, np.int64)
        pyshmem.get(out, data, 1)
        print(out.sum())
