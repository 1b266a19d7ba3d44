# SPDX-License-Identifier: BSD-3-Clause
"""Data-parallel training in PyTorch with pyshmem underneath: the same losses as in one process.

You learn: the backend "pyshmem" of torch.distributed, on the CPU and, with a GPU a PE, on GPUs.
Run: python -m pyshmem run -n 4 examples/22_torch_ddp.py       (needs torch, of [torch])
Output: 50 steps on 2 PEs, loss 1.01 to 0.01, as in one process: ok     (-n 2)
"""

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import pyshmem
import pyshmem.interop.torch as symmetric

STEPS = 50


def train(model: nn.Module, seeds: range) -> torch.Tensor:
    """The loss of each step, on the data of these PEs together."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    data = [torch.Generator().manual_seed(seed) for seed in seeds]  # each PE has data of its own
    losses = []
    for _ in range(STEPS):
        batch = torch.cat([torch.randn(32, 16, generator=one) for one in data])
        loss = (model(batch) - batch[:, :4]).square().mean()
        optimizer.zero_grad()
        loss.backward()  # DistributedDataParallel averages gradients over the PEs meanwhile
        optimizer.step()
        losses.append(loss.detach())
    return torch.stack(losses)


def new_model() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(16, 64), nn.Tanh(), nn.Linear(64, 4))


torch.set_num_threads(1)  # of each PE
with pyshmem.init() as job:
    alone = train(new_model(), range(job.n_pes))
    symmetric.init_process_group()  # ranks are numbers of PEs
    together = train(DistributedDataParallel(new_model()), range(job.my_pe, job.my_pe + 1))
    dist.all_reduce(together)
    dist.destroy_process_group()
    together /= job.n_pes
    torch.testing.assert_close(together, alone, rtol=1e-4, atol=1e-5)
    if job.my_pe == 0:
        told = f"loss {together[0]:.2f} to {together[-1]:.2f}, as in one process"
        print(f"{STEPS} steps on {job.n_pes} PEs, {told}: ok", flush=True)
