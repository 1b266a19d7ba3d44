# SPDX-License-Identifier: BSD-3-Clause
"""Stores through ptr, quiet, and a signal; then each side again. PEs: 2."""

import numpy as np

import pyshmem

with pyshmem.init(device="none") as job:
    peer = 1 - job.my_pe
    data, flag = pyshmem.zeros(8, np.int64), pyshmem.new_signal()
    there = pyshmem.ptr(data, peer)
    for turn in (1, 2):
        there[:] = turn
        pyshmem.quiet()
        pyshmem.signal_set(flag, turn, peer)
        pyshmem.signal_wait_until(flag, pyshmem.CMP_EQ, turn)
        print(data.sum())
        pyshmem.barrier_all()
        print(there.sum())
        pyshmem.barrier_all()
