# SPDX-License-Identifier: BSD-3-Clause
"""pyshmem.fused: experts whose inner columns are spread over the PEs, up and down, against float64."""

from __future__ import annotations

import os

import torch
from fused_experts import given, refused

import pyshmem
import pyshmem.fused as fused


def weights_of(n: int, k: int, inner: int, out: int, experts: int, dtype: torch.dtype):
    """All PEs' shares of both matrices of each expert."""
    source = torch.Generator().manual_seed(13)

    def made(*size: int) -> torch.Tensor:
        found = torch.randn(n, experts, *size, generator=source, device="cpu") / size[0] ** 0.5
        return found.to(torch.get_default_device(), dtype)

    return made(k, inner), made(inner, out)


def layer(
    me: int, n: int, sizes: list[int], dtype: torch.dtype, algorithm: str | None, change=None
) -> None:
    k, inner, out, experts, top = 20, 24, 33, 3, 2
    every = [given(50 + pe, sizes[pe], k, top, experts, dtype) for pe in range(n)]
    if change is not None:
        every = [(x, change(ids), weights) for x, ids, weights in every]
    x, ids, weights = every[me]
    up, down = weights_of(n, k, inner, out, experts, dtype)
    rows = None if len(set(sizes)) == 1 else sizes
    gathered = x.new_empty(sum(sizes), k)
    tokens = torch.cat([one[0] for one in every])
    for _ in range(2):  # what words and slots are left like
        hidden, routing = fused.all_gather_group_matmul(
            x, up[me], ids, rows=rows, gather_out=gathered, algorithm=algorithm
        )
        assert torch.equal(gathered, tokens)
        got = fused.group_matmul_reduce_scatter(
            hidden.relu(), down[me], routing, weights, algorithm=algorithm
        )
    all_ids = torch.cat([one[1] for one in every])
    for place, expert in zip(
        routing.pairs.view(-1).tolist(), all_ids.view(-1).tolist(), strict=True
    ):
        assert (place < 0) == (expert < 0)
    assert routing.offsets[-1] == (all_ids >= 0).sum()
    exact = torch.zeros(sizes[me], out, dtype=torch.float64)
    partial = 0.0
    for j in range(top):
        expert = ids[:, j].clamp(min=0)
        for pe in range(n):
            middle = torch.einsum("tk,tkn->tn", x.double(), up[pe][expert].double()).relu()
            part = torch.einsum("tk,tkn->tn", middle, down[pe][expert].double())
            factor = torch.where(ids[:, j] >= 0, weights[:, j].double(), 0.0)[:, None]
            exact += factor * part
            partial = max(partial, float((factor * part).abs().max()) if part.numel() else 0.0)
    assert got.dtype == dtype
    if got.numel():
        bound = 8 * torch.finfo(dtype).eps * max(partial, 1.0)
        assert (got.double() - exact).abs().max() <= bound, algorithm


def refusals(me: int, n: int) -> None:
    x, ids, weights = given(me, 4, 8, 2, 3, torch.float32)
    w, down = torch.ones(3, 8, 4), torch.ones(3, 4, 5)
    up, back = fused.all_gather_group_matmul, fused.group_matmul_reduce_scatter
    refused(ValueError, "one row a token", up, x, w, ids[:3])
    refused(ValueError, "has 8 columns", up, x, torch.ones(3, 7, 4), ids)
    refused(TypeError, "float16", up, x, w.half(), ids)
    refused(ValueError, "for PE", up, x, w, ids, rows=[5] * n)
    refused(ValueError, "not contiguous", up, x, torch.ones(3, 4, 8).mT, ids)
    refused(ValueError, "no algorithm", up, x, w, ids, algorithm="persistent")
    refused(RuntimeError, "requires grad", up, x, w.clone().requires_grad_(), ids)
    hidden, routing = up(x, w, ids)
    refused(ValueError, "pairs of 3 experts", back, hidden[:-1], down, routing, weights)
    refused(ValueError, "topk_weights", back, hidden, down, routing, weights[:, :1].contiguous())
    refused(TypeError, "routing", back, hidden, down, None, weights)
    if n > 1 and os.environ.get("PYSHMEM_CHECK") == "1":
        refused(pyshmem.MismatchError, "all_gather_group_matmul", up, x, w, ids, rows=[4] * n,
                algorithm=("unfused", None)[me % 2])  # fmt: skip


def check(me: int, n: int, few: bool) -> None:
    if few:
        layer(me, n, [3] * n, torch.float32, None)
        refused(
            ValueError, "do not reach", fused.all_gather_group_matmul, torch.ones(2, 4),
            torch.ones(1, 4, 4), torch.zeros(2, 1, dtype=torch.int64), algorithm="copy_engine",
        )  # fmt: skip
        refusals(me, n)
        return
    layer(me, n, [5] * n, torch.bfloat16, "copy_engine")
    layer(me, n, [2 + 3 * pe for pe in range(n)], torch.float32, "copy_engine")
    layer(me, n, [4 * (pe == n - 1) for pe in range(n)], torch.float16, "unfused")
    layer(me, n, [3] * n, torch.float32, "unfused", lambda ids: ids * 0 - 1)
    refusals(me, n)
