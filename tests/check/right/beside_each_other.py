# SPDX-License-Identifier: BSD-3-Clause
"""Lists of indices, masks and single elements beside those that another PE writes. PEs: 2."""

import numpy as np

import pyshmem

with pyshmem.init(device="none") as job:
    me, n = job.my_pe, job.n_pes
    x, flag = pyshmem.zeros(8, np.int64), pyshmem.new_signal()
    odd = np.arange(8) % 2 == 1
    pyshmem.iput(x[0:], np.full(4, 7), 1 - me, dst=2)
    x[odd] = me
    x[[1, 3]] += 1
    assert x[odd].sum() == 4 * me + 2
    assert x[[5, 7]].tolist() == [me, me]
    assert x.take([1, 5]).tolist() == [me + 1, me]
    assert x.item(3) == me + 1
    assert np.take(x, 7) == me
    np.add.at(x, [5, 5], 1)
    np.put(x, [1], 0)
    assert np.array(x[1::2])[0] == 0
    pyshmem.barrier_all()
    assert np.array(x)[0] == 7
    pyshmem.barrier_all()
