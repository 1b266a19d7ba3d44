# SPDX-License-Identifier: BSD-3-Clause
"""A layer with a mixture of experts: tokens go to the PEs of their experts, and weighted sums come back.

You learn: pyshmem.fused.expert_dispatch, group_matmul and expert_combine.
Run: python -m pyshmem run -n 2 --device sim examples/24_torch_mixture_of_experts.py  (with torch)
Output: 10 tokens a PE, 4 experts on 2 PEs, 2 for each token, as one PE computes it: ok
"""

import torch
import torch.nn.functional as functional

import pyshmem
import pyshmem.fused as fused

TOKENS, HIDDEN, WIDTH, TOP = 10, 32, 48, 2

torch.set_num_threads(1)  # of each PE
with pyshmem.init() as job, torch.no_grad():
    device = f"cuda:{job.gpu}" if job.device == "cuda" else "cpu"
    n_experts = 2 * job.n_pes
    shared = torch.Generator().manual_seed(0)  # weights are the same on all PEs, tokens are not
    router = torch.randn(HIDDEN, n_experts, generator=shared).to(device)
    up = (torch.randn(n_experts, HIDDEN, WIDTH, generator=shared) / HIDDEN**0.5).to(device)
    down = (torch.randn(n_experts, WIDTH, HIDDEN, generator=shared) / WIDTH**0.5).to(device)
    x = torch.randn(TOKENS, HIDDEN, generator=torch.Generator().manual_seed(1 + job.my_pe)).to(
        device
    )
    weights, ids = (x @ router).softmax(-1).topk(TOP)

    mine = slice(2 * job.my_pe, 2 * job.my_pe + 2)  # experts are spread evenly
    tokens, handle = fused.expert_dispatch(x, ids, n_experts)
    inner = functional.silu(fused.group_matmul(tokens, up[mine].contiguous(), handle))
    y = fused.group_matmul(inner, down[mine].contiguous(), handle, by_pair=True)
    result = fused.expert_combine(y, handle, weights)

    inner = functional.silu(torch.einsum("th,ehw->tew", x, up))
    every = torch.einsum("tew,ewd->ted", inner, down)  # all experts for all tokens
    chosen = every.gather(1, ids[:, :, None].expand(-1, -1, HIDDEN))
    tolerance = 1e-2 if job.device == "cuda" else 1e-5  # GPUs multiply in TF32
    torch.testing.assert_close(
        result, (chosen * weights[:, :, None]).sum(1), rtol=tolerance, atol=tolerance
    )
    if job.my_pe == 0:
        spread = f"{n_experts} experts on {job.n_pes} PEs, {TOP} for each token"
        print(f"{TOKENS} tokens a PE, {spread}, as one PE computes it: ok", flush=True)
