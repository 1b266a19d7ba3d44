# SPDX-License-Identifier: BSD-3-Clause
"""Both PEs send and receive at once, and wait for both. PEs: 2."""

import torch.distributed as dist

import pyshmem
import pyshmem.interop.torch as symmetric

with pyshmem.init(device="sim") as job:
    me = job.my_pe
    peer = 1 - me
    symmetric.init_process_group()
    a, b = symmetric.zeros(4), symmetric.zeros(4)
    a.fill_(me)
    ops = [dist.P2POp(dist.isend, a, peer), dist.P2POp(dist.irecv, b, peer)]
    for w in dist.batch_isend_irecv(ops):
        w.wait()
    assert b[0].item() == peer
    a.fill_(3)
    b.zero_()
    dist.destroy_process_group()
