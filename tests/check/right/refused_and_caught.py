# SPDX-License-Identifier: BSD-3-Clause
"""What a routine refuses it has not done: values, PEs, contexts, numbers of elements. PEs: 2."""

import numpy as np

import pyshmem

with pyshmem.init(device="none") as job:
    me, peer = job.my_pe, 1 - job.my_pe
    word, data, few = pyshmem.zeros(2, np.int32), pyshmem.zeros(4), np.ones(4)
    gone = pyshmem.TEAM_WORLD.create_ctx()
    gone.destroy()
    calls = (
        lambda: pyshmem.atomic_add(word, 2**40, peer),
        lambda: pyshmem.atomic_fetch_add(word, 1.5, peer),
        lambda: pyshmem.put(data, few, 7),
        lambda: pyshmem.put(data, few, peer, ctx=gone),
        lambda: pyshmem.put(data, np.ones(9), peer),
        lambda: pyshmem.put_nbi(data, few, peer, nelems=-1),
        lambda: pyshmem.iput(data, few, peer, dst=3),
        lambda: pyshmem.p(data, "x", peer),
    )
    for number, call in enumerate(calls):
        try:
            call()
        except (ValueError, TypeError, OverflowError, pyshmem.ShmemError):
            continue
        raise SystemExit(f"call {number} is not refused")
    word[0], data[:] = 4, 3
    pyshmem.barrier_all()
    assert [int(word[0]), data.sum()] == [4, 12]
