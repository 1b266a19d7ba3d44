# SPDX-License-Identifier: BSD-3-Clause
"""The plug-ins of vLLM and SGLang, called as these call them, by classes that stand for theirs.

``GroupCoordinator`` and the communicator below it call what vLLM 0.33's do, in its order and by its
names; ``SGLangGroup`` does what SGLang 0.5.23's does. ``tests/unit/test_engines.py`` compares the names
with those of wheels that are installed.
"""

from __future__ import annotations

import os
import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch.fx.experimental.proxy_tensor import make_fx

import pyshmem
from pyshmem.interop import sglang, vllm

torch.set_num_threads(1)
rank, size = int(os.environ["PYSHMEM_PE"]), int(os.environ["PYSHMEM_N_PES"])
dist.init_process_group("gloo", init_method=f"file://{sys.argv[1]}", rank=rank, world_size=size)
on_gpu = os.environ["PYSHMEM_DEVICE"] == "cuda"
#: Not the GPU of the rank: engines say which one a member has.
device = torch.device("cuda", size - 1 - rank) if on_gpu else torch.device("cpu")
torch.set_default_device(device)
if on_gpu:
    torch.cuda.set_device(device)
HIDDEN, WIDTH, LAYERS, EPS = 32, 24, 3, 1e-6


def by_gloo(x):
    """The sum, as a new tensor."""
    total = x.cpu().clone()
    dist.all_reduce(total)
    return total.to(x.device)


class DeviceCommunicator:
    """As vLLM's DeviceCommunicatorBase; it counts what it sums itself."""

    def __init__(
        self, cpu_group, device=None, device_group=None, unique_name="", global_ranks=None,
        global_world_size=None, use_all2all=False,
    ):  # fmt: skip
        self.device, self.cpu_group, self.device_group = device, cpu_group, device_group
        self.unique_name, self.world_size = unique_name, dist.get_world_size(cpu_group)
        self.sums, self.destroyed, self.use_all2all = 0, False, use_all2all

    def all_reduce(self, input_):
        self.sums += 1
        return by_gloo(input_)

    def destroy(self):
        self.destroyed = True


class Communicator(vllm.TensorParallelSums, DeviceCommunicator):
    """As pyshmem.interop.vllm.communicator makes it of vLLM's own."""


named: dict[str, Any] = {}


class GroupCoordinator:
    """As vLLM's: layers ask it by name, through an operator."""

    def __init__(self, name: str) -> None:
        self.unique_name, self.cpu_group = f"{name}:0", dist.new_group(backend="gloo")
        self.device_communicator = Communicator(
            cpu_group=self.cpu_group, device=device, device_group=self.cpu_group,
            unique_name=self.unique_name, use_all2all=False,
        )  # fmt: skip
        named[self.unique_name] = self

    def all_reduce(self, input_):
        return torch.ops.stands_for_vllm.all_reduce(input_, group_name=self.unique_name)

    def destroy(self):
        self.device_communicator.destroy()
        dist.destroy_process_group(self.cpu_group)


@torch.library.custom_op("stands_for_vllm::all_reduce", mutates_args=())
def all_reduce(tensor: torch.Tensor, group_name: str) -> torch.Tensor:
    return named[group_name].device_communicator.all_reduce(tensor)


@all_reduce.register_fake
def _(tensor, group_name):
    return torch.empty_like(tensor)


class SGLangGroup:
    """What SGLang's GroupCoordinator does with its custom all-reduce."""

    def __init__(self, name: str) -> None:
        self.cpu_group = dist.new_group(backend="gloo", group_desc=f"{name}:cpu")
        kind = told["hook"](plain, group=self.cpu_group, device=device)
        self.ca_comm = kind(group=self.cpu_group, device=device)
        self.sums = 0

    def all_reduce(self, input_):
        if not self.ca_comm.disabled and self.ca_comm.should_custom_ar(input_):
            return self.ca_comm.custom_all_reduce(input_)
        self.sums += 1
        return by_gloo(input_)

    def fused_allreduce_rmsnorm(self, input_, residual_inp_, weight_, eps):
        if self.ca_comm is None or getattr(self.ca_comm, "disabled", True):
            return None
        return self.ca_comm.fused_allreduce_rmsnorm(input_, residual_inp_, weight_, eps)


