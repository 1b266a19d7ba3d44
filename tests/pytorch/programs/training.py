# SPDX-License-Identifier: BSD-3-Clause
"""DDP and FSDP2 of a small model have the losses that they have with gloo; DTensor; compiled."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import Shard, distribute_tensor
from torch.nn.parallel import DistributedDataParallel

import pyshmem
import pyshmem.interop.torch as symmetric

STEPS = 50
#: Groups, until the program ends: gloo's destructor joins its threads while it holds Python's lock, for
#: which such a thread may wait, to let go of the tensors of the last collective.
kept: list[dist.ProcessGroup] = []


def losses(backend: str, wrap: Callable[[nn.Module], nn.Module]) -> torch.Tensor:
    """The mean loss of each step."""
    symmetric.init_process_group(backend)
    torch.manual_seed(0)
    layers = nn.Linear(16, 64), nn.BatchNorm1d(64), nn.Tanh(), nn.Linear(64, 4)
    model = wrap(nn.Sequential(*layers))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    data = torch.Generator().manual_seed(100 + dist.get_rank())
    found = []
    for _ in range(STEPS):
        batch = torch.randn(8, 16, generator=data)
        loss = (model(batch) - batch[:, :4]).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        found.append(loss.detach())
    mean = torch.stack(found)
    dist.all_reduce(mean)
    kept.append(dist.group.WORLD)
    dist.destroy_process_group()
    return mean / dist_size


def sharded(model: nn.Module) -> nn.Module:
    fully_shard(model)
    return model


def compiled(n: int) -> None:
    """Functional collectives, as the compiler sees them; and a matrix over a mesh."""

    def double(x: torch.Tensor) -> torch.Tensor:
        return functional.all_reduce(x * 2, "sum", dist.group.WORLD) + 1

    result = torch.compile(double, fullgraph=True, backend="aot_eager")(torch.ones(4))
    assert result.tolist() == [2 * n + 1] * 4
    mesh = init_device_mesh("cpu", (n,))
    whole = torch.arange(4.0 * n * n).view(2 * n, 2 * n)
    rows = distribute_tensor(whole, mesh, [Shard(0)])
    columns = distribute_tensor(whole, mesh, [Shard(1)])
    torch.testing.assert_close((rows @ columns).full_tensor(), whole @ whole)


torch.set_num_threads(1)
with pyshmem.init() as job:
    dist_size = job.n_pes
    for wrap in (DistributedDataParallel, sharded):
        ours, theirs = losses("pyshmem", wrap), losses("gloo", wrap)
        torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-6)
        assert theirs[-1] < 0.9 * theirs[0]
    symmetric.init_process_group()
    compiled(job.n_pes)
    dist.destroy_process_group()
    assert pyshmem.initialized()  # the job was there before
print("ok", flush=True)
