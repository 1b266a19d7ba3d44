# SPDX-License-Identifier: BSD-3-Clause
"""pyshmem.fused: the bits of a row do not depend on the batch, by batches that hypothesis draws.

    batch_invariant.py EXAMPLES [all]

``all``: each operation with all its dtypes and options; else with one kind.

A batch is rows of a pool, in any order, some of them more than once. Each row of a result has the bits
that it has in a call for the whole pool. Nothing is raised while hypothesis draws, for all members have
to make the same calls: what differs is collected.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import Phase, settings
from hypothesis import given as drawn_from
from hypothesis import strategies as st

import pyshmem
import pyshmem.fused as fused
import pyshmem.interop.torch as symmetric
from pyshmem.fused._shared.batch_invariant import INVARIANT
from pyshmem.fused._shared.workspace import device_heap_is_p2p, workspace
from pyshmem.fused.all_reduce_norm import launch as norm_launch

ops = torch.ops.pyshmem
POOL, HIDDEN = 9, 72
DTYPES = (torch.bfloat16, torch.float32, torch.float16)
#: Rows that are close to cancelling, so that another order of a sum gives other bits.
WIDE = torch.logspace(-3, 3, HIDDEN)

EVERYTHING = "all" in sys.argv
wrong: list[str] = []
Property = Callable[[Any], None]


def rows(seed: int, *size: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(size, generator=torch.Generator().manual_seed(seed)).to(dtype)


def same(name: str, got: torch.Tensor, wanted: torch.Tensor, what: Any) -> None:
    got, wanted = (one.contiguous().view(torch.uint8) for one in (got, wanted))
    if not torch.equal(got, wanted):
        wrong.append(f"{name}: {what}")


def batches() -> Any:
    """Which rows, in which order."""
    return st.lists(st.integers(0, POOL - 1), min_size=1, max_size=POOL + 4)


@st.composite
def shares(draw: Any) -> tuple[list[int], tuple[int, ...] | None]:
    """A batch, and how many rows each member has: None is as the operation has it."""
    batch = draw(batches())
    if draw(st.booleans()):
        return batch, None
    ends = sorted(draw(st.integers(0, len(batch))) for _ in range(n - 1))
    bounds = [0, *ends, len(batch)]
    return batch, tuple(b - a for a, b in itertools.pairwise(bounds))


# ---- operations: each gives a property of what is drawn ----------------------------------------------


def norms(number: int) -> Property:
    dtype = DTYPES[number % 3]
    norm, quantize = ("rms", "layer")[number % 2], (None, "row", "group")[number % 3]
    x, residual = ((rows(seed, POOL, HIDDEN) * WIDE).to(dtype) for seed in (me, 97))
    weight, bias = rows(98, HIDDEN, dtype=dtype), rows(99, HIDDEN, dtype=dtype)
    fixed = {"norm": norm, "quantize": quantize, "bias": bias if number % 2 else None}

    def call(batch: list[int]) -> Any:
        return fused.all_reduce_rmsnorm(
            x[batch], weight, residual=residual[batch], batch_invariant=True, **fixed
        )

    whole = call(list(range(POOL)))

    def holds(batch: list[int]) -> None:
        for got, wanted in zip(call(batch), whole, strict=True):
            if got is not None:
                same("all_reduce_rmsnorm", got, wanted[batch], (dtype, norm, quantize, batch))

    return holds


def sums(number: int) -> Property:
    dtype = DTYPES[number % 3]
    x = (rows(me, POOL, HIDDEN) * WIDE).to(dtype)
    whole = ops.all_reduce(x, copy=True)

    def holds(batch: list[int]) -> None:
        same("all_reduce", ops.all_reduce(x[batch], copy=True), whole[batch], batch)
        even = [row for row in batch for _ in range(n)]  # as many for each member
        mine = even[me * len(batch) : (me + 1) * len(batch)]
        same("reduce_scatter", ops.reduce_scatter(x[even], copy=True), whole[mine], even)

    return holds


def weights(number: int, k: int, columns: int, dtype: torch.dtype) -> dict[str, Any]:
    """Arguments of a product that do not depend on the batch."""
    turned = rows(50 + me, columns, k).to(dtype).t()
    bias = rows(9, columns)
    given: dict[str, Any] = {"w": turned if number % 2 else turned.contiguous()}
    if dtype == torch.float8_e4m3fn:
        given |= {"scale_w": rows(80, columns).abs() + 0.1, "out_dtype": torch.bfloat16}
    kind = given.get("out_dtype", dtype)
    given |= {"bias": bias.to(kind), "activation": ("silu", None, "gelu")[number % 3]}
    return given | {"batch_invariant": True}


def gathers(number: int) -> Property:
    dtype = (torch.bfloat16, torch.float32, torch.float8_e4m3fn)[number % 3]
    k, columns = 48, 19
    x, fixed = rows(5, POOL * n, k).to(dtype), weights(number, k, columns, dtype)
    scale = rows(6, POOL * n).abs() + 0.1 if dtype.itemsize == 1 else None

    def call(mine: list[int], counts: Any) -> torch.Tensor:
        scaled = {} if scale is None else {"scale_x": scale[mine]}
        return fused.all_gather_matmul(x[mine], rows=counts, **scaled, **fixed)

    whole = call(list(range(me * POOL, (me + 1) * POOL)), None)

    def holds(drawn: tuple[list[int], tuple[int, ...] | None]) -> None:
        batch, counts = drawn
        if counts is None:  # each member takes as many
            batch = [row + pe * POOL for pe in range(n) for row in batch]
            first, count = me * len(batch) // n, len(batch) // n
        else:
            first, count = sum(counts[:me]), counts[me]
        got = call(batch[first : first + count], counts)
        same("all_gather_matmul", got, whole[batch], (dtype, batch, counts))

    return holds


def scatters(number: int) -> Property:
    dtype = (torch.float32, torch.bfloat16, torch.float8_e4m3fn)[number % 3]
    k, columns = 48, 18
    x, fixed = rows(me, POOL, k).to(dtype), weights(number, k, columns, dtype)
    scale = rows(6 + me, POOL).abs() + 0.1 if dtype.itemsize == 1 else None

    def scaled(batch: list[int]) -> dict[str, Any]:
        return {} if scale is None else {"scale_x": scale[batch]}

    pool = list(range(POOL))
    whole = fused.matmul_all_reduce(x, **scaled(pool), **fixed)

    def holds(drawn: tuple[list[int], tuple[int, ...] | None]) -> None:
        batch, counts = drawn
        given = {"rows": counts, **scaled(batch), **fixed}
        got = fused.matmul_all_reduce(x[batch], **given)
        same("matmul_all_reduce", got, whole[batch], (dtype, batch, counts))
        each = counts or fused.share_of_rows(len(batch), n)
        mine = batch[sum(each[:me]) : sum(each[: me + 1])]
        got = fused.matmul_reduce_scatter(x[batch], **given)
        same("matmul_reduce_scatter", got, whole[mine], (dtype, batch, counts))

    return holds


def attention(number: int) -> Property:
    dtype = DTYPES[number % 3]
    heads, kv_heads, d, keys = 4, 2, 16, 150
    q = rows(1, POOL, heads, d, dtype=dtype)
    k, v = (rows(seed + me, POOL, keys, kv_heads, d, dtype=dtype) for seed in (20, 40))
    lengths = torch.tensor([(37 * row + 29 * me) % (keys + 1) for row in range(POOL)])

    def call(batch: list[int], extent: int) -> torch.Tensor:
        shards = (one[batch, :extent].contiguous() for one in (k, v))
        return fused.flash_decode(q[batch], *shards, lengths=lengths[batch], batch_invariant=True)

    whole = call(list(range(POOL)), keys)

    def holds(batch: list[int]) -> None:
        longest = int(lengths[batch].max())  # shards as long as this batch needs
        same("flash_decode", call(batch, max(longest, 1)), whole[batch], (dtype, batch))

    return holds


def experts(number: int) -> Property:
    dtype, hidden, k = DTYPES[number % 2], 128, 2
    x, up = rows(me, POOL, hidden, dtype=dtype), rows(70 + me, 2, hidden, 24, dtype=dtype)
    down = rows(80 + me, 2, 24, hidden, dtype=dtype)
    ids = torch.stack([torch.randperm(2 * n)[:k] for _ in range(POOL)]).int()
    gates = rows(90 + me, POOL, k).abs()
    options = ({}, {"max_tokens": POOL + 4}, {"quantize": "fp8"})[number % 3]

    def call(batch: list[int]) -> torch.Tensor:
        tokens, handle = fused.expert_dispatch(x[batch], ids[batch], 2 * n, **options)
        inner = fused.group_matmul(tokens, up, handle, batch_invariant=True).relu_()
        y = fused.group_matmul(inner, down, handle, by_pair=True, batch_invariant=True)
        return fused.expert_combine(y, handle, gates[batch])

    whole = call(list(range(POOL)))

    def holds(batch: list[int]) -> None:
        turned = [
            (row + me) % POOL for row in batch[me % 2 :] or batch
        ]  # members have other batches
        same("expert_combine", call(turned), whole[turned], (dtype, options, turned))

    return holds


PROPERTIES = {
    norms: batches, sums: batches, attention: batches, experts: batches, gathers: shares,
    scatters: shares,
}  # fmt: skip


def drawn_batches(examples: int, everything: bool) -> None:
    for place, (make, drawn) in enumerate(PROPERTIES.items()):
        for number in range(3) if everything else (place % 3,):
            holds = make(number)
            settings(
                max_examples=examples, derandomize=True, database=None, deadline=None,
                phases=(Phase.generate,),
            )(drawn_from(drawn())(holds))()  # fmt: skip


# ---- what the interpreter does not show ------------------------------------------------------------


def launches_have_the_same_constants() -> None:
    """Threads of a program say in which order it adds up a row."""
    space, seen = workspace(pyshmem.TEAM_WORLD), {}
    near = ("pull", "push") if device_heap_is_p2p() else ()
    for algorithm in ("one_shot", "two_shot", *near):
        for invariant in (True, False):
            kinds = set()
            for tokens in (1, 2, 4, 7, 200):
                x = torch.empty(tokens, 4096, dtype=torch.bfloat16)
                request = norm_launch.Request(x, x[0], None, None, 1e-6, "rms", None, x, x)
                plan = norm_launch._plan(space, request, algorithm, invariant)
                kinds.add((plan.kernel.__name__, *sorted(map(str, plan.constants.items()))))
            seen[algorithm, invariant] = len(kinds)
    assert all(count == 1 for (_, invariant), count in seen.items() if invariant), seen
    assert n == 1 or not near or seen["pull", False] > 1, seen


def refusals() -> None:
    x, w = rows(1, 4, 16), rows(2, 16, 8)
    for call in (fused.all_gather_matmul, fused.matmul_reduce_scatter, fused.matmul_all_reduce):
        with pytest.raises(ValueError, match="leave algorithm='copy_engine' out"):
            call(x, w, algorithm="copy_engine", batch_invariant=True)
    with pytest.raises(ValueError, match="leave algorithm='pull' out"):
        fused.all_reduce_rmsnorm(x, x[0], algorithm="pull", batch_invariant=True)
    odd = torch.zeros(4 * 16 + 1)[1:].view(4, 16)
    for name, given in (("x", (odd, w[:, 0].contiguous())), ("residual", (x, x[0], odd))):
        with pytest.raises(ValueError, match=f"{name} begins at an address .* pass {name}.clone"):
            fused.all_reduce_rmsnorm(*given[:2], residual=(*given, None)[2], batch_invariant=True)


def operators(compiled: bool) -> None:
    """The option goes through operators, which compilers see."""
    x, w = rows(me, 5, 16), rows(3, 16, 8)
    weight = rows(4, 16)

    def both(x: torch.Tensor) -> Any:
        y = fused.all_reduce_rmsnorm(x, weight, batch_invariant=True).output
        return y, fused.matmul_all_reduce(y, w, batch_invariant=True)

    if compiled:
        for got, wanted in zip(torch.compile(both, backend="eager")(x), both(x), strict=True):
            same("torch.compile", got, wanted, "")
    found = ops.matmul_all_reduce(x, w, algorithm=INVARIANT)
    same("operator", found, fused.matmul_all_reduce(x, w, batch_invariant=True), "")


with pyshmem.init() as job:
    me, n = job.my_pe, job.n_pes
    torch.manual_seed(1)
    symmetric.register_team()
    drawn_batches(int(sys.argv[1]), EVERYTHING)
    launches_have_the_same_constants()
    refusals()
    operators(EVERYTHING)
    assert not wrong, wrong
print("ok", flush=True)
