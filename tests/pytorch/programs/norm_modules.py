# SPDX-License-Identifier: BSD-3-Clause
"""pyshmem.fused.replace_norms in the simulator: which shapes of modules it finds, and what they give."""

from __future__ import annotations

import logging

import pytest
import torch
import torch.distributed as dist

import pyshmem
import pyshmem.fused as fused
import pyshmem.interop.torch as symmetric

HERE = torch.device("cpu")


def refused(kind: type[Exception], message: str, call, *given) -> None:
    with pytest.raises(kind) as told:
        call(*given)
    assert message in str(told.value), told.value


def rows(seed: int, *size: int) -> torch.Tensor:
    return torch.randn(size, generator=torch.Generator().manual_seed(seed)).to(HERE)


class LogCapture(logging.Handler):
    """What is logged under the name pyshmem."""

    def __enter__(self) -> LogCapture:
        self.text = ""
        logging.getLogger("pyshmem").addHandler(self)
        logging.getLogger("pyshmem").setLevel(logging.INFO)
        return self

    def __exit__(self, *raised: object) -> None:
        logging.getLogger("pyshmem").removeHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        self.text += record.getMessage()


class RowParallel(torch.nn.Module):
    """A linear layer of which each PE has some columns."""

    def __init__(self, seed: int, width: int, hidden: int, way: str, bias: bool = False) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(rows(seed + me, hidden, width) / width)
        self.bias = torch.nn.Parameter(rows(seed, hidden)) if bias else None
        self.way = way

    def forward(self, x):
        y = torch.nn.functional.linear(x, self.weight)
        if self.way == "operator":
            y = torch.ops.pyshmem.all_reduce(y, "sum", 0, True)
        elif self.way == "in place":
            torch.ops.pyshmem.all_reduce_(y, copy=True)
        else:
            dist.all_reduce(y)
        return y if self.bias is None else y + self.bias


class OwnNorm(torch.nn.Module):
    """As inference engines have it."""

    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.weight, self.variance_epsilon = torch.nn.Parameter(rows(7, hidden)), 1e-5

    def forward(self, x, residual=None):
        if residual is not None:
            x = x + residual
        y = torch.nn.functional.rms_norm(x, x.shape[-1:], self.weight, self.variance_epsilon)
        return y if residual is None else (y, x)


class Model(torch.nn.Module):
    """Norm and parallel layers in turn; the norm behind a layer is of the next one, or the last."""

    def __init__(self, hidden: int = 16, width: int = 8) -> None:
        super().__init__()
        self.norms = torch.nn.ModuleList(
            [torch.nn.RMSNorm(hidden, 1e-5), torch.nn.LayerNorm(hidden), torch.nn.RMSNorm(hidden)]
        )
        self.own = OwnNorm(hidden)
        ways = ("operator", "in place", "group")
        self.up = torch.nn.ModuleList(torch.nn.Linear(hidden, width) for _ in ways)
        self.down = torch.nn.ModuleList(
            RowParallel(20 * k, width, hidden, w) for k, w in enumerate(ways)
        )
        self.last = RowParallel(90, hidden, hidden, "operator", bias=True)
        torch.manual_seed(me)
        for one in (*self.norms.parameters(), *self.up.parameters()):
            torch.nn.init.normal_(one, std=0.5)

    def forward(self, x):
        h = x
        for norm, up, down in zip(self.norms, self.up, self.down, strict=True):
            h = h + down(torch.relu(up(norm(h))))
        y, h = self.own(self.down[0](torch.relu(self.up[0](self.own(h)))), h)
        return self.norms[0](h + self.last(y))


class Offset(torch.nn.Module):
    """What it adds to the sum is smaller than the sum."""

    def __init__(self, down: RowParallel) -> None:
        super().__init__()
        self.down, self.norm = down, torch.nn.RMSNorm(16)
        self.offset = torch.nn.Parameter(rows(6, 16))

    def forward(self, x):
        return self.norm(self.down(x) + self.offset)


def modules() -> None:
    symmetric.register_team()
    symmetric.init_process_group()
    model, x = Model().to(HERE), rows(5, 3, 16)
    with LogCapture() as log:
        replaced = fused.replace_norms(model, norms=(OwnNorm,))
    # Behind the first three are two norms of torch's and the model's own, then one with two results.
    assert "4 all-reduces and norms became" in log.text, log.text
    assert "left as they are: all_reduce" in log.text, "the bias is behind the sum"
    called = [str(node.target) for node in replaced.graph.nodes]
    assert sum("all_reduce_and_norm" in one for one in called) == 4
    assert sum("all_reduce" in one for one in called) == 5
    assert set(replaced.state_dict()) == set(model.state_dict())
    with torch.no_grad():
        torch.testing.assert_close(replaced(x), model(x), rtol=1e-4, atol=1e-4)
    replaced(x).square().sum().backward()
    assert all(one.weight.grad.abs().max() > 0 for one in model.down)
    offset = Offset(model.down[0]).to(HERE)
    narrow = torch.relu(model.up[0](x))
    with torch.no_grad():
        wanted = offset(narrow)
    result = fused.replace_norms(offset)(narrow)
    torch.testing.assert_close(result, wanted, rtol=1e-4, atol=1e-4)
    result.sum().backward()
    assert offset.offset.grad.abs().max() > 0
    refused(ValueError, "no norm that is known", fused.replace_norms, model.last)
    refused(ValueError, "in Linear: torch.fx finds no all-reduce", fused.replace_norms, model.up[0])
    dist.destroy_process_group()


torch.set_num_threads(1)
with pyshmem.init() as job:
    me = job.my_pe
    if job.device == "cuda":
        HERE = torch.device("cuda", job.gpu)
        torch.cuda.set_device(HERE)
    modules()
print("ok", flush=True)
