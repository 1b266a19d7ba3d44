# SPDX-License-Identifier: BSD-3-Clause
"""Atomics of 32 and of 64 bits meet in one word. PEs: 2."""

import numpy as np

import pyshmem

with pyshmem.init(device="none") as job:
    word = pyshmem.zeros(1, np.int64)
    if job.my_pe:
        pyshmem.atomic_add(word, 1 << 32, 0)  # <1>
    else:
        pyshmem.atomic_inc(word.view(np.int32), 0)  # <2>
    pyshmem.barrier_all()
