# SPDX-License-Identifier: BSD-3-Clause
"""The gaps of a strided alltoall are a peer's, with a flag of their own. PEs: 2."""

import numpy as np

import pyshmem

with pyshmem.init(device="none") as job:
    me, n = job.my_pe, job.n_pes
    dest, source, flag = (
        pyshmem.zeros(4, np.int64),
        pyshmem.zeros(4, np.int64),
        pyshmem.new_signal(),
    )
    source[:] = me
    pyshmem.put_signal(dest[1:2], np.full(1, 7), flag, 1, pyshmem.SIGNAL_SET, 1 - me)
    pyshmem.alltoalls(dest, source, dst=2, sst=2, nelems=1)
    pyshmem.signal_wait_until(flag, pyshmem.CMP_EQ, 1)
    assert dest[1] == 7
    assert dest[2] == 1
    pyshmem.barrier_all()
