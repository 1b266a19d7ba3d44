# SPDX-License-Identifier: BSD-3-Clause
"""A ring of two places is filled again without asking the consumer. PEs: 2."""

import numpy as np

import pyshmem

with pyshmem.init(device="none") as job:
    me, n = job.my_pe, job.n_pes
    places, tail = pyshmem.zeros(2, np.int64), pyshmem.new_signal()
    for turn in range(6):
        if me == 0:
            value = np.array([turn])
            pyshmem.put_signal(places[turn % 2 :], value, tail, 1, pyshmem.SIGNAL_ADD, 1)  # <1>
        else:
            pyshmem.signal_wait_until(tail, pyshmem.CMP_GT, turn)
            print(places[turn % 2])  # <2>
    pyshmem.barrier_all()
