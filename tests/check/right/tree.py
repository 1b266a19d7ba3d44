# SPDX-License-Identifier: BSD-3-Clause
"""Sums go up a tree and come down it, by signals alone. PEs: 4."""

import numpy as np

import pyshmem

with pyshmem.init(device="none") as job:
    me, n = job.my_pe, job.n_pes
    part, below = pyshmem.zeros(1, np.int64), pyshmem.zeros(2, np.int64)
    up, down = pyshmem.new_signal(2), pyshmem.new_signal()
    children = [pe for pe in (2 * me + 1, 2 * me + 2) if pe < n]
    for turn in range(1, 4):
        mine = me + 1
        for k, _ in enumerate(children):
            pyshmem.signal_wait_until(up[k:], pyshmem.CMP_EQ, turn)
            mine += int(below[k])
        part[0] = mine
        if me:
            parent, k = (me - 1) // 2, (me - 1) % 2
            pyshmem.put_signal(below[k:], part, up[k:], turn, pyshmem.SIGNAL_SET, parent)
            pyshmem.signal_wait_until(down, pyshmem.CMP_EQ, turn)
        for pe in children:
            pyshmem.put_signal(part, part, down, turn, pyshmem.SIGNAL_SET, pe)
        assert part[0] == n * (n + 1) // 2
