# SPDX-License-Identifier: BSD-3-Clause
"""Whoever finds it sets the flag; whose answer is there? PEs: 3."""

import numpy as np

import pyshmem

with pyshmem.init(device="none") as job:
    me, n = job.my_pe, job.n_pes
    answers, found = pyshmem.zeros(3, np.int64), pyshmem.new_signal()
    if me:
        pyshmem.put_signal(answers[me:], np.array([me]), found, 1, pyshmem.SIGNAL_SET, 0)  # <1>
    else:
        pyshmem.signal_wait_until(found, pyshmem.CMP_EQ, 1)
        print(answers[1])  # <2>
    pyshmem.barrier_all()
