# SPDX-License-Identifier: BSD-3-Clause
"""pyshmem.fused: torch raises in the middle of a call, on all members or on one; the next call works."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import torch

import pyshmem
import pyshmem.fused as fused
import pyshmem.interop.torch as tensors
from pyshmem.fused.grouped_matmul import sharded_experts as group_parallel
from pyshmem.fused.matmul import copy_engine as matmul_engine
from pyshmem.fused.matmul import copy_engine_of_two as matmul_pair
from pyshmem.fused.matmul import persistent as matmul_tiles

ROWS, K, N = 64, 8, 48


class OutOfMemory(RuntimeError):
    pass


class Failing:
    """In place of a function of a module, or a kernel: one of its calls raises."""

    def __init__(self, module: Any, name: str, number: int) -> None:
        self.module, self.name, self.left = module, name, number
        self.real = getattr(module, name)

    def __enter__(self) -> None:
        setattr(self.module, self.name, self)

    def __exit__(self, *_: object) -> None:
        setattr(self.module, self.name, self.real)

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        self._fail_once()
        return self.real(*arguments, **named)

    def __getitem__(self, grid: Any) -> Any:
        self._fail_once()
        return self.real[grid]

    def _fail_once(self) -> None:
        self.left -= 1
        if self.left < 0:
            self.left = sys.maxsize
            raise OutOfMemory(self.name)


def attempt(call: Callable[[], torch.Tensor], failing: Failing) -> torch.Tensor | None:
    """What it gives; None where it raised."""
    with failing:
        try:
            return call().clone()
        except OutOfMemory:
            return None


def spoilt(call: Callable[[], torch.Tensor], exact: torch.Tensor, module: Any, name: str) -> int:
    """Each of its calls of that function fails in turn; how many there are."""
    number = 0
    while True:
        for who in (None, job.n_pes - 1):
            here = who is None or who == job.my_pe
            found = attempt(call, Failing(module, name, number if here else sys.maxsize))
            if here and found is not None:
                assert who is None
                assert torch.equal(found, exact)
                return number
            if found is not None:  # right, but where it has nothing from who has failed
                assert ((found == exact) | found.isnan()).all()
            again = call()
            assert torch.equal(again, exact), (module.__name__, name, number, who)
        number += 1


def value(pe: int, rows: int, columns: int) -> torch.Tensor:
    """Small integers, so that sums are exact."""
    return torch.arange(rows * columns).view(rows, columns).add(pe).fmod(5).float()


def matmuls() -> None:
    n, me = job.n_pes, job.my_pe
    x, w = value(me, ROWS, K), value(me, K, N)
    every = torch.cat([value(pe, ROWS, K) for pe in range(n)])
    gathered = every @ w
    reached = tensors.zeros(n * ROWS, N, heap="device")
    mine = value(me, n * ROWS, K)
    summed = sum(value(pe, n * ROWS, K) @ value(pe, K, N) for pe in range(n))
    part = summed[me * ROWS : (me + 1) * ROWS]

    def gather(algorithm: str) -> Callable[[], torch.Tensor]:
        return lambda: fused.all_gather_matmul(x, w, algorithm=algorithm)

    def reduce(algorithm: str) -> Callable[[], torch.Tensor]:
        return lambda: fused.matmul_reduce_scatter(mine, w, algorithm=algorithm)

    def to_all(algorithm: str, out: torch.Tensor | None = None) -> Callable[[], torch.Tensor]:
        return lambda: fused.matmul_all_reduce(mine, w, algorithm=algorithm, out=out)

    assert spoilt(gather("copy_engine"), gathered, matmul_engine, "multiply") == n
    for call, exact in (
        (reduce("copy_engine"), part),
        (to_all("copy_engine"), summed),
        (to_all("copy_engine", reached), summed),
    ):
        if n == 2:
            assert spoilt(call, exact, matmul_pair, "multiply") >= 2
            assert spoilt(call, exact, matmul_pair, "add_product") >= 2
        else:
            assert spoilt(call, exact, matmul_engine, "multiply") >= n
            assert spoilt(call, exact, matmul_engine, "finish") >= 1
    for call, exact in (
        (gather("persistent"), gathered),
        (reduce("persistent"), part),
        (to_all("persistent"), summed),
    ):
        gathers = exact is gathered
        name = "gather_matmul_kernel" if gathers else "matmul_scatter_kernel"
        for _ in range(2):
            assert attempt(call, Failing(matmul_tiles.kernels, name, 0)) is None
            assert torch.equal(call(), exact)


def experts() -> None:
    n, me = job.n_pes, job.my_pe
    x, ids = value(me, 6, K), torch.arange(6).view(6, 1) % 2
    up, weights = torch.stack([value(me, K, N), value(me + 1, K, N)]), torch.ones(6, 1)
    down = torch.stack([value(me, N, K), value(me + 2, N, K)])

    def upwards() -> torch.Tensor:
        return fused.all_gather_group_matmul(x, up, ids, algorithm="copy_engine")[0]

    hidden, routing = fused.all_gather_group_matmul(x, up, ids, algorithm="copy_engine")
    assert spoilt(upwards, hidden.clone(), group_parallel, "multiply_groups") == n
    hidden = value(me, 6 * n, N)

    def downwards() -> torch.Tensor:
        return fused.group_matmul_reduce_scatter(
            hidden, down, routing, weights, algorithm="copy_engine"
        )

    exact = downwards().clone()
    assert spoilt(downwards, exact, group_parallel, "multiply_groups") == n
    assert spoilt(downwards, exact, group_parallel, "finish") == 1


with pyshmem.init() as job:
    matmuls()
    experts()
print("ok", flush=True)
