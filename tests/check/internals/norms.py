# SPDX-License-Identifier: BSD-3-Clause
"""all_reduce_rmsnorm by each of its algorithms, or by that which is named, several calls each."""

import sys

import torch

import pyshmem
import pyshmem.interop.torch as symmetric
from pyshmem import fused

with pyshmem.init(device="sim") as job:
    me, n = job.my_pe, job.n_pes
    w = torch.ones(64)
    for algorithm in sys.argv[1:] or ("push", "pull", "two_shot", "one_shot"):
        for turn in range(4):
            x = symmetric.zeros(19, 64, heap="device")
            x += torch.arange(64.0) + me + turn
            done = fused.all_reduce_rmsnorm(x, w, residual=torch.zeros(19, 64), algorithm=algorithm)
            want = n * (torch.arange(64.0) + turn) + sum(range(n))
            assert torch.equal(done.residual, want.expand(19, 64)), (algorithm, turn)
