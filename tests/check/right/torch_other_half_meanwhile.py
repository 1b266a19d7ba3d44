# SPDX-License-Identifier: BSD-3-Clause
"""One half is received, the other one is worked on. PEs: 2."""

import torch.distributed as dist

import pyshmem
import pyshmem.interop.torch as symmetric

with pyshmem.init(device="sim") as job:
    me, n = job.my_pe, job.n_pes
    symmetric.init_process_group()
    box, mine = symmetric.zeros(2, 4), symmetric.ones(4)
    send, receive = dist.isend(mine, 1 - me), dist.irecv(box[0], 1 - me)
    box[1].add_(2)
    receive.wait()
    assert (box[0] + box[1]).sum().item() == 12
    send.wait()
    mine.zero_()
    dist.destroy_process_group()
