# SPDX-License-Identifier: BSD-3-Clause
"""A tensor is read before the signal that tells of it. PEs: 2."""

import torch

import pyshmem
import pyshmem.interop.torch as symmetric

with pyshmem.init(device="sim") as job:
    right = (job.my_pe + 1) % job.n_pes
    box = symmetric.zeros(8)
    flag = symmetric.zeros(1, dtype=torch.uint64)
    mine = torch.arange(8.0)
    torch.ops.pyshmem.put_signal(box, mine, flag, 1, pyshmem.SIGNAL_SET, right)  # <1>
    print(box.sum().item())  # <2>
    torch.ops.pyshmem.wait_signal(flag, pyshmem.CMP_EQ, 1, box)
