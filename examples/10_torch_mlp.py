# SPDX-License-Identifier: BSD-3-Clause
"""The MLP of a tensor-parallel layer: time over its number of tokens, beside torch with NCCL.

You learn: torch.ops.pyshmem.all_reduce_ where dist.all_reduce was, and fused.matmul_all_reduce.
Run: python -m pyshmem run -n 2 --device sim examples/10_torch_mlp.py  (with torch)
     --out mlp.png draws the times. On GPUs it is beside NCCL, eager and in CUDA graphs; else gloo.
Output: 2 PEs, 4 to 16 tokens, the same sums as with gloo: ok      (before it: the times)
"""

import argparse
import time
from collections.abc import Callable

import torch
import torch.distributed as dist
import torch.nn.functional as functional

import pyshmem
import pyshmem.fused as fused
import pyshmem.interop.torch as symmetric

Call = Callable[[], torch.Tensor]
parser = argparse.ArgumentParser()
parser.add_argument("--out", help="a file for the picture: .png, .svg, .pdf")
arguments = parser.parse_args()


def as_graph(call: Call) -> Call:
    """The same work as a CUDA graph, captured once; what it needs is loaded and allocated before."""
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = call()
    return lambda: (graph.replay(), result)[1]


def microseconds(call: Call, on_gpu: bool) -> float:
    """Of a call, the smallest mean of five rounds; all PEs begin a round together."""
    means, times = [], 20 if on_gpu else 1
    for _ in range(5 if on_gpu else 1):
        pyshmem.barrier_all()
        begin = time.perf_counter()
        for _ in range(times):
            call()
        if on_gpu:
            torch.cuda.synchronize()
        means.append(1e6 * (time.perf_counter() - begin) / times)
    return min(means)


def draw(rows: dict[str, dict[int, float]], name: str) -> None:
    from matplotlib.figure import Figure

    axes = (figure := Figure(figsize=(7, 4.5), layout="constrained")).subplots()
    for label, times in rows.items():
        axes.loglog(*zip(*sorted(times.items()), strict=True), marker="o", label=label)
    axes.set(xlabel="tokens", ylabel="microseconds a layer", title="MLP in tensor parallel")
    axes.legend()
    figure.savefig(name)


torch.set_num_threads(1)  # of each PE
with pyshmem.init() as job, torch.no_grad():
    on_gpu, other = job.device == "cuda", "NCCL" if job.device == "cuda" else "gloo"
    device, dtype = (f"cuda:{job.gpu}", torch.bfloat16) if on_gpu else ("cpu", torch.float32)
    hidden, width, sizes = (4096, 14336, (4096, 512, 64, 8)) if on_gpu else (32, 64, (16, 4))
    symmetric.init_process_group(other.lower())
    random = torch.Generator(device).manual_seed(job.my_pe)  # each PE has its part of the weights
    new = {"generator": random, "device": device, "dtype": dtype}
    up = torch.randn(hidden, width // job.n_pes, **new) / hidden**0.5
    down = torch.randn(width // job.n_pes, hidden, **new) / width**0.5
    rows: dict[str, dict[int, float]] = {}
    for tokens in sizes:  # the largest first: memory that grew later would be in other places
        x = torch.linspace(-1, 1, tokens * hidden, device=device, dtype=dtype).view(tokens, hidden)
        box = symmetric.empty((tokens, hidden), dtype=dtype, heap="device" if on_gpu else "host")

        def inner(x: torch.Tensor = x) -> torch.Tensor:
            return functional.silu(x @ up)

        def theirs() -> torch.Tensor:
            part = inner() @ down
            dist.all_reduce(part)
            return part

        def summed(box: torch.Tensor = box) -> torch.Tensor:
            torch.matmul(inner(), down, out=box)
            torch.ops.pyshmem.all_reduce_(box, "sum")
            return box

        def joined() -> torch.Tensor:
            return fused.matmul_all_reduce(inner(), down)

        ways = {f"torch + {other}": theirs, "pyshmem all_reduce_": summed, "pyshmem fused": joined}
        right = theirs().clone()
        for name, way in ways.items():
            close = 3e-2 if on_gpu else 1e-4
            torch.testing.assert_close(way(), right, rtol=close, atol=close)
            kinds = {name: way}
            if on_gpu:
                kinds[f"{name}, graph"] = as_graph(way)
            for label, call in kinds.items():
                rows.setdefault(label, {})[tokens] = microseconds(call, on_gpu)
                torch.testing.assert_close(call(), right, rtol=close, atol=close)
    dist.destroy_process_group()
    if job.my_pe == 0:
        for label, times in rows.items():
            print(f"{label}:", *(f"{n} tokens {times[n]:.0f} us" for n in sizes), sep="  ")
        if arguments.out:
            draw(rows, arguments.out)
        size = f"{min(sizes)} to {max(sizes)} tokens"
        print(f"{job.n_pes} PEs, {size}, the same sums as with {other}: ok", flush=True)
