# SPDX-License-Identifier: BSD-3-Clause
"""A transformer block's decode step as one task kernel, beside a CUDA graph of separate kernels.

    python -m pyshmem run -n 2 --device cuda bench/decode_step.py [--tokens 8] [--keys 1024]

Norm, QKV, attention with the new key, projection, all-reduce with residual and norm, gated MLP, and
that again; Llama 8B's sizes over the PEs. Separate are cuBLAS's products, or those of the task kernel
where those are faster, and ``all_reduce_rmsnorm``. A JSON line each: microseconds in a graph on the
slowest PE; results are compared first. With ``--device sim`` at toy size, against float64.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import click
import step_kernels as kernels
import torch

import pyshmem
import pyshmem.fused as fused
import pyshmem.triton as shmem
from pyshmem.bench.torch_clock import TorchClock
from pyshmem.triton import tasks

EPS = 1e-5
BM = 16  # tokens, with padding
OURS = ((), ("qkv",), ("gated",), ("qkv", "gated"))  # products that the task kernel's tiles make


class Sizes(NamedTuple):
    """Of one PE's share of the block; the last six are of tiles."""

    tokens: int
    old: int
    hidden: int
    kv_heads: int
    group: int
    d: int
    ffn: int
    rows: int
    deep: int
    keys: int
    splits: int
    inner: tuple[int, int, int]  # into how many parts the products' inner extents are split
    chunks: int  # of a row, in the first all-reduce

    @property
    def qkv(self) -> int:
        return (self.group + 2) * self.kv_heads * self.d

    @property
    def heads(self) -> int:
        return self.group * self.kv_heads * self.d


