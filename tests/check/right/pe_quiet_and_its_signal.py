# SPDX-License-Identifier: BSD-3-Clause
"""pe_quiet for the PE whose data another one is told of. PEs: 3."""

import numpy as np

import pyshmem

with pyshmem.init(device="none") as job:
    me = job.my_pe
    data, flag = pyshmem.zeros(4, np.int64), pyshmem.new_signal()
    if me == 0:
        pyshmem.put(data, np.full(4, 5), 1)
        pyshmem.pe_quiet([1])
        pyshmem.signal_set(flag, 1, 2)
    elif me == 2:
        pyshmem.signal_wait_until(flag, pyshmem.CMP_NE, 0)
        print(pyshmem.g(data, 1))
    pyshmem.barrier_all()
