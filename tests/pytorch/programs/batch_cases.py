# SPDX-License-Identifier: BSD-3-Clause
"""Batch-invariant operations as calls for rows of a pool: what is asked for, and whose bits it has."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch

import pyshmem
import pyshmem.fused as fused
from pyshmem._torch import tensors

ops = torch.ops.pyshmem
DTYPES = (torch.bfloat16, torch.float32, torch.float16)

Counts = tuple[int, ...] | None


class Sizes(NamedTuple):
    """Of the pool and of what its rows meet."""

    pool: int
    hidden: int
    k: int
    columns: int
    heads: tuple[int, int, int]  # of queries, of keys, and their width
    keys: int
    tokens: int  # hidden of experts
    inner: int


#: In the interpreter, and on GPUs: more rows than multiprocessors, and extents that fill tiles or not.
SMALL = Sizes(9, 72, 48, 19, (4, 2, 16), 150, 128, 24)
LARGE = Sizes(160, 6144, 1040, 1001, (8, 2, 128), 1500, 1024, 264)


class Case(NamedTuple):
    """A call for some rows of the pool, and what it has to give.

    Attributes:
        name: the operation's.
        what: dtype and options.
        call: results for this member's rows; more by name: ``rows`` or ``extent``.
        whole: the results for the whole pool.
        given: which rows of a batch this member passes.
        kept: which rows of a batch this member gets.
        takes_rows: whether members may have uneven numbers of them.
        options: more arguments that follow from the batch.
        in_graphs: whether it can be captured.
        alike: whether the results for the whole pool are the same on all members, whichever asks.
    """

    name: str
    what: Any
    call: Callable[..., Sequence[torch.Tensor | None]]
    whole: Sequence[torch.Tensor | None]
    given: Callable[[list[int], Counts], list[int]] = lambda batch, _: batch
    kept: Callable[[list[int], Counts], list[int]] = lambda batch, _: batch
    takes_rows: bool = False
    options: Callable[[list[int]], dict[str, Any]] = lambda _: {}
    in_graphs: bool = True
    alike: bool = False

    def differs(self, got: Sequence[Any], batch: list[int], counts: Counts) -> torch.Tensor:
        """How many results have other bits, on the device."""
        kept = torch.tensor(self.kept(batch, counts), dtype=torch.int64, device=got[0].device)
        wrong = torch.zeros((), dtype=torch.int64, device=got[0].device)
        for one, whole in zip(got, self.whole, strict=True):
            if one is not None:
                mine = one.contiguous().view(torch.uint8)
                wrong += (mine != whole[kept].contiguous().view(torch.uint8)).any()
        return wrong


class Maker:
    """Makes the cases of one member; ``number`` chooses dtypes and options."""

    def __init__(self, job: Any, sizes: Sizes, device: torch.device) -> None:
        self.me, self.n = job.my_pe, job.n_pes
        self.sizes, self.device = sizes, device
        self.pool = torch.arange(sizes.pool, device=device)

    def rows(self, seed: int, *size: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
        made = torch.randn(size, generator=torch.Generator().manual_seed(seed))
        return made.to(dtype).to(self.device)

    def wide(self) -> torch.Tensor:
        """Factors that make sums come close to cancelling, so that another order gives other bits."""
        return torch.logspace(-3, 3, self.sizes.hidden, device=self.device)

    def mine(self, batch: list[int], counts: Counts) -> list[int]:
        """The rows of a batch that are this member's, where members share it."""
        each = counts or fused.share_of_rows(len(batch), self.n)
        return batch[sum(each[: self.me]) : sum(each[: self.me + 1])]

    def norms(self, number: int) -> list[Case]:
        dtype, (pool, hidden) = DTYPES[number % 3], self.sizes[:2]
        norm, quantize = ("rms", "layer")[number % 2], (None, "row", "group")[number % 3]
        x, residual = (
            (self.rows(seed, pool, hidden) * self.wide()).to(dtype) for seed in (self.me, 97)
        )
        weight, bias = self.rows(98, hidden, dtype=dtype), self.rows(99, hidden, dtype=dtype)
        fixed = {"norm": norm, "quantize": quantize, "bias": bias if number % 2 else None}

        def call(index: torch.Tensor) -> Any:
            return fused.all_reduce_rmsnorm(
                x[index], weight, residual=residual[index], batch_invariant=True, **fixed
            )

        whole = call(self.pool)
        return [Case("all_reduce_rmsnorm", (dtype, norm, quantize), call, whole, alike=True)]

    def sums(self, number: int) -> list[Case]:
        dtype, n = DTYPES[number % 3], self.n
        x = (self.rows(self.me, *self.sizes[:2]) * self.wide()).to(dtype)
        boxes = self.symmetric(dtype), self.symmetric(dtype)

        def every(index: torch.Tensor) -> Any:
            return (ops.all_reduce(x[index], copy=True),)

        def share(index: torch.Tensor) -> Any:
            return (ops.reduce_scatter(x[index], copy=True),)

        def even(batch: list[int], _: Counts) -> list[int]:  # as many for each member
            return [row for row in batch for _ in range(n)]

        def kept(batch: list[int], _: Counts) -> list[int]:
            return even(batch, None)[self.me * len(batch) : (self.me + 1) * len(batch)]

        def on_a_stream(index: torch.Tensor) -> Any:
            rows = x[index]
            mine, total = (box[: len(rows)] for box in boxes)
            mine.copy_(rows)
            pyshmem.sum_reduce(total, mine, stream=self.stream())
            return (total.clone(),)

        def share_on_a_stream(index: torch.Tensor) -> Any:
            rows = x[index]
            mine, total = boxes[0][: len(rows)], boxes[1][: len(rows) // n]
            mine.copy_(rows)
            pyshmem.sum_reduce_scatter(total, mine, stream=self.stream())
            return (total.clone(),)

        whole = every(self.pool)
        return [
            Case("all_reduce", dtype, every, whole, alike=True),
            Case("sum_reduce", dtype, on_a_stream, whole),
            Case("reduce_scatter", dtype, share, whole, even, kept),
            Case("sum_reduce_scatter", dtype, share_on_a_stream, whole, even, kept),
        ]

    def symmetric(self, dtype: torch.dtype) -> torch.Tensor:
        """Room on the device heap for all members' rows of twice the pool: batches may repeat rows."""
        rows, hidden = 2 * self.n * self.sizes.pool, self.sizes.hidden
        box = pyshmem.zeros(rows * hidden * dtype.itemsize, np.uint8, heap="device")
        return tensors.over(box).view(dtype).view(rows, hidden)

    def stream(self) -> Any:
        """torch's; 0 is the simulator's that does everything at once."""
        return torch.cuda.current_stream() if self.device.type == "cuda" else 0

    def moves(self, number: int) -> list[Case]:
        dtype, n, pool = DTYPES[number % 3], self.n, self.sizes.pool
        x = self.rows(self.me, pool, self.sizes.columns, dtype=dtype)
        parts = self.rows(self.me, pool, 2 * n, 3 * n, 8, dtype=dtype)  # positions, heads

        def of_all(batch: list[int], _: Counts) -> list[int]:
            return [row + pe * pool for pe in range(n) for row in batch]

        def gather(index: torch.Tensor) -> Any:
            return (fused.low_latency_all_gather(x[index]),)

        def to_all(index: torch.Tensor) -> Any:
            return (fused.all_to_all(torch.cat([x[index]] * n)),)

        def turned(function: Callable[..., torch.Tensor], name: str) -> Case:
            def call(index: torch.Tensor) -> Any:
                return (function(parts[index]),)

            return Case(name, dtype, call, call(self.pool))

        whole = gather(self.pool)
        return [
            Case("low_latency_all_gather", dtype, gather, whole, kept=of_all),
            Case("all_to_all", dtype, to_all, whole, kept=of_all),
            turned(fused.ulysses_to_heads, "ulysses_to_heads"),
            turned(fused.ulysses_to_sequence, "ulysses_to_sequence"),
        ]

    def weights(self, number: int, columns: int, dtype: torch.dtype) -> dict[str, Any]:
        """Arguments of a product that do not depend on the batch."""
        turned = self.rows(50 + self.me, columns, self.sizes.k).to(dtype).t()
        given: dict[str, Any] = {"w": turned if number % 2 else turned.contiguous()}
        if dtype == torch.float8_e4m3fn:
            scale = self.rows(80, columns).abs() + 0.1
            given |= {"scale_w": scale, "out_dtype": torch.bfloat16}
        bias = self.rows(9, columns).to(given.get("out_dtype", dtype))
        given |= {"bias": bias, "activation": ("silu", None, "gelu")[number % 3]}
        return given | {"batch_invariant": True}

    def gathers(self, number: int) -> list[Case]:
        dtype = (torch.bfloat16, torch.float32, torch.float8_e4m3fn)[number % 3]
        me, n, (pool, k, columns) = self.me, self.n, (self.sizes.pool, *self.sizes[2:4])
        x, fixed = self.rows(5, pool * n, k).to(dtype), self.weights(number, columns, dtype)
        scale = self.rows(6, pool * n).abs() + 0.1 if dtype.itemsize == 1 else None

        def call(index: torch.Tensor, rows: Counts = None) -> Any:
            scaled = {} if scale is None else {"scale_x": scale[index]}
            return (fused.all_gather_matmul(_at(x, index), rows=rows, **scaled, **fixed),)

        def kept(
            batch: list[int], counts: Counts
        ) -> list[int]:  # without counts each gives as many
            return batch if counts else [row + pe * pool for pe in range(n) for row in batch]

        def given(batch: list[int], counts: Counts) -> list[int]:
            return self.mine(kept(batch, counts), counts)

        whole = call(self.pool + me * pool)
        return [Case("all_gather_matmul", dtype, call, whole, given, kept, takes_rows=True)]

    def scatters(self, number: int) -> list[Case]:
        dtype = (torch.float32, torch.bfloat16, torch.float8_e4m3fn)[number % 3]
        pool, k, columns = self.sizes.pool, self.sizes.k, self.sizes.columns - 1
        x, fixed = self.rows(self.me, pool, k).to(dtype), self.weights(number, columns, dtype)
        scale = self.rows(6 + self.me, pool).abs() + 0.1 if dtype.itemsize == 1 else None

        def by(function: Callable[..., torch.Tensor]) -> Callable[..., Any]:
            def call(index: torch.Tensor, rows: Counts = None) -> Any:
                scaled = {} if scale is None else {"scale_x": scale[index]}
                return (function(_at(x, index), rows=rows, **scaled, **fixed),)

            return call

        every, share = by(fused.matmul_all_reduce), by(fused.matmul_reduce_scatter)
        whole = every(self.pool)
        return [
            Case("matmul_all_reduce", dtype, every, whole, takes_rows=True, alike=True),
            Case("matmul_reduce_scatter", dtype, share, whole, kept=self.mine, takes_rows=True),
        ]

    def attention(self, number: int) -> list[Case]:
        dtype, pool, keys = DTYPES[number % 3], self.sizes.pool, self.sizes.keys
        heads, kv_heads, width = self.sizes.heads
        q = self.rows(1, pool, heads, width, dtype=dtype)
        k, v = (
            self.rows(seed + self.me, pool, keys, kv_heads, width, dtype=dtype) for seed in (20, 40)
        )
        long = [(37 * row + 29 * self.me) % (keys + 1) for row in range(pool)]
        lengths = torch.tensor(long, device=self.device)

        def call(index: torch.Tensor, extent: int = keys) -> Any:
            shards = (one[index, :extent].contiguous() for one in (k, v))
            given = {"lengths": lengths[index], "batch_invariant": True}
            return (fused.flash_decode(q[index], *shards, **given),)

        def extent(batch: list[int]) -> dict[str, Any]:  # shards as long as this batch needs
            return {"extent": max(1, *(long[row] for row in batch))}

        return [Case("flash_decode", dtype, call, call(self.pool), options=extent, alike=True)]

    def experts(self, number: int) -> list[Case]:
        dtype, n, k = DTYPES[number % 2], self.n, 2
        pool, hidden, inner = self.sizes.pool, self.sizes.tokens, self.sizes.inner
        x = self.rows(7, pool, hidden, dtype=dtype)  # of all members: any of them may ask
        up = self.rows(70 + self.me, 2, hidden, inner, dtype=dtype)
        down = self.rows(80 + self.me, 2, inner, hidden, dtype=dtype)
        drawn = torch.Generator().manual_seed(1)
        ids = torch.stack([torch.randperm(2 * n, generator=drawn)[:k] for _ in range(pool)])
        ids, gates = ids.int().to(self.device), self.rows(90, pool, k).abs()
        options = ({}, {"max_tokens": 2 * pool}, {"quantize": "fp8"})[number % 3]

        def call(index: torch.Tensor) -> Any:
            tokens, handle = fused.expert_dispatch(x[index], ids[index], 2 * n, **options)
            held = fused.group_matmul(tokens, up, handle, batch_invariant=True).relu_()
            y = fused.group_matmul(held, down, handle, by_pair=True, batch_invariant=True)
            return (fused.expert_combine(y, handle, gates[index]),)

        def turned(batch: list[int], _: Counts) -> list[int]:  # members have other batches
            return [(row + self.me) % pool for row in batch[self.me % 2 :] or batch]

        what, fixed = (dtype, options), "max_tokens" in options
        whole = call(self.pool)
        return [
            Case(
                "expert_dispatch, group_matmul, expert_combine",
                what,
                call,
                whole,
                turned,
                turned,
                in_graphs=fixed,
                alike=True,
            )
        ]

    def cases(self, kind: str, number: int) -> list[Case]:
        """Those of a kind of ``KINDS``."""
        made: list[Case] = getattr(self, kind)(number)
        return made


KINDS = ("norms", "sums", "attention", "experts", "gathers", "scatters", "moves")


def _at(x: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
    """``x[index]``, also of FP8, which torch does not index everywhere."""
    return x.view(torch.uint8)[index].view(x.dtype) if x.dtype.itemsize == 1 else x[index]


def place_of(rows: list[int]) -> slice | None:
    """Where rows that follow one another lie in the pool: indexed so, a batch is a view of it."""
    if not rows or rows != list(range(rows[0], rows[-1] + 1)):
        return None
    return slice(rows[0], rows[-1] + 1)


def counts_of(ends: list[int], rows: int) -> tuple[int, ...]:
    """How many rows each member has when a batch is cut at ``ends``."""
    bounds = [0, *sorted(ends), rows]
    return tuple(b - a for a, b in itertools.pairwise(bounds))