class Model(torch.nn.Module):
    """MLPs with residuals and norms; of each the caller's share. ``group`` sums; None: all is here."""

    def __init__(self, group: Any, dtype: torch.dtype) -> None:
        super().__init__()
        self.group = group
        torch.manual_seed(4)
        self.up, self.down, self.norm = [], [], []
        for _ in range(LAYERS):
            up, down = torch.randn(WIDTH, HIDDEN) / 8, torch.randn(HIDDEN, WIDTH) / 8
            if group is not None:
                up, down = up.chunk(size, 0)[rank], down.chunk(size, 1)[rank]
            self.up.append(up.to(dtype).contiguous())
            self.down.append(down.to(dtype).contiguous())
            self.norm.append(1 + torch.rand(HIDDEN).to(dtype) / 4)

    def forward(self, x):
        residual = x
        for up, down, norm in zip(self.up, self.down, self.norm, strict=True):
            part = torch.nn.functional.silu(x @ up.t()) @ down.t()
            fused = getattr(self.group, "fused_allreduce_rmsnorm", None)
            done = fused(part, residual, norm, EPS) if fused else None
            if done is None:
                residual = residual + (self.group.all_reduce(part) if self.group else part)
                done = torch.nn.functional.rms_norm(residual, (HIDDEN,), norm, EPS), residual
            x, residual = done
        return x


def as_alone(group: Any, tolerances: dict[torch.dtype, float]) -> None:
    """A model of members is as that of one, and a row's bits do not go by the rows beside it."""
    for dtype, tolerance in tolerances.items():
        torch.manual_seed(7)
        x = torch.randn(5, HIDDEN).to(dtype)
        mine, whole = Model(group, dtype)(x), Model(None, dtype)(x)
        assert (mine - whole).abs().max() <= tolerance * whole.abs().max(), (dtype, mine - whole)
        every = [torch.empty_like(mine, device="cpu") for _ in range(size)]
        dist.all_gather(every, mine.cpu())
        assert all(torch.equal(one, mine.cpu()) for one in every)


def in_a_graph(model: Any, x: torch.Tensor) -> None:
    """Captured and replayed on other values, the bits are those of the eager model."""
    graph, given = torch.cuda.CUDAGraph(), x.clone()
    torch.cuda.synchronize()
    pyshmem.barrier_all()
    with torch.cuda.graph(graph):
        found = model(given)
    for turn in range(3):
        given.copy_(x + turn)
        graph.replay()
        assert torch.equal(found, model(x + turn))


