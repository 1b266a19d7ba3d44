# SPDX-License-Identifier: BSD-3-Clause
"""Parts of a tensor arrive with flags of their own, and are used as they come. PEs: 2."""

import torch

import pyshmem
import pyshmem.interop.torch as symmetric

with pyshmem.init(device="sim") as job:
    me, n = job.my_pe, job.n_pes
    box, mine = symmetric.zeros(4, 4), symmetric.ones(4, 4)
    flags = symmetric.zeros(4, dtype=torch.uint64)
    for k in range(4):
        torch.ops.pyshmem.put_signal(
            box[k], mine[k], flags[k : k + 1], 1, pyshmem.SIGNAL_SET, 1 - me
        )
    total = torch.zeros(4)
    for k in range(4):
        torch.ops.pyshmem.wait_signal(flags[k : k + 1], pyshmem.CMP_EQ, 1, box)
        total += box[k]
    assert total.sum().item() == 16
    pyshmem.barrier_all()
