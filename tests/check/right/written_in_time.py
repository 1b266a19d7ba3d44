# SPDX-License-Identifier: BSD-3-Clause
"""Arrays of empty: filled by views, by puts, by collectives; copied as they are. PEs: 2."""

import numpy as np

import pyshmem

with pyshmem.init(device="none") as job:
    peer = 1 - job.my_pe
    data = pyshmem.empty((4, 10), np.float64)
    plain = np.asarray(data)
    plain[:, 1:9] = job.my_pe
    pyshmem.put(data[3], data[0], peer) if job.my_pe == 0 else None
    pyshmem.barrier_all()
    kept = data.copy()
    print(data[:, 1:9].sum(), kept[1, 4])
    small = pyshmem.empty(64, np.uint8)
    memoryview(small)[:] = bytes(range(64))
    print(int(small.sum()), small[3])
    payload, box = pyshmem.empty(1024, np.float32), pyshmem.empty(1024, np.float32)
    pyshmem.barrier_all()
    pyshmem.put(box, payload, peer)
    pyshmem.quiet()
    words = pyshmem.empty(2, np.int64)
    words.fill(0)
    pyshmem.barrier_all()
    pyshmem.atomic_add(words, 5, peer)
    pyshmem.wait_until(words, pyshmem.CMP_EQ, 5)
    part = pyshmem.empty(3, np.int16)
    part[0], part[1], part[2] = 1, 2, 3
    print(words[1], part[2], part.max())
    pyshmem.barrier_all()
    fresh = pyshmem.empty(8, np.int64)
    pyshmem.sum_reduce(fresh, pyshmem.full(8, 2, np.int64))
    print(fresh.sum())