def of_vllm() -> None:
    group = GroupCoordinator("tp")
    communicator = group.device_communicator
    assert pyshmem.initialized()
    assert (pyshmem.my_pe(), pyshmem.n_pes()) == (rank, size)
    assert pyshmem.init().gpu == (device.index if on_gpu else -1)
    pyshmem.finalize()
    tolerances = {torch.float64: 1e-13, torch.float32: 1e-5, torch.bfloat16: 0.05}
    as_alone(group, tolerances)
    model = Model(group, torch.float32)
    torch.manual_seed(3)
    x = torch.randn(2, HIDDEN)
    traced = make_fx(model)(x)
    assert [node.target for node in traced.graph.nodes].count(
        torch.ops.stands_for_vllm.all_reduce.default
    ) == LAYERS
    assert torch.equal(traced(x), model(x))
    if on_gpu:
        in_a_graph(model, x)
    part = torch.full((3, 4), rank + 1.0)
    assert torch.equal(group.all_reduce(part), torch.full((3, 4), size * (size + 1) / 2))
    assert torch.equal(part, torch.full((3, 4), rank + 1.0))  # not in place
    assert torch.equal(group.all_reduce(part.t()), torch.full((4, 3), size * (size + 1) / 2))
    assert communicator.sums == 0

    # What is left to vLLM.
    large = torch.ones((8 << 20) // 4 + 4)
    for left in (large, torch.ones(5, dtype=torch.int64), torch.empty(0)):
        assert torch.equal(group.all_reduce(left), left * size)
    assert communicator.sums == 3
    other = GroupCoordinator("ep")
    assert torch.equal(other.all_reduce(part), group.all_reduce(part))
    assert other.device_communicator.sums == 1
    other.destroy()
    assert pyshmem.initialized()

    again = GroupCoordinator("tp")  # of a draft model, say: the job is counted
    group.destroy()
    assert communicator.destroyed
    assert torch.equal(again.all_reduce(part), torch.full((3, 4), size * (size + 1) / 2))
    again.destroy()
    assert not pyshmem.initialized()


def of_batches() -> None:
    """With the setting that engines have for it a row has the same bits in large batches."""
    global deterministic
    deterministic = True
    group = SGLangGroup("tp")
    rows = torch.randn((9 << 20) // 4 // HIDDEN, HIDDEN) + rank
    fewer = rows[3:8].clone()
    weight = torch.rand(HIDDEN)
    total = group.all_reduce(rows.clone())
    assert group.sums == 0
    assert torch.equal(total[3:8], group.all_reduce(fewer.clone()))
    residual = torch.ones(64, HIDDEN)
    many = group.fused_allreduce_rmsnorm(rows[:64].contiguous(), residual, weight, EPS)
    few = group.fused_allreduce_rmsnorm(fewer, residual[:5], weight, EPS)
    assert torch.equal(many[0][3:8], few[0])
    assert torch.equal(many[1][3:8], few[1])
    group.ca_comm.close()
    deterministic = False


def of_sglang() -> None:
    assert told["target"].endswith(".custom_all_reduce.dispatch_custom_allreduce")
    group = SGLangGroup("tp")
    as_alone(group, {torch.float64: 1e-13, torch.float32: 1e-5, torch.bfloat16: 0.05})
    assert group.sums == 0  # float64 is not fused, and is summed
    with group.ca_comm.capture():
        if on_gpu:
            in_a_graph(Model(group, torch.bfloat16), torch.ones(2, HIDDEN, dtype=torch.bfloat16))
        assert torch.equal(group.all_reduce(torch.ones(8)), torch.full((8,), float(size)))
    group.ca_comm.disabled = True  # as SGLang does for a time
    assert group.fused_allreduce_rmsnorm(None, None, None, EPS) is None
    as_alone(group, {torch.float32: 1e-5})
    assert group.sums == LAYERS
    group.ca_comm.disabled = False
    assert SGLangGroup("pp").ca_comm is THEIRS
    group.ca_comm.close()
    assert not pyshmem.initialized()
    group.ca_comm.close()  # twice is once
    assert not group.ca_comm.should_custom_ar(torch.ones(8))


THEIRS = SimpleNamespace(disabled=True)
deterministic = False
told: dict[str, Any] = {}


def plain(group: Any, device: Any) -> Any:
    """As SGLang's dispatch_custom_allreduce."""
    return lambda group, device: THEIRS


class HookRegistry:
    """SGLang's, which wraps a function when all plug-ins are loaded."""

    @classmethod
    def register(cls, target, hook, hook_type="after", *, source=None):
        assert hook_type == "around"
        told.update(target=target, hook=hook)


def register_with_sglang() -> None:
    for name in ("sglang", "sglang.srt", "sglang.srt.plugins"):
        sys.modules[name] = ModuleType(name)
    environ = ModuleType("sglang.srt.environ")
    environ.envs = SimpleNamespace(
        SGLANG_ENABLE_DETERMINISTIC_INFERENCE=SimpleNamespace(get=lambda: deterministic)
    )
    sys.modules[environ.__name__] = environ
    registry = ModuleType("sglang.srt.plugins.hook_registry")
    registry.HookRegistry, registry.HookType = HookRegistry, SimpleNamespace(AROUND="around")
    sys.modules[registry.__name__] = registry
    sglang.register()


def refusals() -> None:
    """A job that runs already is another one's."""
    with pyshmem.init():
        alone = [dist.new_group([one], backend="gloo") for one in range(size)][rank]
        if size > 1:
            with pytest.raises(ValueError, match=f"rank 0 of 1 in comm, but PE {rank} of {size}"):
                sglang.AllReduce(alone, device)


register_with_sglang()
of_vllm()
of_sglang()
of_batches()
refusals()
dist.destroy_process_group()
print("ok")
