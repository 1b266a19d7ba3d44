# SPDX-License-Identifier: BSD-3-Clause
"""The same words by one put. PEs: 2."""

import numpy as np

import pyshmem

with pyshmem.init(device="none") as job:
    me, n = job.my_pe, job.n_pes
    right = (me + 1) % n
    packets = pyshmem.zeros(4, np.uint64)
    words = np.arange(4, dtype=np.uint64) | np.uint64(1 << 32)
    pyshmem.put(packets, words, right)
    pyshmem.wait_until_all(packets, pyshmem.CMP_GE, 1 << 32)
    assert [int(word) & 0xFFFF for word in packets] == [0, 1, 2, 3]
    pyshmem.barrier_all()
