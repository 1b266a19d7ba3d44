# SPDX-License-Identifier: BSD-3-Clause
"""The quiet is of another context than the put, whose source is on no heap. PEs: 2."""

import numpy as np

import pyshmem


def send(context, dest, peer):
    values = np.arange(6)
    pyshmem.put_nbi(dest, values, peer, ctx=context)  # <1>
    pyshmem.quiet()
    values.fill(0)  # <2>
    context.quiet()


with pyshmem.init(device="none") as job:
    box = pyshmem.zeros(6, np.int64)
    context = pyshmem.TEAM_WORLD.create_ctx()
    send(context, box, 1 - job.my_pe)
    pyshmem.barrier_all()
    context.destroy()
