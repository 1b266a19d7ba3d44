# SPDX-License-Identifier: BSD-3-Clause
"""Two PEs put bytes of one word of eight, and a third one reads them. PEs: 4."""

import numpy as np

import pyshmem

with pyshmem.init(device="none") as job:
    me = job.my_pe
    data, here = pyshmem.zeros(16, np.uint8), pyshmem.new_signal()
    if me:
        pyshmem.put_signal(
            data[2 * me : 2 * me + 2], np.full(2, me, np.uint8), here, 1, pyshmem.SIGNAL_ADD, 0
        )
    else:
        data[0] = 9
        pyshmem.signal_wait_until(here, pyshmem.CMP_EQ, 3)
        print(data.sum())
    pyshmem.barrier_all()
