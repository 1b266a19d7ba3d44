# SPDX-License-Identifier: BSD-3-Clause
"""Fused operations on tensors of the heap, which are the program's again on return. PEs: 2."""

import torch

import pyshmem
import pyshmem.fused as fused
import pyshmem.interop.torch as symmetric
from pyshmem.fused import formats

with pyshmem.init(device="sim") as job:
    peer = 1 - job.my_pe
    x = symmetric.ones(4, 16, heap="device")
    w = torch.ones(16, 16)
    weight = torch.ones(16)
    for turn in range(2):
        y = fused.all_gather_matmul(x, w)
        part = fused.matmul_reduce_scatter(y, w)
        x.copy_(part / part.abs().max())
        total = fused.matmul_all_reduce(x, w)
        normed, _, _ = fused.all_reduce_rmsnorm(total, weight)
        rows = fused.low_latency_all_gather(x)
        print(turn, normed.sum().item(), rows.shape)
    pyshmem.put(x, torch.zeros(4, 16), peer)
    pyshmem.quiet()
    if job.my_pe == 0:  # the call of one PE: it is no meeting
        formats.quantize(torch.ones(2, 32), "mxfp8")
    fused.low_latency_all_gather(torch.ones(2, 8))
    print(x.sum())
