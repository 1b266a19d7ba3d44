# SPDX-License-Identifier: BSD-3-Clause
"""Columns of one matrix, a PE each. PEs: 4."""

import numpy as np

import pyshmem

with pyshmem.init(device="none") as job:
    me = job.my_pe
    matrix = pyshmem.zeros((4, 4), np.int64)
    pyshmem.iput(matrix.reshape(16)[me:], np.full(4, me), 0, dst=4)
    pyshmem.barrier_all()
    assert me or (matrix == np.arange(4)).all()
    pyshmem.barrier_all()
