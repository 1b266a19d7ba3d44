# SPDX-License-Identifier: BSD-3-Clause
"""pyshmem.fused: what moves tokens and keys, in one job; in CUDA graphs too, where there is a GPU."""

from __future__ import annotations

import os

import fused_attention
import fused_experts
import fused_groups
import fused_moves
import torch

import pyshmem
import pyshmem.fused as fused


def in_graphs(me: int, n: int) -> None:
    """A step of decoding, captured once and replayed with other tokens."""
    x, ids, weights = fused_experts.given(me, 3, 128, 2, 2 * n, torch.bfloat16)
    q, k = torch.randn(1, 4, 64, dtype=x.dtype), torch.randn(1, 100, 2, 64, dtype=x.dtype)
    turned = torch.randn(1, 4, 2 * n, 16)

    def step():
        tokens, handle = fused.expert_dispatch(x, ids, 2 * n, max_tokens=4)
        y = handle.by_expert(tokens).contiguous()
        return (
            fused.expert_combine(y, handle, weights), fused.all_to_all(q.expand(n, 4, 64).contiguous()),
            fused.all_to_all(q.expand(n, 4, 64).contiguous(), algorithm="simple"),
            fused.ulysses_to_heads(turned), fused.flash_decode(q, k, k),
        )  # fmt: skip

    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        step()
    stream.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        results = step()
    for repeat in range(3):
        with torch.cuda.stream(stream):
            for tensor in (x, turned):
                tensor.normal_()
            ids.copy_((ids + repeat + 1) % (2 * n))
            graph.replay()
            replayed = [one.clone() for one in results]
            eager = step()
        stream.synchronize()
        for one, other in zip(replayed, eager, strict=True):
            assert torch.equal(one, other)


few = os.environ.get("PYSHMEM_P2P") == "0"  # an element is a request then
torch.set_num_threads(1)
with pyshmem.init() as job:
    if job.device == "cuda":
        torch.set_default_device(torch.device("cuda", job.gpu))
    for part in (fused_moves, fused_experts, fused_groups, fused_attention):
        part.check(job.my_pe, job.n_pes, few)
    if job.device == "cuda":
        in_graphs(job.my_pe, job.n_pes)
print("ok", flush=True)
