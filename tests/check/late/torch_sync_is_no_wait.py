# SPDX-License-Identifier: BSD-3-Clause
"""A tensor that a peer puts with a signal is read behind a sync, which waits for no put. PEs: 2."""

import torch

import pyshmem
import pyshmem.interop.torch as symmetric

with pyshmem.init(device="none") as job:
    x = symmetric.zeros(4)
    sig = symmetric.zeros(1, dtype=torch.uint64)
    torch.ops.pyshmem.put_signal(x, torch.ones(4), sig, 1, pyshmem.SIGNAL_SET, 1 - job.my_pe)
    pyshmem.sync_all()
    print(x.sum().item())
    torch.ops.pyshmem.wait_signal(sig, pyshmem.CMP_EQ, 1, x)
