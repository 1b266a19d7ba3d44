# SPDX-License-Identifier: BSD-3-Clause
"""Two put_signals of tensors and both waited for, then an operator in place behind a barrier. PEs: 2."""

import torch

import pyshmem
import pyshmem.interop.torch as symmetric

with pyshmem.init(device="sim") as job:
    me, n = job.my_pe, job.n_pes
    box = symmetric.zeros(2, 4)
    flag = symmetric.zeros(1, dtype=torch.uint64)
    a, b = torch.ones(4), torch.ones(4)
    torch.ops.pyshmem.put_signal(box[0], a, flag, 1, pyshmem.SIGNAL_ADD, 1 - me)
    torch.ops.pyshmem.put_signal(box[1], b, flag, 1, pyshmem.SIGNAL_ADD, 1 - me)
    torch.ops.pyshmem.wait_signal(flag, pyshmem.CMP_GE, 2, box)
    print(box.sum().item())
    torch.ops.pyshmem.barrier(box)
    torch.ops.pyshmem.all_reduce_(box, "sum")
    print(box.sum().item())
