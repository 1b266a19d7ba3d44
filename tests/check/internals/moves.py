# SPDX-License-Identifier: BSD-3-Clause
"""Exchanges, matrix products and experts of pyshmem.fused, or those that are named, some calls each."""

import sys

import torch

import pyshmem
import pyshmem.interop.torch as symmetric
from pyshmem import fused


def exchanges(me, n):
    part = 3328  # elements, some slots for each program: one is filled again in a call
    for turn in range(2):
        x = torch.full((n, part), float(me + turn))
        want = torch.stack([torch.full((part,), float(pe + turn)) for pe in range(n)])
        assert torch.equal(fused.all_to_all(x, algorithm="simple"), want)
        found = fused.low_latency_all_gather(x[:1].contiguous(), algorithm="simple")
        assert torch.equal(found.reshape(n, part), want)
        assert torch.equal(fused.all_to_all(x[:, :8].contiguous(), algorithm="ll"), want[:, :8])


def few(me, n):
    for turn in range(4):  # twice as many as there are slots
        x = torch.full((n, 96), float(me + turn))
        want = torch.stack([torch.full((96,), float(pe + turn)) for pe in range(n)])
        assert torch.equal(fused.all_to_all(x, algorithm="simple"), want)


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


WIDTH = 512  # elements of a token, of which a slot has room for one


def experts(me, n):
    for turn in range(2):
        tokens = torch.full((9, WIDTH), me + turn + 1.0)
        ids = torch.arange(9)[:, None] % (2 * n)
        for mode in ({}, {"mode": "decode", "max_tokens": 10}):
            sent, handle = fused.expert_dispatch(tokens, ids, 2 * n, algorithm="simple", **mode)
            rows, end = torch.zeros(handle.rows.shape[0], WIDTH), int(handle.offsets[-1])
            rows[:end] = handle.by_expert(sent)[:end]
            found = fused.expert_combine(rows, handle, torch.full((9, 1), 2.0))
            assert torch.equal(found, tokens * 2), mode


def quantised(me, n):
    for turn in range(2):
        tokens = torch.full((19, WIDTH), me + turn + 1.0)
        ids = torch.arange(19)[:, None] % (2 * n)
        for mode in ({}, {"mode": "decode", "max_tokens": 20}):
            _, handle = fused.expert_dispatch(tokens, ids, 2 * n, quantize="fp8", **mode)
            assert handle.scales is not None
            assert int(handle.offsets[-1]) == sum(int(one) % (2 * n) // 2 == me for one in ids) * n


with pyshmem.init(device="sim") as job:
    for part in sys.argv[1:] or ("exchanges", "few", "products", "experts", "quantised"):
        globals()[part](job.my_pe, job.n_pes)
