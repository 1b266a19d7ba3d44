# SPDX-License-Identifier: BSD-3-Clause
"""Tensors on the heap: a put with a signal, an operator in place, a barrier, reads by torch. PEs: 2."""

import torch

import pyshmem
import pyshmem.interop.torch as symmetric

with pyshmem.init(device="sim") as job:
    right = (job.my_pe + 1) % job.n_pes
    box = symmetric.zeros(8)
    flag = symmetric.zeros(1, dtype=torch.uint64)
    mine = torch.arange(8.0) + job.my_pe
    torch.ops.pyshmem.put_signal(box, mine, flag, 1, pyshmem.SIGNAL_SET, right)
    torch.ops.pyshmem.wait_signal(flag, pyshmem.CMP_EQ, 1, box)
    print(box.sum().item(), box.tolist())
    torch.ops.pyshmem.barrier(box)
    box.fill_(job.my_pe)
    torch.ops.pyshmem.all_reduce_(box, "sum")
    print((2 * box).max())
    gathered = symmetric.empty(16)
    torch.ops.pyshmem.all_gather_out(gathered, box)
    pyshmem.barrier_all()
    pyshmem.put(gathered, box, right)
    pyshmem.barrier_all()
    print(gathered[3:5] + 1)
