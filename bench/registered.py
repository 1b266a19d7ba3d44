# SPDX-License-Identifier: BSD-3-Clause
"""Puts and gets of registered tensors of torch beside those of heap arrays, on GPUs or on the host.

    python -m pyshmem run -n 2 bench/registered.py [turns]

One JSON line a size and operation from PE 0: medians over turns that alternate between the two, in us.
On GPUs also, by events of the GPU: a kernel that stores to the address that ptr gives of either, many
rounds in a launch; and fused operations whose input and output are either, eager and in graphs.
"""

from __future__ import annotations

import functools
import json
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any, Literal

import numpy as np

import pyshmem

TURNS = int(sys.argv[1]) if len(sys.argv) > 1 else 9
SIZES = (8, 1 << 10, 64 << 10, 1 << 20, 16 << 20)


def memory(job: pyshmem.Job, nbytes: int) -> Any:
    """What a program has already."""
    if job.device != "cuda":
        return np.zeros(nbytes, np.uint8)
    import torch

    return torch.zeros(nbytes, dtype=torch.uint8, device=f"cuda:{job.gpu}")


def mean_us(call: Callable[..., None], arguments: tuple[Any, ...], count: int) -> float:
    for _ in range(3):
        call(*arguments)
    begin = time.perf_counter()
    for _ in range(count):
        call(*arguments)
    return (time.perf_counter() - begin) / count * 1e6


