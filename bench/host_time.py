# SPDX-License-Identifier: BSD-3-Clause
"""What eager calls cost the host: fused norms, two of them in a decoder's layer, calls with stream=.

Run: python -m pyshmem run -n 2 bench/host_time.py [--only PARTS]. PE 0 prints JSON lines: microseconds
of the host's time a call, the median of TURNS turns, of the PE that is slowest. A turn is CALLS calls
one behind another, behind which the GPU is waited for outside of the clock. Ways take turns.

norm: all_reduce_rmsnorm with a residual, launched by the extension and by Triton.
layer: two of these less two of torch's norms with the addition before them.
step: the same in a decode step of 32 layers, a product before each; us of all, and more a layer.
stream: put, sum_reduce and others with stream=; the same by the functions behind the extension.
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable
from typing import Any

import click
import torch
from options import some_of

import pyshmem
from pyshmem import fused
from pyshmem._torch import launches
from pyshmem.bench.timing import slowest

TURNS, CALLS, LAYERS = 15, 100, 32
PARTS = ("norm", "layer", "step", "stream")
ROWS = ((1, 4096), (6, 6144), (8, 8192), (128, 8192))

Calls = dict[str, Callable[[], Any]]


class Host:
    """The clock of this job's hosts, and what PE 0 says."""

    def __init__(self, job: Any) -> None:
        self.job, self.on_gpu = job, job.device == "cuda"
        self.turns, self.calls = (TURNS, CALLS) if self.on_gpu else (2, 2)
        self.device = torch.device("cuda", job.gpu) if self.on_gpu else torch.device("cpu")
        self.stream = pyshmem.streams.Stream()

    def finish(self) -> None:
        """Until all is done, on all PEs."""
        if self.on_gpu:
            torch.cuda.synchronize(self.device)
        self.stream.synchronize()
        pyshmem.barrier_all()

    def turn(self, call: Callable[[], Any]) -> float:
        self.finish()
        begin = time.perf_counter()
        for _ in range(self.calls):
            call()
        spent = time.perf_counter() - begin
        self.finish()
        return spent / self.calls * 1e6

    def compare(self, what: str, ways: Calls, **facts: Any) -> dict[str, float]:
        """A line with the medians of all ways."""
        for call in ways.values():
            self.turn(call)
        found: dict[str, list[float]] = {name: [] for name in ways}
        for _ in range(self.turns):
            for name, call in ways.items():
                found[name].append(self.turn(call))
        medians = slowest([statistics.median(one) for one in found.values()])
        row = dict(zip(ways, (round(us, 2) for us in medians), strict=True))
        if self.job.my_pe == 0:
            print(json.dumps({"what": what, **facts, **row}), flush=True)
        return row


def by_triton(call: Callable[[], Any]) -> Callable[[], Any]:
    """The same, launched as where a profiler watches Triton's launches."""

    def called() -> Any:
        before = launches.foreign.launches_are_watched
        launches.foreign.launches_are_watched = lambda: True
        try:
            return call()
        finally:
            launches.foreign.launches_are_watched = before

    return called


def tensors(host: Host, rows: int, hidden: int) -> tuple[torch.Tensor, ...]:
    torch.manual_seed(5 + host.job.my_pe)
    x = torch.randn(rows, hidden, device=host.device, dtype=torch.bfloat16)
    torch.manual_seed(4)
    residual = torch.randn_like(x)
    return x, residual, torch.randn(hidden, device=host.device, dtype=torch.bfloat16)


def norm(host: Host) -> None:
    for rows, hidden in ROWS if host.on_gpu else ROWS[:1]:
        x, residual, weight = tensors(host, rows, hidden)

        def call(x: Any = x, residual: Any = residual, weight: Any = weight) -> Any:
            return fused.all_reduce_rmsnorm(x, weight, residual=residual)

        ways: Calls = {
            "by driver": call,
            "by Triton": by_triton(call),
            "empty_like": lambda x=x: torch.empty_like(x),
            "mm": lambda x=x: x @ x.t(),
        }
        for _ in range(2):  # the first call is compiled
            results = [list(map(bytes_of, ways[name]())) for name in ("by driver", "by Triton")]
        if results[0] != results[1]:
            raise AssertionError(
                f"{rows} rows of {hidden}: other bits by the driver than by Triton"
            )
        host.compare("all_reduce_rmsnorm", ways, rows=rows, hidden=hidden)


