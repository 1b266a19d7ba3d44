# SPDX-License-Identifier: BSD-3-Clause
"""Collectives of torch.distributed by this library's backend, NCCL and Gloo; a JSON line each.

    python -m pyshmem run -n 2 --device cuda bench/torch_calls.py [--only all_reduce,broadcast]
    python -m pyshmem run -n 2 --device none bench/torch_calls.py --bytes 4096 --bytes 16777216

"us_host" is what the host needs to start a call, on CPUs to do it (there "us_eager" is of the first
one); "us_eager" and "us_graph" what a call takes, eager and in a CUDA graph: medians, the slowest PE's,
in microseconds. "bytes" are those of a PE's own tensor. "ddp_step" is a forward pass, a backward pass
and a step of SGD of DistributedDataParallel around two layers whose weights are "bytes"; it is not
captured. NCCL wants a GPU for each PE, PEs that share one are for comparing commits, under MPS, not
backends; Gloo is for CPUs.
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable
from typing import Any

import click
import torch
import torch.distributed as dist
from options import some_of
from torch.nn.parallel import DistributedDataParallel

import pyshmem
import pyshmem.interop.torch as symmetric
from pyshmem.bench.torch_clock import BLOCKS, TorchClock
from pyshmem.host.job.runtime import gpu_count

SIZES = (1 << 12, 1 << 16, 1 << 20, 1 << 23, 1 << 26)
COLLECTIVES = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast")
OPERATIONS = (*COLLECTIVES, "ddp_step")
BACKENDS = ("pyshmem", "nccl", "gloo")
_STARTS = 20  # calls of which the host's time is taken, before anything is waited for
_FIRST = 40  # calls before, where the members compare the first ones


def calls(clock: TorchClock, nbytes: int) -> dict[str, Callable[[], Any]]:
    """The collectives on a tensor of ``nbytes`` and one of all PEs'."""
    n, count = clock.job.n_pes, nbytes // 4
    one = torch.zeros(count, device=clock.device)
    each, all_of_them = torch.zeros_like(one), torch.zeros(n * count, device=clock.device)
    sent, came = (tensor[: count // n * n] for tensor in (one, each))
    return {
        "all_reduce": lambda: dist.all_reduce(one),
        "all_gather": lambda: dist.all_gather_into_tensor(all_of_them, one),
        "reduce_scatter": lambda: dist.reduce_scatter_tensor(one, all_of_them),
        "all_to_all": lambda: dist.all_to_all_single(came, sent),
        "broadcast": lambda: dist.broadcast(one, 0),
    }


def ddp_step(clock: TorchClock, nbytes: int) -> Callable[[], None]:
    """A step of training of two layers whose weights are ``nbytes``; each PE has a batch of 8."""
    width = max(int((nbytes / 8) ** 0.5), 1)
    layers = [torch.nn.Linear(width, width, bias=False, device=clock.device) for _ in range(2)]
    model = DistributedDataParallel(torch.nn.Sequential(*layers))
    optimiser = torch.optim.SGD(model.parameters(), 1e-6)
    batch = torch.ones(8, width, device=clock.device)

    def step() -> None:
        optimiser.zero_grad()
        model(batch).sum().backward()
        optimiser.step()

    return step


def us_host(clock: TorchClock, call: Callable[[], Any]) -> float:
    """Microseconds until a call is started, on this PE."""
    plain_cpus = clock.job.device == "none"  # no interpreter of kernels, where a call is made once
    found, starts = [], _STARTS if clock.on_gpu or plain_cpus else 1
    for _ in range(_FIRST if plain_cpus else 0):
        call()
    for _ in range(BLOCKS):
        if clock.on_gpu:
            torch.cuda.synchronize()
        pyshmem.barrier_all()
        begin = time.perf_counter()
        for _ in range(starts):
            call()
        found.append(1e6 * (time.perf_counter() - begin) / starts)
    if clock.on_gpu:
        torch.cuda.synchronize()
    return statistics.median(found)


def measure(clock: TorchClock, backend: str, op: str, nbytes: int, call: Callable[[], Any]) -> None:
    """Print a row."""
    row: dict[str, Any] = {"backend": backend, "op": op, "bytes": nbytes, "pes": clock.job.n_pes}
    row["us_eager"] = round(clock.slowest(clock.us(call)), 1)  # it warms up
    row["us_host"] = round(clock.slowest(us_host(clock, call)), 1)
    if clock.on_gpu and op in COLLECTIVES:
        row["us_graph"] = round(clock.slowest(clock.us(call, graph=True)), 1)
    if clock.job.my_pe == 0:
        print(json.dumps(row), flush=True)


@click.command()
@some_of("--only", OPERATIONS, "Operations")
@some_of("--backends", BACKENDS, "Backends")
@click.option("--bytes", "sizes", type=int, multiple=True, help="Of a PE's tensor; many on GPUs.")
def main(only: tuple[str, ...], backends: tuple[str, ...], sizes: tuple[int, ...]) -> None:
    """Run on all PEs."""
    with pyshmem.init(device_heap_size="2G" if gpu_count() else "64M") as job:
        clock = TorchClock(job)
        if clock.on_gpu:
            torch.cuda.set_device(clock.device)
        for backend in backends:
            if backend == "nccl" and torch.cuda.device_count() < job.n_pes:
                continue
            if backend == "gloo" and clock.on_gpu:
                continue
            symmetric.init_process_group(backend)
            for nbytes in sizes or (SIZES if clock.on_gpu else SIZES[:1]):
                found = calls(clock, nbytes)
                for op in only:
                    call = ddp_step(clock, nbytes) if op == "ddp_step" else found[op]
                    measure(clock, backend, op, nbytes, call)
            dist.destroy_process_group()


if __name__ == "__main__":
    main()
