# SPDX-License-Identifier: BSD-3-Clause
"""Which of two values is set last is not known before. PEs: 3."""

import numpy as np

import pyshmem

with pyshmem.init(device="none") as job:
    me = job.my_pe
    word = pyshmem.zeros(1, np.int64)
    if me:
        pyshmem.atomic_set(word, me, 0)
    else:
        pyshmem.wait_until(word, pyshmem.CMP_NE, 0)
    pyshmem.barrier_all()
    if me == 0:
        print(word[0])
