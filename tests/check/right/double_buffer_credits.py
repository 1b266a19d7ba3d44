# SPDX-License-Identifier: BSD-3-Clause
"""Two buffers in turn; the reader gives a buffer back by an atomic counter of credits. PEs: 2."""

import numpy as np

import pyshmem

with pyshmem.init(device="none") as job:
    boxes = pyshmem.zeros((2, 16), np.float64)
    full = pyshmem.zeros(2, np.uint64)
    credits = pyshmem.zeros(1, np.int64)
    for step in range(8):
        slot = step % 2
        if job.my_pe == 0:
            if step >= 2:
                pyshmem.wait_until(credits, pyshmem.CMP_GE, step - 1)
            data = np.full(16, float(step))
            pyshmem.put_signal_nbi(
                boxes[slot], data, full[slot:], step // 2 + 1, pyshmem.SIGNAL_SET, 1
            )
            pyshmem.quiet()
        else:
            pyshmem.signal_wait_until(full[slot:], pyshmem.CMP_EQ, step // 2 + 1)
            assert boxes[slot].sum() == 16 * step
            pyshmem.atomic_inc(credits, 0)