def sizes_of(job: Any, tokens: int, keys: int) -> Sizes:
    n = job.n_pes
    if job.device != "cuda":
        return Sizes(2, 64, 32, 1, 2, 16, 32, 16, 16, 16, 2, (2, 2, 2), 2)
    kv_heads = 8 // n
    splits = max(1, min(keys // 64, 2 * tasks.resident_programs() // (tokens * kv_heads)))
    splits = 1 << (splits.bit_length() - 1)
    return Sizes(
        tokens,
        keys,
        4096,
        kv_heads,
        4,
        128,
        14336 // n,
        64,
        128,
        min(
            64, keys // splits
        ),  # two programs a multiprocessor have room for three stages of so many
        splits,
        (4, 4, 4),
        8,
    )


class Block:
    """One PE's weights, cache and activations."""

    def __init__(self, clock: TorchClock, size: Sizes) -> None:
        self.size, s = size, size

        def weight(rows: int, columns: int) -> torch.Tensor:
            return clock.random(rows, columns) * columns**-0.5

        generator = torch.Generator().manual_seed(1)  # what all PEs have
        same = clock.random(1).dtype
        self.x = torch.randn(s.tokens, s.hidden, generator=generator).to(clock.device, same)
        self.gains = [
            (1 + 0.1 * torch.randn(s.hidden, generator=generator)).to(clock.device, same)
            for _ in range(3)
        ]
        self.w_qkv, self.w_out = weight(s.qkv, s.hidden), weight(s.hidden, s.heads)
        self.w_gated, self.w_down = weight(2 * s.ffn, s.hidden), weight(s.hidden, s.ffn)
        room = s.old + 1
        cache = s.tokens, room, s.kv_heads, s.d
        self.keys, self.values = clock.random(*cache), clock.random(*cache)
        tiles = s.tokens * s.kv_heads * s.splits
        self.sums = torch.zeros(tiles * 16 * s.d, device=clock.device)
        self.stats = torch.zeros(tiles * 32, device=clock.device)
        self.counts = torch.zeros(s.tokens * s.kv_heads, dtype=torch.int64, device=clock.device)

    def rows(self, columns: int, dtype: torch.dtype | None = None, parts: int = 1) -> torch.Tensor:
        """Room for padded tokens; 0 where there are none."""
        made = self.x.new_zeros(parts, BM, columns, dtype=dtype or self.x.dtype)
        return made if parts > 1 else made[0]

    def product(self) -> dict[str, int]:
        """Constants of products."""
        s = self.size
        return {"TOKENS": s.tokens, "BM": BM, "BN": s.rows, "BK": s.deep}

    def attention(self, parts: int, height: int) -> dict[str, int]:
        """Constants of ``attend``."""
        s = self.size
        return {
            "OLD": s.old, "ROOM": s.old + 1, "KVH": s.kv_heads, "GROUP": s.group, "D": s.d,
            "SPLITS": s.splits, "PARTS": parts, "BM": height, "KEYS": s.keys,
        }  # fmt: skip


# ---- one kernel ------------------------------------------------------------------------------------


class OneKernel:
    """The block as a task graph; ``ahead`` weights of each of a tile's rows come while it waits."""

    def __init__(self, block: Block, programs: int, ahead: int, options: dict[str, int]) -> None:
        self.block, s = block, block.size
        self.y = [block.rows(s.hidden) for _ in range(3)]
        self.new = [block.rows(s.hidden) for _ in range(2)]
        self.heads, self.inner = block.rows(s.heads), block.rows(s.ffn)
        self.squares = block.rows(s.chunks, torch.float32)
        self.graph = tasks.Graph("decode_step")
        self.ahead = ahead
        channel = shmem.channel(programs, s.hidden // s.chunks * block.x.itemsize)
        before = self.graph.add(
            kernels.norm, tiles=s.tokens, args=(self.y[0], block.x, block.gains[0]),
            constants={"H": s.hidden, "EPS": EPS},
        )  # fmt: skip
        parts, before = self.linear(self.y[0], block.w_qkv, s.inner[0], before)
        before = self.attend(parts, before)
        parts, before = self.linear(self.heads, block.w_out, s.inner[1], before)
        before = self.all_reduce(0, parts, block.x, channel, before)
        before = self.gated(before)
        parts, before = self.linear(self.inner, block.w_down, s.inner[2], before)
        before = self.all_reduce(1, parts, self.new[0], channel, before)
        self.graph.add(
            kernels.norm_chunk, tiles=s.tokens * s.chunks, after=[before],
            args=(self.y[2], self.new[1], self.squares, block.gains[2]),
            constants={"H": s.hidden, "CHUNKS": s.chunks, "EPS": EPS},
        )  # fmt: skip
        self.step = self.graph.build(programs, **options)

    def product(self, parts: Any, y: Any, x: Any, w: torch.Tensor, length: int, before: Any) -> Any:
        (n, k), s = w.shape, self.block.size
        tiles = n // s.rows * (k // length)
        kind = kernels.PARTS if parts is not self.squares else kernels.GATED
        columns = n if parts is not self.squares else n // 2
        # The first product's weights would come in the way of the row that the norm waits for.
        ahead = max(2, 0 if x is self.y[0] else self.ahead)
        return self.graph.add(
            kernels.product, tiles=tiles, after=[before],
            args=(parts, y, self.squares, x, w, columns, k, length, ahead, kind.value),
            ahead=kernels.product_ahead if self.ahead else None,
            constants={**self.block.product(), "CHUNKS": s.chunks, "EPS": EPS},
        )  # fmt: skip

    def linear(self, x: Any, w: torch.Tensor, splits: int, before: Any) -> tuple[Any, Any]:
        (n, k) = w.shape
        parts = self.block.rows(n, torch.float32, splits)
        return parts, self.product(parts, self.inner, x, w, k // splits, before)

    def attend(self, parts: Any, before: Any) -> Any:
        block, s = self.block, self.block.size
        return self.graph.add(
            kernels.attend, tiles=s.tokens * s.kv_heads * s.splits, after=[before],
            ahead=kernels.attend_ahead if self.ahead else None,
            args=(self.heads, block.sums, block.stats, block.counts, parts, block.keys, block.values),
            constants={**block.attention(s.inner[0], BM), "AHEAD": s.old // s.splits},
        )  # fmt: skip

    def all_reduce(self, which: int, parts: Any, residual: Any, channel: Any, before: Any) -> Any:
        s = self.block.size
        given = self.y[which + 1], self.squares, self.new[which], parts, residual
        return self.graph.add(
            kernels.sum_chunk, tiles=s.tokens * s.chunks, after=[before],
            args=(*given, self.block.gains[which + 1], channel),
            constants={"H": s.hidden, "CHUNKS": s.chunks, "SPLITS": s.inner[which + 1], "BM": BM},
        )  # fmt: skip

    def gated(self, before: Any) -> Any:
        w = self.block.w_gated
        return self.product(self.squares, self.inner, self.y[1], w, w.shape[1], before)

    def __call__(self) -> tuple[torch.Tensor, torch.Tensor]:
        self.step()
        tokens = self.block.size.tokens
        return self.y[2][:tokens], self.new[1][:tokens]


# ---- separate kernels ------------------------------------------------------------------------------


class Separate:
    """The block as kernels; ``ours`` names products that are not cuBLAS's: "qkv", "gated"."""

    def __init__(self, block: Block, ours: tuple[str, ...], stages: int) -> None:
        self.block, self.ours, s = block, ours, block.size
        self.options = {"num_warps": 4, "num_stages": stages} if block.x.is_cuda else {}
        self.y = [block.rows(s.hidden) for _ in range(2)]
        self.parts = block.rows(s.qkv, torch.float32, s.inner[0])
        self.heads = block.x.new_empty(s.tokens, s.heads)
        self.inner = block.rows(s.ffn)

    def __call__(self) -> tuple[torch.Tensor, torch.Tensor]:
        block, s = self.block, self.block.size
        y, x = self.y[0][: s.tokens], block.x
        y.copy_(torch.nn.functional.rms_norm(x, (s.hidden,), block.gains[0], EPS))
        self._attend(y)
        y = self.y[1][: s.tokens]
        _, x, _ = fused.all_reduce_rmsnorm(
            self.heads @ block.w_out.t(), block.gains[1], residual=x, eps=EPS, out=y
        )
        self._gated(y)
        down = self.inner[: s.tokens] @ block.w_down.t()
        y, x, _ = fused.all_reduce_rmsnorm(down, block.gains[2], residual=x, eps=EPS)
        return y, x

    def _attend(self, y: torch.Tensor) -> None:
        block, s = self.block, self.block.size
        if "qkv" in self.ours:
            kernels.linear_kernel[(s.qkv // s.rows * s.inner[0],)](
                self.parts, self.y[0], block.w_qkv, s.qkv, s.hidden, s.hidden // s.inner[0],
                **block.product(), **self.options,
            )  # fmt: skip
            parts, constants = self.parts, block.attention(s.inner[0], BM)
        else:
            parts, constants = y @ block.w_qkv.t(), block.attention(1, s.tokens)
        kernels.attend_kernel[(s.tokens * s.kv_heads * s.splits,)](
            self.heads, block.sums, block.stats, block.counts, parts, block.keys, block.values,
            **constants, **self.options,
        )  # fmt: skip

    def _gated(self, y: torch.Tensor) -> None:
        block, s = self.block, self.block.size
        if "gated" in self.ours:
            kernels.gated_kernel[(2 * s.ffn // s.rows,)](
                self.inner, self.y[1], block.w_gated, s.ffn, s.hidden, **block.product(), **self.options,
            )  # fmt: skip
        else:
            both, width = y @ block.w_gated.t(), 32 if s.ffn % 512 else 512
            kernels.silu_pairs[(-(-s.tokens * s.ffn // width),)](
                self.inner, both, N=s.ffn, BN=s.rows, B=width
            )


# ---- comparison ------------------------------------------------------------------------------------


def exact(block: Block) -> tuple[torch.Tensor, torch.Tensor]:
    """The block in float64, of all PEs' weights."""
    s = block.size

    def norm(x: torch.Tensor, which: int) -> torch.Tensor:
        return torch.nn.functional.rms_norm(x, (s.hidden,), block.gains[which].double(), EPS)

    def summed(x: torch.Tensor) -> torch.Tensor:
        every = fused.low_latency_all_gather(x[None].contiguous())
        return every.sum(0)

    x = block.x.double()
    qkv = (norm(x, 0) @ block.w_qkv.double().t()).view(s.tokens, -1, s.d)
    n_heads = s.group * s.kv_heads
    q, new = qkv[:, :n_heads], (qkv[:, n_heads : -s.kv_heads], qkv[:, -s.kv_heads :])
    k, v = (
        torch.cat([old[:, : s.old].double(), one[:, None]], 1).repeat_interleave(s.group, 2)
        for old, one in zip((block.keys, block.values), new, strict=True)
    )
    scores = torch.einsum("bhd,bkhd->bhk", q, k) * s.d**-0.5
    heads = torch.einsum("bhk,bkhd->bhd", scores.softmax(-1), v).flatten(1)
    x = x + summed(heads @ block.w_out.double().t())
    both = (norm(x, 1) @ block.w_gated.double().t()).view(s.tokens, -1, 2, s.rows // 2)
    inner = (torch.nn.functional.silu(both[:, :, 0]) * both[:, :, 1]).flatten(1)
    x = x + summed(inner @ block.w_down.double().t())
    return norm(x, 2), x


def compare(block: Block, calls: dict[str, Any]) -> float:
    """The largest difference from float64, over that tensor's largest element; raises if it is large."""
    wanted, worst = exact(block), 0.0
    for name, call in calls.items():
        for _ in range(2):  # what one call leaves must not disturb the next
            for got, right in zip(call(), wanted, strict=True):
                error = float((got.double() - right).abs().max() / right.abs().max())
                worst = max(worst, error)
                if not error < (0.03 if got.dtype == torch.bfloat16 else 1e-4):
                    raise AssertionError(f"{name} is off by {error}")
    return worst


@click.command()
@click.option("--tokens", default="8", help="Sequences, 16 at most; several with commas between.")
@click.option("--keys", default=1024, help="Keys of each; a power of two.")
@click.option("--ahead", default="512,0", help="Weights of a row prefetched, with commas between.")
@click.option("--stages", default=4, help="Of the products' pipelines.")
@click.option("--programs", default=2, help="A multiprocessor, of the task kernel.")
@click.option("--warps", default=4, help="Of its programs.")
def main(tokens: str, keys: int, ahead: str, stages: int, programs: int, warps: int) -> None:
    """Compare, then measure, both."""
    with pyshmem.init() as job:
        clock = TorchClock(job)
        for count in map(int, tokens.split(",")):
            size = sizes_of(job, count, keys)
            torch.manual_seed(3 + job.my_pe)
            block = Block(clock, size)
            calls: dict[str, Any] = {}
            for ours in OURS if clock.on_gpu else (OURS[0], OURS[-1]):
                name = f"graph of kernels, own products: {'+'.join(ours) or 'none'}"
                calls[name] = Separate(block, ours, stages)
            for first in map(int, ahead.split(",")) if clock.on_gpu else (64,):
                name = f"task kernel, {programs} x {warps} warps an SM, {first} ahead"
                options = {"num_warps": warps, "num_stages": stages}
                many = programs * tasks.resident_programs()
                calls[name] = OneKernel(block, many, first, options)
            report(job, clock, block, calls)


def report(job: Any, clock: TorchClock, block: Block, calls: dict[str, Any]) -> None:
    """A line for each way, and one for the best of both kinds."""
    error, times = compare(block, calls), {}
    for name, call in calls.items():
        times[name] = round(clock.slowest(clock.us(call, graph=True)), 2)
        row = {"op": "decode_step", "how": name, "tokens": block.size.tokens, "keys": block.size.old,
               "us_graph": times[name], "pes": job.n_pes}  # fmt: skip
        if job.my_pe == 0:
            print(json.dumps(row), flush=True)
    best = [min(us for name, us in times.items() if name[0] == kind) for kind in "tg"]
    if job.my_pe == 0:
        ratio = {"op": "decode_step", "tokens": block.size.tokens, "error": error,
                 "ratio": round(best[0] / best[1], 3)}  # fmt: skip
        print(json.dumps(ratio), flush=True)


if __name__ == "__main__":
    main()
