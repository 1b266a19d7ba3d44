# SPDX-License-Identifier: BSD-3-Clause
"""Matrix products that communicate in turn with their own GEMM and with the peers; a JSON line each.

    python -m pyshmem run -n 2 --device cuda bench/products.py [--only gemm_ar] [--rows 8192]

A GPU's clock falls under such load, so what a product takes of its GEMM is taken round by round: blocks
of ten calls, in CUDA graphs, of each in turn. "us_graph" is the median, "least" the least of the rounds,
"of_gemm" the median of the rounds' ratios; the slowest PE's each. "near out" is an ``out`` on the device
heap.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable
from typing import Any

import click
import torch
import torch.distributed as dist
from fused import ALL_GATHER, REDUCE, Bench, by_symm_mem
from options import some_of

import pyshmem
import pyshmem.fused as fused
import pyshmem.interop.torch as symmetric
from pyshmem.host.job.runtime import gpu_count

Calls = dict[str, Callable[[], Any]]
OPERATIONS = ("ag_gemm", "gemm_rs", "gemm_ar")


def has_peers(bench: Bench) -> bool:
    """Whether there are others to compare with: they want a GPU for each PE."""
    return bench.on_gpu and torch.cuda.device_count() >= bench.job.n_pes


def gathers(bench: Bench, m: int, width: int, k: int) -> Calls:
    """Rows of all, times the own columns."""
    n = bench.job.n_pes
    shard, w, whole = bench.random(m // n, k), bench.random(k, width // n), bench.random(m, k)
    calls: Calls = {
        "gemm": lambda: whole @ w,
        "pyshmem": lambda: fused.all_gather_matmul(shard, w),
    }
    if has_peers(bench):
        calls["nccl"] = lambda: (dist.all_gather_into_tensor(whole, shard), whole @ w)
        calls["symm_mem"] = by_symm_mem("fused_all_gather_matmul", shard, [w], 0)
    return calls


def scatters(bench: Bench, m: int, width: int, k: int) -> Calls:
    """The own rows of the sum."""
    n = bench.job.n_pes
    x, w, share = bench.random(m, k // n), bench.random(k // n, width), bench.random(m // n, width)
    calls: Calls = {"gemm": lambda: x @ w, "pyshmem": lambda: fused.matmul_reduce_scatter(x, w)}
    if has_peers(bench):
        calls["nccl"] = lambda: dist.reduce_scatter_tensor(share, x @ w)
        calls["symm_mem"] = by_symm_mem("fused_matmul_reduce_scatter", x, w, "sum", 0)
    return calls


def reductions(bench: Bench, m: int, width: int, k: int) -> Calls:
    """All rows of the sum."""
    n = bench.job.n_pes
    x, w = bench.random(m, k // n), bench.random(k // n, width)
    near = symmetric.empty(m, width, dtype=x.dtype, heap="device")
    calls: Calls = {
        "gemm": lambda: x @ w,
        "pyshmem": lambda: fused.matmul_all_reduce(x, w),
        "pyshmem, near out": lambda: fused.matmul_all_reduce(x, w, out=near),
    }
    if has_peers(bench):
        calls["nccl"] = lambda: dist.all_reduce(x @ w)
    return calls


def measure(bench: Bench, op: str, shape: tuple[int, int, int], calls: Calls, rounds: int) -> None:
    """A row for each of the calls."""
    found = bench.turns(calls, rounds)
    for what, times in found.items():
        ratios = [one / gemm for one, gemm in zip(times, found["gemm"], strict=True)]
        row = {"op": op, "what": what, "shape": shape, "pes": bench.job.n_pes}
        row["us_graph"] = round(bench.slowest(statistics.median(times)), 1)
        row["least"] = round(bench.slowest(min(times)), 1)
        row["of_gemm"] = round(bench.slowest(statistics.median(ratios)), 3)
        if bench.job.my_pe == 0:
            print(json.dumps(row), flush=True)


@click.command()
@click.option("--rounds", default=7, help="Rounds, behind one that warms up.")
@some_of("--only", OPERATIONS, "Operations")
@click.option(
    "--rows", default="", help="Only shapes of so many rows; several with commas between."
)
def main(rounds: int, only: tuple[str, ...], rows: str) -> None:
    """Run on all PEs."""
    ways = {
        "ag_gemm": (gathers, ALL_GATHER),
        "gemm_rs": (scatters, REDUCE),
        "gemm_ar": (reductions, REDUCE),
    }
    wanted = [int(number) for number in rows.split(",") if number]
    with pyshmem.init(device_heap_size="8G" if gpu_count() else "64M") as job:
        bench = Bench(job)
        if has_peers(bench):
            symmetric.init_process_group("nccl")
        for op in only:
            make, shapes = ways[op]
            if not bench.on_gpu:
                shapes = ((32, 16 * job.n_pes, 16 * job.n_pes),)
            for shape in shapes:
                if not wanted or shape[0] in wanted:
                    measure(bench, op, shape, make(bench, *shape), rounds)
                    torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
