# SPDX-License-Identifier: BSD-3-Clause
"""all_reduce_rmsnorm by each of its algorithms, or by that which is named, several calls each."""

import sys

import torch

import pyshmem
import pyshmem.interop.torch as symmetric
from pyshmem import fused

#: Rows, and elements of one: some rows for each program, and of push more than its ring has slots.
SIZES = {"push": (31, 8192), "pull": (40, 8192), "two_shot": (19, 64), "one_shot": (19, 64)}

with pyshmem.init(device="sim") as job:
    me, n = job.my_pe, job.n_pes
    for algorithm in sys.argv[1:] or SIZES:
        rows, hidden = SIZES[algorithm]
        w, at = torch.ones(hidden), torch.arange(float(hidden))
        for turn in range(2):
            x = symmetric.zeros(rows, hidden, heap="device")
            x += at + me + turn
            more = torch.zeros(rows, hidden)
            done = fused.all_reduce_rmsnorm(x, w, residual=more, algorithm=algorithm)
            want = n * (at + turn) + sum(range(n))
            assert torch.equal(done.residual, want.expand(rows, hidden)), (algorithm, turn)
