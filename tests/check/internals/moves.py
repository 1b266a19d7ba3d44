# SPDX-License-Identifier: BSD-3-Clause
"""Exchanges, matrix products and experts of pyshmem.fused, or those that are named, some calls each."""

import sys

import torch

import pyshmem
import pyshmem.interop.torch as symmetric
from pyshmem import fused


def exchanges(me, n):
    for turn in range(4):
        x = torch.full((3 * n, 16), float(me + turn))
        want = torch.cat([torch.full((3, 16), float(pe + turn)) for pe in range(n)])
        for algorithm in ("simple", "ll"):
            assert torch.equal(fused.all_to_all(x, algorithm=algorithm), want), algorithm
            found = fused.low_latency_all_gather(x[:3].contiguous(), algorithm=algorithm)
            assert torch.equal(found.reshape(3 * n, 16), want), algorithm


def products(me, n):
    for turn in range(3):
        x = symmetric.zeros(32, 32, heap="device")
        x += me + turn + 1.0
        tiles = {"algorithm": "persistent"}
        found = fused.all_gather_matmul(x, torch.eye(32), **tiles)
        want = torch.cat([torch.full((32, 32), pe + turn + 1.0) for pe in range(n)])
        assert torch.equal(found, want), found
        part, total = torch.full((32 * n, 32), me + 1.0 + turn), n * turn + sum(range(1, n + 1))
        found = fused.matmul_reduce_scatter(part, torch.eye(32), **tiles)
        assert torch.equal(found, torch.full((32, 32), float(total)))
        found = fused.matmul_all_reduce(part, torch.eye(32), **tiles)
        assert torch.equal(found, torch.full((32 * n, 32), float(total)))


def experts(me, n):
    for turn in range(3):
        tokens = torch.full((5, 32), me + turn + 1.0)
        ids = torch.arange(5)[:, None] % (2 * n)
        for mode in ({}, {"mode": "decode", "max_tokens": 8}):
            sent, handle = fused.expert_dispatch(tokens, ids, 2 * n, **mode)
            rows, end = torch.zeros(handle.rows.shape[0], 32), int(handle.offsets[-1])
            rows[:end] = handle.by_expert(sent)[:end]
            found = fused.expert_combine(rows, handle, torch.full((5, 1), 2.0))
            assert torch.equal(found, tokens * 2), mode


with pyshmem.init(device="sim") as job:
    for part in sys.argv[1:] or ("exchanges", "products", "experts"):
        globals()[part](job.my_pe, job.n_pes)
