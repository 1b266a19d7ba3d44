# SPDX-License-Identifier: BSD-3-Clause
"""The second signal's data is read behind the first one's wait. PEs: 2."""

import numpy as np

import pyshmem

with pyshmem.init(device="none") as job:
    me, other = job.my_pe, 1 - job.my_pe
    data, first, second = pyshmem.zeros(8, np.int64), pyshmem.new_signal(), pyshmem.new_signal()
    pyshmem.put_signal(data[4:], np.ones(4, np.int64), second, 1, pyshmem.SIGNAL_SET, other)
    pyshmem.put_signal(data[:4], np.ones(4, np.int64), first, 1, pyshmem.SIGNAL_SET, other)
    pyshmem.signal_wait_until(first, pyshmem.CMP_EQ, 1)
    print(data.sum())
