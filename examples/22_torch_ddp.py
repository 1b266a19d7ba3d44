# SPDX-License-Identifier: BSD-3-Clause
"""Data-parallel training in PyTorch with pyshmem underneath: the same losses as with torch's gloo.

You learn: the backend "pyshmem" of torch.distributed, on the CPU and, with a GPU a PE, on GPUs.
Run: python -m pyshmem run -n 4 examples/22_torch_ddp.py       (needs torch, of [torch])
Output: 50 steps on 2 PEs, loss 1.01 to 0.01, as with gloo: ok     (-n 2)
"""

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import pyshmem
import pyshmem.interop.torch as symmetric

STEPS = 50


def train(backend: str) -> torch.Tensor:
    """The mean over the PEs of each step's loss."""
    symmetric.init_process_group(backend)  # ranks are numbers of PEs
    torch.manual_seed(0)
    layers = torch.nn.Linear(16, 64), torch.nn.Tanh(), torch.nn.Linear(64, 4)
    model = DistributedDataParallel(torch.nn.Sequential(*layers))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    data = torch.Generator().manual_seed(dist.get_rank())  # each PE has data of its own
    losses = []
    for _ in range(STEPS):
        batch = torch.randn(32, 16, generator=data)
        loss = (model(batch) - batch[:, :4]).square().mean()
        optimizer.zero_grad()
        loss.backward()  # gradients are averaged over the PEs meanwhile
        optimizer.step()
        losses.append(loss.detach())
    mean = torch.stack(losses)
    dist.all_reduce(mean)
    dist.destroy_process_group()
    return mean


torch.set_num_threads(1)  # of each PE
with pyshmem.init() as job:
    ours, theirs = train("pyshmem") / job.n_pes, train("gloo") / job.n_pes
    torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-6)
    if job.my_pe == 0:
        told = f"loss {ours[0]:.2f} to {ours[-1]:.2f}, as with gloo"
        print(f"{STEPS} steps on {job.n_pes} PEs, {told}: ok", flush=True)
