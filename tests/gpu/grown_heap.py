# SPDX-License-Identifier: BSD-3-Clause
"""A device heap that grows, to most of a GPU and by random sizes, beside torch's own allocator.

    python -m pyshmem run -n 2 tests/gpu/grown_heap.py [turns] [GiB]

An array of so many GiB is made, put to and freed; then ``turns`` random allocations and frees, each
array with its own values, which are looked at before it is freed, while torch allocates and frees
tensors of its own. A JSON line of PE 0 a part. Torch's setting (PYTORCH_CUDA_ALLOC_CONF) is the
caller's. The GPU's free memory is read before the first job and behind each of three: what the first
leaves is the driver's, for kernels.
"""

from __future__ import annotations

import json
import os
import random
import sys
import time
from typing import Any

import numpy as np
import torch

import pyshmem

TURNS = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
GIB = float(sys.argv[2]) if len(sys.argv) > 2 else 60
MOST = 24 << 20  # bytes of an array of the random part
KEPT = 40  # of them at a time


def say(job: pyshmem.Job, part: str, **facts: Any) -> None:
    if job.my_pe == 0:
        print(json.dumps({"part": part, "device": job.device, **facts}), flush=True)


def free_mib(gpu: int | None) -> int:
    """Of the GPU; where there is none, 0."""
    if gpu is None:
        return 0
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    return int(torch.cuda.mem_get_info(gpu)[0]) >> 20


def large(job: pyshmem.Job) -> None:
    """One array of most of the memory: its ends arrive at the next PE."""
    right, left = (job.my_pe + 1) % job.n_pes, (job.my_pe - 1) % job.n_pes
    size = int(GIB * 2**30) // 8
    begin = time.perf_counter()
    array = pyshmem.zeros(size, np.int64, heap="device")
    seconds = time.perf_counter() - begin
    values = np.array([job.my_pe + 1], np.int64)
    for at in (0, size // 2, size - 1):
        pyshmem.put(array[at : at + 1], values, right)
    pyshmem.barrier_all()
    for at in (0, size // 2, size - 1):
        assert pyshmem.to_numpy(array[at : at + 1]).item() == left + 1, at
    assert not pyshmem.to_numpy(array[1:1000]).any()
    memory = pyshmem.heap_info("device").memory >> 20
    pyshmem.free(array)
    pyshmem.heap_trim()
    say(job, "large", GiB=GIB, seconds=round(seconds, 3), MiB=memory,
        MiB_trimmed=pyshmem.heap_info("device").memory >> 20)  # fmt: skip


def mixed(job: pyshmem.Job) -> None:
    """Random sizes, the same on all PEs; torch's sizes are each PE's own."""
    draws, own = random.Random(38), random.Random(job.my_pe)
    right, left = (job.my_pe + 1) % job.n_pes, (job.my_pe - 1) % job.n_pes
    where = f"cuda:{job.gpu}" if job.device == "cuda" else "cpu"
    arrays: list[tuple[int, Any]] = []
    tensors: list[tuple[int, torch.Tensor]] = []
    most = trims = 0
    begin = time.perf_counter()

    def end_of(turn: int, array: Any) -> None:
        found = {pyshmem.to_numpy(array[at : at + 1]).item() for at in (0, -2, array.size // 2)}
        assert found == {turn}, (turn, found)
        assert pyshmem.to_numpy(array[-1:]).item() == 10 * turn + left

    for turn in range(TURNS):
        size = max(8, int(MOST ** draws.uniform(0.2, 1)) // 8)
        array = pyshmem.full(size, turn, dtype=np.int64, heap="device")
        pyshmem.put(array[-1:], np.array([10 * turn + job.my_pe]), right)
        arrays.append((turn, array))
        tensors.append((turn, torch.full((own.randint(1, 4 << 20),), turn, device=where)))
        del array
        if len(tensors) > KEPT:
            value, tensor = tensors.pop(own.randrange(KEPT))
            assert tensor[0] == tensor[-1] == value
        if len(arrays) > KEPT:
            pyshmem.barrier_all()
            value, array = arrays.pop(draws.randrange(KEPT))
            end_of(value, array)
            pyshmem.barrier_all()  # nobody frees what the left one still looks at
            pyshmem.free(array)
        if draws.random() < 0.01:
            pyshmem.heap_trim()
            trims += 1
        most = max(most, pyshmem.heap_info("device").memory)
    pyshmem.barrier_all()
    for value, array in arrays:
        end_of(value, array)
    say(job, "mixed", turns=TURNS, trims=trims, MiB_most=most >> 20,
        seconds=round(time.perf_counter() - begin, 1))  # fmt: skip


def main() -> None:
    gpu = int(os.environ.get("PYSHMEM_PE", 0))
    has_gpus = torch.cuda.is_available() and gpu < torch.cuda.device_count()
    if has_gpus:  # the context, which stays, is no part of the comparison
        torch.cuda.set_device(gpu)
        torch.zeros(1, device="cuda")
    free = [free_mib(gpu if has_gpus else None)]
    for turn in range(3):
        with pyshmem.init() as job:  # no size is given
            if turn == 1:
                large(job)
                mixed(job)
        free.append(free_mib(job.gpu if job.device == "cuda" else None))
    if job.my_pe == 0:
        print(json.dumps({"part": "finalized", "MiB_free_before_and_after_each": free}))


if __name__ == "__main__":
    main()
