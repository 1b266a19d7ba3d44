# SPDX-License-Identifier: BSD-3-Clause
"""A reduction is under way; other memory is put to and read meanwhile. PEs: 2."""

import numpy as np

import pyshmem

with pyshmem.init(device="none") as job:
    me, n = job.my_pe, job.n_pes
    total, mine, other = (pyshmem.zeros(4, np.int64) for _ in range(3))
    flag = pyshmem.new_signal()
    mine[:] = me
    request = pyshmem.sum_reduce_nb(total, mine)
    pyshmem.put_signal(other, np.full(4, me), flag, 1, pyshmem.SIGNAL_SET, 1 - me)
    pyshmem.signal_wait_until(flag, pyshmem.CMP_EQ, 1)
    assert other[1] == 1 - me
    request.wait()
    assert total[0] == 1
    mine[:] = 0
    pyshmem.barrier_all()
