# SPDX-License-Identifier: BSD-3-Clause
"""A kernel asks the host for what only the host has: prices, in a table of the host's.

You learn: register_handler, call, print: a compiled function of yours, run by the host for a kernel.
Run: python -m pyshmem run -n 4 examples/07_handler.py
Output: PE 0: its bill is = 4750 (block 0, thread 0), one line a PE, in any order, and: ok
"""

import pyshmem  # before numba: where there is no GPU it turns on numba's simulator

import numba
import numpy as np
from numba import cuda

from pyshmem import device as shmem

PRICES = np.array([1000, 250, 4500])  # cents


@numba.cfunc("int64(int64, int64, int64, int64)")
def price(item, pieces, _c, _d):
    """Compiled, since it runs on the proxy's thread without Python; -1 for what is not sold."""
    return PRICES[item] * pieces if 0 <= item < len(PRICES) else -1


@cuda.jit
def shop(handler, items, pieces, costs):
    i = cuda.threadIdx.x
    costs[i] = shmem.call(handler, items[i], pieces[i], 0, 0)  # every thread asks for itself
    cuda.syncthreads()
    if i == 0:
        bill = 0
        for cost in costs:
            bill += max(cost, 0)
        shmem.print("its bill is", bill)


with pyshmem.init() as job:
    handler = pyshmem.register_handler(price)
    items, pieces = np.array([0, 1, 2, 7]), np.array([0, 1, 1, 1])
    costs = cuda.to_device(np.zeros(4, dtype=np.int64))
    shop[1, 4](handler, cuda.to_device(items), cuda.to_device(pieces), costs)
    cuda.synchronize()

    assert (costs.copy_to_host() == [0, 250, 4500, -1]).all()
    pyshmem.barrier_all()  # and everybody's print is out
    pyshmem.unregister_handler(handler)
    if job.my_pe == 0:
        print("ok")
