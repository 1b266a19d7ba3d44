# SPDX-License-Identifier: BSD-3-Clause
"""Non-blocking copies, and quiet before what they use is used. PEs: 2."""

import numpy as np

import pyshmem

with pyshmem.init(device="none") as job:
    me, n = job.my_pe, job.n_pes
    right = (me + 1) % n
    data = pyshmem.zeros(8, np.int64)
    flag = pyshmem.new_signal()

    source, back = pyshmem.full(8, me, np.int64), pyshmem.zeros(8, np.int64)
    pyshmem.put_nbi(data, source, right)
    pyshmem.quiet()
    source[:] = -1
    pyshmem.get_nbi(back, data, right)
    pyshmem.quiet()
    assert back[0] == me
    pyshmem.barrier_all()
