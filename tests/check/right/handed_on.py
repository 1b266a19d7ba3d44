# SPDX-License-Identifier: BSD-3-Clause
"""Who heard of the data tells a third PE. PEs: 3."""

import numpy as np

import pyshmem

with pyshmem.init(device="none") as job:
    me = job.my_pe
    data = pyshmem.zeros(8, np.int64)
    flag = pyshmem.new_signal()

    if me == 0:
        pyshmem.put_signal(data, np.full(8, 7), flag, 1, pyshmem.SIGNAL_SET, 1)
    elif me == 1:
        pyshmem.signal_wait_until(flag, pyshmem.CMP_EQ, 1)
        pyshmem.signal_set(flag, 1, 2)
    elif me == 2:
        pyshmem.signal_wait_until(flag, pyshmem.CMP_EQ, 1)
        got = np.zeros(8, np.int64)
        pyshmem.get(got, data, 1)
        assert got[0] == 7
    pyshmem.barrier_all()
