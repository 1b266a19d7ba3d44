# SPDX-License-Identifier: BSD-3-Clause
"""Slots of two PEs overlap by one element. PEs: 3."""

import numpy as np

import pyshmem

with pyshmem.init(device="none") as job:
    me = job.my_pe
    data = pyshmem.zeros(8, np.int64)
    flag = pyshmem.new_signal()

    if me < 2:
        pyshmem.put(data[3 * me : 3 * me + 4], np.full(4, me), 2)  # <1> <2>
    pyshmem.barrier_all()