def bytes_of(tensor: torch.Tensor | None) -> bytes:
    return b"" if tensor is None else tensor.cpu().view(torch.uint8).numpy().tobytes()


def layer(host: Host) -> None:
    for rows, hidden in ((8, 8192), (1, 4096)) if host.on_gpu else ROWS[:1]:
        x, residual, weight = tensors(host, rows, hidden)

        def ours(x: Any = x, residual: Any = residual, weight: Any = weight) -> None:
            for _ in range(2):
                fused.all_reduce_rmsnorm(x, weight, residual=residual)

        def theirs(x: Any = x, residual: Any = residual, weight: Any = weight) -> None:
            for _ in range(2):
                torch.nn.functional.rms_norm(x + residual, weight.shape, weight, 1e-6)

        row = host.compare(
            "layer", {"two fused": ours, "two norms": theirs}, rows=rows, hidden=hidden
        )
        if host.job.my_pe == 0:
            more = round(row["two fused"] - row["two norms"], 2)
            print(json.dumps({"what": "layer", "hidden": hidden, "more": more}), flush=True)


def step(host: Host) -> None:
    for rows, hidden in ((1, 4096), (8, 8192)) if host.on_gpu else ROWS[:1]:
        x, residual, weight = tensors(host, rows, hidden)
        product = torch.randn(512, hidden, device=host.device, dtype=x.dtype)

        def fused_norm(x: Any, residual: Any, weight: Any = weight) -> Any:
            return fused.all_reduce_rmsnorm(x, weight, residual=residual)[:2]

        def plain_norm(x: Any, residual: Any, weight: Any = weight) -> Any:
            total = x + residual
            return torch.nn.functional.rms_norm(total, weight.shape, weight, 1e-6), total

        def steps(
            norm: Callable[..., Any], x: Any = x, residual: Any = residual, product: Any = product
        ) -> None:
            for _ in range(2 * LAYERS):
                x, residual = norm(x[:, :512] @ product, residual)

        ways: Calls = {
            "fused": lambda steps=steps, norm=fused_norm: steps(norm),
            "norms": lambda steps=steps, norm=plain_norm: steps(norm),
        }
        calls, host.calls = host.calls, min(host.calls, 5)  # the GPU's queue would fill up
        row = host.compare("step", ways, rows=rows, hidden=hidden, layers=LAYERS)
        host.calls = calls
        if host.job.my_pe == 0:
            more = round((row["fused"] - row["norms"]) / LAYERS, 2)
            print(
                json.dumps({"what": "step", "hidden": hidden, "more_a_layer_us": more}), flush=True
            )


def stream(host: Host) -> None:
    right, n = (host.job.my_pe + 1) % host.job.n_pes, 1024
    x, y = (pyshmem.zeros(n * host.job.n_pes, dtype="float32", heap="device") for _ in range(2))
    signal, on = pyshmem.new_signal(heap="device"), {"stream": host.stream}
    pyshmem.streams.prepare()
    pyshmem.streams.prepare("sum_reduce", dtype="float32")
    where = host.stream.handle
    ways: Calls = {
        "put": lambda: pyshmem.put(y, x, right, nelems=n, **on),
        "put, handle": lambda: pyshmem.put(y, x, right, nelems=n, stream=where),
        "put, Python": lambda: pyshmem.put.__wrapped__(y, x, right, nelems=n, **on),
        "sum_reduce": lambda: pyshmem.sum_reduce(y, x, nelems=n, **on),
        "sum_reduce, handle": lambda: pyshmem.sum_reduce(y, x, nelems=n, stream=where),
        "sum_reduce, Python": lambda: pyshmem.sum_reduce.__wrapped__(y, x, nelems=n, **on),
        "fcollect": lambda: pyshmem.fcollect(y, x, nelems=n, **on),
        "sync_all": lambda: pyshmem.sync_all(**on),
        "barrier_all": lambda: pyshmem.barrier_all(**on),
        "signal_set": lambda: pyshmem.signal_set(signal, 1, right, **on),
        "query": host.stream.query,
    }
    host.compare("stream", ways)
    pyshmem.free(x)
    pyshmem.free(y)


@click.command()
@some_of("--only", PARTS, "What is measured")
def main(only: tuple[str, ...]) -> None:
    """Measure, and say each figure."""
    with pyshmem.init() as job:
        host = Host(job)
        for part in only:
            globals()[part](host)


if __name__ == "__main__":
    main()
