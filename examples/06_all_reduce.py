# SPDX-License-Identifier: BSD-3-Clause
"""A line through points that are spread over the PEs: gradients are added up in the kernel that steps.

You learn: a reduction in a kernel; many rounds of computing and communicating in one launch.
Run: python -m pyshmem run -n 4 examples/06_all_reduce.py
Output: slope and offset, the same bits on every PE, then: ok
"""

import pyshmem  # before numba: where there is no GPU it turns on numba's simulator

import numpy as np
from numba import cuda

from pyshmem import device as shmem

POINTS, ROUNDS, RATE = 64, 60, 0.5


@cuda.jit
def fit(line, x, y, gradient, total, n_points):
    i = cuda.threadIdx.x
    for _ in range(ROUNDS):
        if i < 2:  # of half the mean square error: by the slope, and by the offset
            mine = 0.0
            for k in range(x.size):
                error = line[0] * x[k] + line[1] - y[k]
                mine += error * (x[k] if i == 0 else 1.0)
            gradient[i] = mine / n_points
        shmem.sum_reduce_work_group(shmem.TEAM_WORLD, total, gradient, 2)
        if i < 2:
            line[i] -= RATE * total[i]
        cuda.syncthreads()


with pyshmem.init() as job:
    rng = np.random.default_rng(job.my_pe)
    x = rng.uniform(-2.0, 2.0, POINTS)
    y = 3.0 * x - 1.0

    line = cuda.to_device(np.zeros(2))  # plain memory of this PE
    gradient = pyshmem.zeros(2, dtype=np.float64, heap="device")
    total = pyshmem.zeros(2, dtype=np.float64, heap="device")
    points = cuda.to_device(x), cuda.to_device(y)
    fit[1, 32](line, *points, gradient, total, POINTS * job.n_pes)

    fitted = pyshmem.full(2, line.copy_to_host(), dtype=np.float64)
    everybody = pyshmem.zeros(2 * job.n_pes, dtype=np.float64)
    pyshmem.fcollect(everybody, fitted)
    assert (everybody.reshape(job.n_pes, 2) == everybody[:2]).all(), everybody
    assert np.allclose(fitted, (3.0, -1.0), atol=1e-6), fitted
    if job.my_pe == 0:
        print(f"y = {fitted[0]:.6f} x {fitted[1]:+.6f}: ok")
