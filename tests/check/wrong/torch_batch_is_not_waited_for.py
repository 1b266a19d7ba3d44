# SPDX-License-Identifier: BSD-3-Clause
"""Of a batch of sends and receives the first work alone is waited for. PEs: 2."""

import torch.distributed as dist

import pyshmem
import pyshmem.interop.torch as symmetric

with pyshmem.init(device="sim") as job:
    me, n = job.my_pe, job.n_pes
    symmetric.init_process_group()
    box, mine = symmetric.zeros(4), symmetric.ones(4)
    both = [dist.P2POp(dist.isend, mine, 1 - me), dist.P2POp(dist.irecv, box, 1 - me)]
    works = dist.batch_isend_irecv(both)  # <1>
    works[0].wait()
    print(box.sum().item())  # <2>
    for work in works:
        work.wait()
    dist.destroy_process_group()
