# SPDX-License-Identifier: BSD-3-Clause
"""A column of a tensor is read while the peer's rows arrive. PEs: 2."""

import torch

import pyshmem
import pyshmem.interop.torch as symmetric

with pyshmem.init(device="sim") as job:
    me, n = job.my_pe, job.n_pes
    box = symmetric.zeros(4, 4)
    flag = symmetric.zeros(1, dtype=torch.uint64)
    torch.ops.pyshmem.put_signal(box[2], torch.ones(4), flag, 1, pyshmem.SIGNAL_SET, 1 - me)  # <1>
    print(box[:, 1].sum().item())  # <2>
    torch.ops.pyshmem.wait_signal(flag, pyshmem.CMP_EQ, 1, box)
    pyshmem.barrier_all()
