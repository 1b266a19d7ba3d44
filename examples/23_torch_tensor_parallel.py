# SPDX-License-Identifier: BSD-3-Clause
"""A small Llama-like model in tensor parallel: two fused all-reduces with residual and norm a layer.

You learn: pyshmem.fused.all_reduce_rmsnorm where a layer's sums, residuals and norms are.
Run: python -m pyshmem run -n 2 --device sim examples/23_torch_tensor_parallel.py  (with torch)
Output: 2 PEs, 4 sequences of 8 tokens, the same as one PE alone writes: ok     (GPUs: and the times)
"""

import time
from collections.abc import Callable

import torch
import torch.distributed as dist
import torch.nn.functional as functional

import pyshmem
import pyshmem.fused as fused
import pyshmem.interop.torch as symmetric

ReduceNorm = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], tuple[torch.Tensor, torch.Tensor]]
BATCH, EPS = 4, 1e-5


class Model:
    """The part of a model with random weights that PE ``pe`` of ``n`` has: heads and rows of the MLP."""

    def __init__(self, size: tuple[int, int, int, int], pe: int, n: int, device: str) -> None:
        layers, hidden, self.head, vocabulary = size
        random = torch.Generator().manual_seed(0)  # the same on all PEs

        def new(*extents: int, split: int | None = None) -> torch.Tensor:
            whole = torch.randn(*extents, generator=random) / extents[-2] ** 0.5
            return (whole if split is None else whole.chunk(n, split)[pe].contiguous()).to(device)

        self.embedding, self.output = new(vocabulary, hidden), new(hidden, vocabulary)
        self.layers = [
            {
                **{name: new(hidden, hidden, split=1) for name in ("q", "k", "v")},
                "attention": new(hidden, hidden, split=0),
                **{name: new(hidden, 2 * hidden, split=1) for name in ("gate", "up")},
                "down": new(2 * hidden, hidden, split=0),
            }
            for _ in range(layers)
        ]
        self.norm = torch.ones(hidden, device=device)

    def write(self, first: torch.Tensor, steps: int, reduce_norm: ReduceNorm) -> torch.Tensor:
        """The most likely tokens, one after the other; ``reduce_norm`` adds parts over the PEs."""
        caches: list[list[torch.Tensor]] = [[] for _ in self.layers]
        written = [first]
        for _ in range(steps):
            x = self.embedding[written[-1]]
            y = functional.rms_norm(x, x.shape[-1:], self.norm, EPS)
            for layer, cache in zip(self.layers, caches, strict=True):
                part = self.attend(y, layer, cache) @ layer["attention"]
                y, x = reduce_norm(part, x, self.norm)
                part = (functional.silu(y @ layer["gate"]) * (y @ layer["up"])) @ layer["down"]
                y, x = reduce_norm(part, x, self.norm)
            written.append((y @ self.output).argmax(-1))
        return torch.stack(written[1:], 1)

    def attend(
        self, y: torch.Tensor, layer: dict[str, torch.Tensor], cache: list[torch.Tensor]
    ) -> torch.Tensor:
        """Attention of the PE's heads to all tokens so far."""
        q, k, v = ((y @ layer[name]).view(BATCH, -1, 1, self.head) for name in ("q", "k", "v"))
        old = cache or [k[:, :, :0], v[:, :, :0]]
        cache[:] = [torch.cat([old[0], k], 2), torch.cat([old[1], v], 2)]
        return functional.scaled_dot_product_attention(q, *cache).flatten(1)


def fused_sum(part: torch.Tensor, x: torch.Tensor, weight: torch.Tensor):
    y, total, _ = fused.all_reduce_rmsnorm(part, weight, residual=x, eps=EPS)
    return y, total


def nccl_sum(part: torch.Tensor, x: torch.Tensor, weight: torch.Tensor):
    dist.all_reduce(part)
    return own_sum(part, x, weight)


def own_sum(part: torch.Tensor, x: torch.Tensor, weight: torch.Tensor):
    total = part + x
    return functional.rms_norm(total, total.shape[-1:], weight, EPS), total


torch.set_num_threads(1)  # of each PE
with pyshmem.init() as job, torch.no_grad():
    on_gpu = job.device == "cuda"
    device = f"cuda:{job.gpu}" if on_gpu else "cpu"
    size, steps = ((16, 4096, 128, 32000), 32) if on_gpu else ((2, 48, 4, 50), 8)
    first = torch.arange(BATCH, device=device)
    model = Model(size, job.my_pe, job.n_pes, device)
    ours = model.write(first, steps, fused_sum)
    if on_gpu:
        symmetric.init_process_group("nccl")
        told = "as torch with NCCL writes"
        for name, way in (("pyshmem", fused_sum), ("NCCL", nccl_sum)):
            theirs = model.write(first, steps, way)
            torch.cuda.synchronize()
            pyshmem.barrier_all()
            begin = time.perf_counter()
            model.write(first, steps, way)
            torch.cuda.synchronize()
            us = 1e6 * (time.perf_counter() - begin) / steps
            if job.my_pe == 0:
                print(f"{name}: {us:.0f} us a token", flush=True)
        dist.destroy_process_group()
    else:
        told = "the same as one PE alone writes"
        theirs = Model(size, 0, 1, device).write(first, steps, own_sum)
    assert torch.equal(ours, theirs), (ours, theirs)
    if job.my_pe == 0:
        print(f"{job.n_pes} PEs, {BATCH} sequences of {steps} tokens, {told}: ok", flush=True)