def measure_kernel(job: pyshmem.Job, size: int) -> None:
    """All PEs make the arrays, PE 0 stores into the right one's."""
    import torch
    from numba import cuda

    @cuda.jit
    def store(theirs: Any, source: Any, rounds: int) -> None:
        for turn in range(rounds):
            for k in range(cuda.grid(1), source.size, cuda.gridsize(1)):
                theirs[k] = source[k] + turn
            cuda.threadfence_system()  # the stores of a round have arrived

    peer, words = (job.my_pe + 1) % job.n_pes, max(1, size // 8)
    rounds = max(1, min(200, (64 << 20) // size))  # in a launch
    count = 10
    source = cuda.as_cuda_array(memory(job, 8 * words).view(torch.int64))
    arrays = {
        "heap": pyshmem.zeros(words, np.int64, heap="device"),
        "registered": memory(job, 8 * words).view(torch.int64),
    }
    shape = min(264, (words + 255) // 256), min(256, words)
    with pyshmem.register(arrays["registered"]):
        theirs = {where: cuda.as_cuda_array(pyshmem.ptr(a, peer)) for where, a in arrays.items()}
        found: dict[str, list[float]] = {where: [] for where in arrays}
        stream = cuda.external_stream(torch.cuda.current_stream().cuda_stream)
        for _ in range(TURNS if job.my_pe == 0 else 0):
            for where, array in theirs.items():
                begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
                for _ in range(3):
                    store[(*shape, stream)](array, source, rounds)
                begin.record()
                for _ in range(count):
                    store[(*shape, stream)](array, source, rounds)
                end.record()
                end.synchronize()
                found[where].append(begin.elapsed_time(end) / count / rounds * 1e3)
        pyshmem.barrier_all()
    say(job, "kernel", size, "device", found)
    pyshmem.barrier_all()


def measure_fused(job: pyshmem.Job, size: int) -> None:
    """all_reduce_rmsnorm of rows of 4 KiB, and a product with its sum, both of bfloat16.

    Called one by one, and as graphs, in which the host's time does not count. ``control`` is other
    memory of the heap: what its figures differ by says what a difference means.
    """
    import torch

    from pyshmem import fused
    from pyshmem.interop import torch as symmetric

    where, width = f"cuda:{job.gpu}", 2048
    extents, count = (size // 2 // width, width), 10
    norm = torch.ones(width, dtype=torch.bfloat16, device=where)
    weight = torch.full((width, width), 1 / width, dtype=torch.bfloat16, device=where)

    def of_heap() -> list[Any]:
        return [symmetric.ones(*extents, dtype=norm.dtype, heap="device") for _ in range(2)]

    pairs = {
        "heap": of_heap(),
        "control": of_heap(),
        "registered": [torch.ones(extents, dtype=norm.dtype, device=where) for _ in range(2)],
    }
    held = [pyshmem.register(tensor) for tensor in pairs["registered"]]
    for call, other in ((fused.all_reduce_rmsnorm, norm), (fused.matmul_all_reduce, weight)):
        calls: dict[str, Callable[[], Any]] = {
            kind: functools.partial(call, x, other, out=out) for kind, (x, out) in pairs.items()
        }
        say(job, call.__name__, size, "device", alternate(calls, 3 * TURNS, count))
        graphs: dict[str, Callable[[], Any]] = {
            kind: captured(one).replay for kind, one in calls.items()
        }
        found = alternate(graphs, 3 * TURNS, count)
        say(job, f"{call.__name__} in a graph", size, "device", found)
    for registration in held:
        registration.unregister()


def captured(call: Callable[[], Any]) -> Any:
    import torch

    graph = torch.cuda.CUDAGraph()
    pyshmem.barrier_all()
    with torch.cuda.graph(graph, stream=torch.cuda.Stream()):
        call()
    pyshmem.barrier_all()
    return graph


def alternate(
    calls: dict[str, Callable[[], Any]], turns: int, count: int
) -> dict[str, list[float]]:
    """Microseconds of a call by the GPU's events; who is first changes from turn to turn."""
    import torch

    found: dict[str, list[float]] = {kind: [] for kind in calls}
    order = list(calls)
    for turn in range(turns + 3):  # the first ones compile, and warm up
        for kind in order[turn % 3 :] + order[: turn % 3]:
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            for _ in range(3):
                calls[kind]()
            torch.cuda.synchronize()
            pyshmem.barrier_all()
            begin.record()
            for _ in range(count):
                calls[kind]()
            end.record()
            end.synchronize()
            if turn > 2:
                found[kind].append(begin.elapsed_time(end) / count * 1e3)
    return found


def say(
    job: pyshmem.Job, operation: str, size: int, memory: str, found: dict[str, list[float]]
) -> None:
    if job.my_pe == 0:
        us = {where: round(statistics.median(times), 3) for where, times in found.items()}
        row = {"operation": operation, "bytes": size, "memory": memory, **us}
        ratio = {"ratio": round(us["registered"] / us["heap"], 3)}
        if "control" in us:
            ratio["ratio_of_control"] = round(us["control"] / us["heap"], 3)
        print(json.dumps(row | ratio), flush=True)


def measure(job: pyshmem.Job, size: int, heap: Literal["host", "device"]) -> None:
    peer = (job.my_pe + 1) % job.n_pes
    count = max(10, min(300, (64 << 20) // size))
    source = memory(job, size)
    arrays = {"heap": pyshmem.zeros(size, np.uint8, heap=heap), "registered": memory(job, size)}
    with pyshmem.register(arrays["registered"]):
        for name, call in (("put", pyshmem.put), ("get", pyshmem.get)):
            found: dict[str, list[float]] = {where: [] for where in arrays}
            for _ in range(TURNS):
                for where, array in arrays.items():
                    pyshmem.barrier_all()
                    if job.my_pe == 0:
                        pair = (array, source) if name == "put" else (source, array)
                        found[where].append(mean_us(call, (*pair, peer), count))
            say(job, name, size, heap, found)
    pyshmem.barrier_all()


def main() -> None:
    with pyshmem.init(heap_size="64M", device_heap_size="512M") as job:
        if job.device == "cuda":
            import torch

            torch.cuda.set_device(job.gpu)
        for size in SIZES:
            measure(job, size, "device" if job.device == "cuda" else "host")
        for size in SIZES if job.device == "cuda" else ():
            measure_kernel(job, size)
            if size >= 64 << 10:
                measure_fused(job, size)


if __name__ == "__main__":
    main()
