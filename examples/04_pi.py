# SPDX-License-Identifier: BSD-3-Clause
"""Pi from the area under 4 / (1 + x**2): every PE adds up its share of the strips.

You learn: a reduction; the result is on every PE, with the same bits.
Run: python -m pyshmem run -n 4 examples/04_pi.py
Output: pi is about 3.14159265359: ok
"""

import math

import numpy as np

import pyshmem

STRIPS = 1_000_000

with pyshmem.init() as job:
    x = (np.arange(job.my_pe, STRIPS, job.n_pes) + 0.5) / STRIPS
    mine = pyshmem.full(1, (4.0 / (1.0 + x * x)).sum() / STRIPS, dtype=np.float64)
    total = pyshmem.zeros(1, dtype=np.float64)

    pyshmem.sum_reduce(total, mine)

    assert abs(total[0] - math.pi) < 1e-9, total
    if job.my_pe == 0:
        print(f"pi is about {total[0]:.11f}: ok")
