# SPDX-License-Identifier: BSD-3-Clause
"""A slot is filled and completed, and its number swapped into a word. PEs: 2."""

import numpy as np

import pyshmem

with pyshmem.init(device="none") as job:
    me, n = job.my_pe, job.n_pes
    slot, word = pyshmem.zeros(4, np.int64), pyshmem.zeros(1, np.int64)
    for turn in range(1, 4):
        if me == 0:
            pyshmem.put(slot, np.full(4, turn), 1)
            pyshmem.quiet()
            assert pyshmem.atomic_swap(word, turn, 1) == 0
            pyshmem.wait_until(word, pyshmem.CMP_EQ, turn)
        else:
            pyshmem.wait_until(word, pyshmem.CMP_EQ, turn)
            assert slot[3] == turn
            pyshmem.atomic_set(word, 0, 1)
            pyshmem.quiet()
            pyshmem.atomic_set(word, turn, 0)
    pyshmem.barrier_all()
