# SPDX-License-Identifier: BSD-3-Clause
"""Columns of a plate to both neighbours; the plate is used in turn with another. PEs: 3."""

import pyshmem

with pyshmem.init(device="none") as job:
    me, n = job.my_pe, job.n_pes
    plates = [pyshmem.full((4, 6), float(me)) for _ in range(2)]
    came = pyshmem.new_signal(2)
    pyshmem.barrier_all()
    right, left = (me + 1) % n, (me - 1) % n
    for step in range(1, 6):
        old, new = plates[step % 2], plates[1 - step % 2]
        pyshmem.iput(old.reshape(-1)[0:], old.reshape(-1)[4:], right, dst=6, sst=6, nelems=4)
        pyshmem.iput(old.reshape(-1)[5:], old.reshape(-1)[1:], left, dst=6, sst=6, nelems=4)
        pyshmem.fence()
        pyshmem.signal_add(came, 1, right)
        pyshmem.signal_add(came[1:], 1, left)
        pyshmem.wait_until_all(came, pyshmem.CMP_GE, step)
        new[:, 1:5] = (old[:, :4] + old[:, 2:]) / 2
