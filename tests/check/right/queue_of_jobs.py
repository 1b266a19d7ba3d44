# SPDX-License-Identifier: BSD-3-Clause
"""A ring of four places: the producer waits until the consumer has counted on. PEs: 2."""

import numpy as np

import pyshmem

with pyshmem.init(device="none") as job:
    me, n = job.my_pe, job.n_pes
    places = pyshmem.zeros(4, np.int64)
    tail, head = pyshmem.zeros(1, np.int64), pyshmem.zeros(1, np.int64)
    for turn in range(20):
        if me == 0:
            pyshmem.wait_until(head, pyshmem.CMP_GT, turn - 4)
            pyshmem.p(places[turn % 4 :], turn, 1)
            pyshmem.fence()
            pyshmem.atomic_inc(tail, 1)
        else:
            pyshmem.wait_until(tail, pyshmem.CMP_GT, turn)
            assert places[turn % 4] == turn
            pyshmem.atomic_inc(head, 0)
