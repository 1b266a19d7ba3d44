# SPDX-License-Identifier: BSD-3-Clause
"""Pipeline stages hand activations on by send and recv, and gradients by one-sided puts. PEs: 3."""

import torch
import torch.distributed as dist

import pyshmem
import pyshmem.interop.torch as symmetric

with pyshmem.init(device="none") as job:
    symmetric.init_process_group()
    me, n = job.my_pe, job.n_pes
    grad = symmetric.zeros(4)
    ready = symmetric.zeros(1, dtype=torch.uint64)
    x = torch.ones(4)
    for step in range(1, 3):
        if me > 0:
            dist.recv(x, me - 1)
        y = x * 2
        if me < n - 1:
            dist.send(y, me + 1)
            torch.ops.pyshmem.wait_signal(ready, pyshmem.CMP_EQ, step, grad)
        g = grad.clone() + 1
        if me > 0:
            torch.ops.pyshmem.put_signal(grad, g, ready, step, pyshmem.SIGNAL_SET, me - 1)
        dist.barrier()
    print(grad.tolist())
    dist.destroy_process_group()
