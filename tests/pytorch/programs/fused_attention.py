# SPDX-License-Identifier: BSD-3-Clause
"""pyshmem.fused: flash decode, against float64 on one PE; the same bits on all PEs."""

from __future__ import annotations

import os

import pytest
import torch

import pyshmem
import pyshmem.fused as fused


def refused(kind: type[Exception], message: str, call, *arguments, **named) -> None:
    with pytest.raises(kind) as raised:
        call(*arguments, **named)
    assert message in str(raised.value), raised.value


def reference(q, ks, vs, lengths, scale):
    """Attention over the keys of all members, each cut to its lengths, in float64."""
    batch, queries, heads, d = q.shape
    result = torch.zeros(q.shape, dtype=torch.float64)
    if isinstance(lengths[0][0], list):  # for each query by itself
        for i in range(queries):
            of_query = [[row[i] for row in length] for length in lengths]
            result[:, i : i + 1] = reference(q[:, i : i + 1], ks, vs, of_query, scale)
        return result
    for b in range(batch):
        k = torch.cat([k[b, : length[b]] for k, length in zip(ks, lengths, strict=True)]).double()
        v = torch.cat([v[b, : length[b]] for v, length in zip(vs, lengths, strict=True)]).double()
        if not len(k):
            continue
        shared = heads // k.shape[1]
        k, v = k.repeat_interleave(shared, 1), v.repeat_interleave(shared, 1)
        scores = torch.einsum("qhd,khd->qhk", q[b].double(), k) * (scale or d**-0.5)
        result[b] = torch.einsum("qhk,khd->qhd", scores.softmax(-1), v)
    return result


def decode(
    me, n, batch, queries, heads, kv_heads, d, keys, dtype, *, scale=None, cut=False, out=False
):
    source = torch.Generator().manual_seed(heads * d)

    def randn(*size):
        made = torch.randn(size, generator=source, device="cpu").to(dtype)
        return made.to(torch.get_default_device())

    q = randn(batch, queries, heads, d)
    ks, vs = ([randn(batch, keys(pe), kv_heads, d) for pe in range(n)] for _ in range(2))
    lengths = [
        [(5 * b + 3 * pe) % (keys(pe) + 1) if cut else keys(pe) for b in range(batch)]
        for pe in range(n)
    ]
    given = q[:, 0].contiguous() if queries == 1 else q
    named = {"scale": scale, "lengths": torch.tensor(lengths[me]) if cut else None}
    if out:
        named["out"] = torch.empty_like(given)
    got = fused.flash_decode(given, ks[me], vs[me], **named)
    exact = reference(q, ks, vs, lengths, scale)
    eps = torch.finfo(dtype).eps
    torch.testing.assert_close(got.view(q.shape).double(), exact, rtol=2 * eps, atol=4 * eps)
    every = fused.low_latency_all_gather(got.reshape(1, -1))
    assert torch.equal(every.view(torch.uint8), every[:1].repeat(n, 1).view(torch.uint8)), (
        "same bits"
    )


def causal(me, n):
    """The last queries of a sequence whose keys follow each other over the members."""
    source = torch.Generator().manual_seed(3)
    batch, queries, heads, d, keys = 2, 3, 4, 16, 35

    def randn(*size):
        return torch.randn(size, generator=source, device="cpu").to(torch.get_default_device())

    q = randn(batch, queries, heads, d)
    ks, vs = ([randn(batch, keys, 2, d) for _ in range(n)] for _ in range(2))
    ends = torch.tensor([n * keys - 1, 20])  # the second sequence ends on the first member
    position = ends[:, None] + 1 - queries + torch.arange(queries)
    lengths = [(position + 1 - pe * keys).clamp(0, keys) for pe in range(n)]
    got = fused.flash_decode(q, ks[me], vs[me], lengths=lengths[me])
    exact = reference(q, ks, vs, [length.tolist() for length in lengths], None)
    torch.testing.assert_close(got.double(), exact, rtol=1e-5, atol=1e-5)


def refusals(me, n):
    q, k = torch.zeros(2, 4, 16), torch.zeros(2, 3, 2, 16)
    call = fused.flash_decode
    refused(
        ValueError, "share 3 heads", call, q, torch.zeros(2, 3, 3, 16), torch.zeros(2, 3, 3, 16)
    )
    refused(ValueError, "k_shard has size", call, q, k, torch.zeros(2, 4, 2, 16))
    refused(
        ValueError, "256 at most", call, torch.zeros(1, 1, 300), *2 * [torch.zeros(1, 2, 1, 300)]
    )
    refused(TypeError, "k_shard", call, q, k.half(), k.half())
    refused(ValueError, "lengths", call, q, k, k, lengths=torch.zeros(3, dtype=torch.int32))
    refused(
        ValueError, "(batch, queries)", call, q, k, k, lengths=torch.zeros(2, 2, dtype=torch.int64)
    )
    refused(RuntimeError, "requires grad", call, q, k.clone().requires_grad_(), k)
    if n > 1 and os.environ.get("PYSHMEM_CHECK") == "1":
        refused(pyshmem.MismatchError, "flash_decode", call, q, k, k, scale=1.0 + me)


def check(me, n, few):
    decode(me, n, 2, 1, 4, 2, 32, lambda pe: 70 + 9 * pe, torch.bfloat16)
    if few:
        refusals(me, n)
        return
    decode(me, n, 1, 1, 3, 1, 20, lambda pe: 40 * (pe == n - 1), torch.float32, scale=0.3, out=True)
    decode(me, n, 2, 2, 2, 1, 16, lambda pe: 37, torch.float16, cut=True)
    decode(me, n, 1, 1, 2, 1, 16, lambda pe: 0, torch.float32)
    causal(me, n)
    refusals(me, n)
    if n == 1:
        k = torch.randn(1, 5, 1, 16)
        torch.library.opcheck(torch.ops.pyshmem.flash_decode.default, (torch.randn(1, 2, 16), k, k))
