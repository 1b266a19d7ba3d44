# SPDX-License-Identifier: BSD-3-Clause
"""A tensor that is being received is read before its work is waited for. PEs: 2."""

import torch.distributed as dist

import pyshmem
import pyshmem.interop.torch as symmetric

with pyshmem.init(device="sim") as job:
    me = job.my_pe
    peer = 1 - me
    symmetric.init_process_group()
    a, b = symmetric.zeros(4), symmetric.zeros(4)
    w1 = dist.isend(a, peer)
    w2 = dist.irecv(b, peer)  # <1>
    print(b.sum())  # <2>
    w1.wait()
    w2.wait()
    dist.destroy_process_group()
