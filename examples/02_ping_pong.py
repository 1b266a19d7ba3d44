# SPDX-License-Identifier: BSD-3-Clause
"""PE 0 and PE 1 play: data and a flag travel in one operation, nobody else is involved.

You learn: put_signal, signal_wait_until; the signal proves that its data has arrived.
Run: python -m pyshmem run -n 2 examples/02_ping_pong.py
Output: 100 rallies, ball 200: ok
"""

import numpy as np

import pyshmem

RALLIES = 100

with pyshmem.init() as job:
    ball = pyshmem.zeros(16, dtype=np.int64)  # where the ball arrives
    hit = pyshmem.zeros(16, dtype=np.int64)  # where it is sent from
    flag = pyshmem.new_signal()
    pyshmem.barrier_all()

    other = 1 - job.my_pe
    for rally in range(1, RALLIES + 1) if job.n_pes > 1 and job.my_pe < 2 else ():
        if job.my_pe == 0:
            hit[:] = ball + 1
            pyshmem.put_signal(ball, hit, flag, rally, pyshmem.SIGNAL_SET, other)
            pyshmem.signal_wait_until(flag, pyshmem.CMP_EQ, rally)
        else:
            pyshmem.signal_wait_until(flag, pyshmem.CMP_EQ, rally)
            hit[:] = ball + 1
            pyshmem.put_signal(ball, hit, flag, rally, pyshmem.SIGNAL_SET, other)

    pyshmem.barrier_all()
    if job.my_pe == 0:
        if job.n_pes == 1:
            print("ping-pong needs two PEs: run it with -n 2")
        else:
            assert (ball == 2 * RALLIES).all(), ball
            print(f"{RALLIES} rallies, ball {ball[0]}: ok")
