# SPDX-License-Identifier: BSD-3-Clause
"""What runs when in one call of a fused operation: products, copies and waits, as pictures."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

import pyshmem
import pyshmem.fused as fused


_BUSY_CYCLES = 8_000_000  # some milliseconds


def timelines(bench: Any, folder: Path) -> None:
    """A timeline and a picture for each operation and algorithm with something to show."""
    job, n = bench.job, bench.job.n_pes
    m, width, k = (8192, 8192, 2048) if bench.on_gpu else (32, 16 * n, 16 * n)
    shard, w_up = bench.random(m // n, k), bench.random(k, width // n)
    x, w_down = bench.random(m, k // n), bench.random(k // n, width)
    calls: dict[str, Callable[[str], Any]] = {
        "ag_gemm": lambda algorithm: fused.all_gather_matmul(shard, w_up, algorithm=algorithm),
        "gemm_rs": lambda algorithm: fused.matmul_reduce_scatter(x, w_down, algorithm=algorithm),
        "gemm_ar": lambda algorithm: fused.matmul_all_reduce(x, w_down, algorithm=algorithm),
    }
    folder.mkdir(parents=True, exist_ok=True)
    for op, call in calls.items():
        for algorithm in ("copy_engine", "persistent"):
            _one(
                job,
                folder / f"{op}_{algorithm}.json",
                lambda call=call, algorithm=algorithm: call(algorithm),
            )


def _one(job: Any, path: Path, call: Callable[[], Any]) -> None:
    """Record a call; one before it, in which kernels are compiled with their labels, is cut off."""
    call()
    with pyshmem.profiling.trace(path):
        for _ in range(2):
            if job.device == "cuda":
                # Python takes longer to start a call than the GPU to do it: the stream is kept busy
                # meanwhile, and PEs meet on it, so that what is seen is the GPUs' work alone.
                torch.cuda._sleep(_BUSY_CYCLES)
                pyshmem.sync_all(stream=torch.cuda.current_stream())
            call()
            if job.device == "cuda":
                torch.cuda.synchronize()
            pyshmem.barrier_all()
    if job.my_pe == 0:
        _cut(path)
        picture = path.with_suffix(".svg")
        command = [sys.executable, "-m", "pyshmem", "trace", str(path), "--plot", str(picture)]
        print(
            subprocess.run(command, capture_output=True, text=True, check=True).stdout, flush=True
        )
    pyshmem.barrier_all()


def _cut(path: Path) -> None:
    """Keep the last call: what begins with its first stage, behind the barrier that ends the others."""
    document = json.loads(path.read_text())
    slices = [event for event in document["traceEvents"] if event.get("ph") == "X"]
    ends = sorted(one["ts"] + one["dur"] for one in slices if one["name"] == "barrier_all")
    before = ends[len(ends) // 2 - 1]
    stages = [one["ts"] for one in slices if one.get("cat") == "stage" and one["ts"] >= before]
    first = min(stages, default=before)
    document["traceEvents"] = [
        event
        for event in document["traceEvents"]
        if event.get("ph") == "M" or event.get("ts", first) >= first
    ]
    path.write_text(json.dumps(document))
