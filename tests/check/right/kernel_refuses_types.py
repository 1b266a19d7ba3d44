# SPDX-License-Identifier: BSD-3-Clause
"""What a kernel's routine does not take is told there, and touches nothing. PEs: 2."""

import numpy as np
from numba import cuda

import pyshmem
import pyshmem.device as shmem


@cuda.jit
def refused(words, floats, other, what):
    if what == 0:
        shmem.atomic_inc(floats, other)
    elif what == 1:
        shmem.atomic_or(floats, 1, other)
    elif what == 2:
        shmem.put(words, floats, other)
    else:
        shmem.signal_set(words, 1, other)


with pyshmem.init(device="sim") as job:
    words, floats = (
        pyshmem.zeros(4, np.int64, heap="device"),
        pyshmem.zeros(4, np.float32, heap="device"),
    )
    for what in range(4):
        try:
            refused[1, 1](words, floats, 1 - job.my_pe, what)
        except TypeError as error:
            text = str(error)
        else:
            raise AssertionError(what)
        assert "this routine" in text or "dest holds" in text, text
    pyshmem.barrier_all()
    print(pyshmem.to_numpy(words).sum(), pyshmem.to_numpy(floats).sum())
