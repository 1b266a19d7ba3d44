# SPDX-License-Identifier: BSD-3-Clause
"""Who is there: every PE writes its number into PE 0's memory.

You learn: init, my_pe and n_pes, symmetric arrays, p, barrier_all.
Run: python -m pyshmem run -n 4 examples/00_hello.py
Output: hello from PE 0 of 4 (one line a PE, in any order), then: ok
"""

import numpy as np

import pyshmem

with pyshmem.init() as job:
    print(f"hello from PE {job.my_pe} of {job.n_pes}", flush=True)

    # The same array on every PE, at the same place of its symmetric heap.
    present = pyshmem.full(job.n_pes, -1, dtype=np.int64)
    pyshmem.p(present[job.my_pe :], job.my_pe, pe=0)  # one element, straight into PE 0
    pyshmem.barrier_all()  # completes it, and waits for everybody's

    if job.my_pe == 0:
        assert (present == np.arange(job.n_pes)).all(), present
        print("ok")
