# SPDX-License-Identifier: BSD-3-Clause
"""Puts to one word with fences: whoever sees the last has it. PEs: 2."""

import numpy as np

import pyshmem

with pyshmem.init(device="none") as job:
    me, other = job.my_pe, 1 - job.my_pe
    word, sig = pyshmem.zeros(1, np.int64), pyshmem.new_signal()
    if me == 0:
        for value in range(1, 9):
            pyshmem.p(word, value, other)
            pyshmem.fence()
        pyshmem.signal_set(sig, 1, other)
    else:
        pyshmem.signal_wait_until(sig, pyshmem.CMP_EQ, 1)
        print(word[0])
