# SPDX-License-Identifier: BSD-3-Clause
"""Two buffers in turn, and the writer does not wait for the reader to give one back. PEs: 2."""

import numpy as np

import pyshmem

with pyshmem.init(device="none") as job:
    boxes = pyshmem.zeros((2, 16), np.float64)
    full = pyshmem.zeros(2, np.uint64)
    for step in range(4):
        slot = step % 2
        if job.my_pe == 0:
            data = np.full(16, float(step))
            pyshmem.put_signal(boxes[slot], data, full[slot:], 1, pyshmem.SIGNAL_ADD, 1)  # <1>
        else:
            pyshmem.signal_wait_until(full[slot:], pyshmem.CMP_GE, step // 2 + 1)
            print(boxes[slot].sum())  # <2>
