# SPDX-License-Identifier: BSD-3-Clause
"""pyshmem.fused: the bits of a row do not depend on the batch, by batches that hypothesis draws.

    batch_invariant.py EXAMPLES [all]

``all``: each operation with all its dtypes and options; else with one kind.

A batch is rows of a pool, in any order, some of them more than once, or a view of some. Each row of a
result has the bits that it has in a call for the whole pool. Nothing is raised while hypothesis draws,
for all members have to make the same calls: what differs is collected.
"""

from __future__ import annotations

import hashlib
import sys
from typing import Any

import pytest
import torch
from batch_cases import KINDS, SMALL, Case, Maker, counts_of, place_of
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
EVERYTHING = "all" in sys.argv
wrong: list[str] = []


def same(name: str, got: torch.Tensor, wanted: torch.Tensor, what: Any) -> None:
    got, wanted = (one.contiguous().view(torch.uint8) for one in (got, wanted))
    if not torch.equal(got, wanted):
        wrong.append(f"{name}: {what}")


@st.composite
def batches(draw: Any, uneven: bool) -> tuple[list[int], tuple[int, ...] | None]:
    """Which rows, in which order, and how many rows each member has: None is as the operation has it."""
    some = st.lists(st.integers(0, SMALL.pool - 1), min_size=1, max_size=SMALL.pool + 4)
    if draw(st.booleans()):  # as they lie in the pool
        first = draw(st.integers(0, SMALL.pool - 1))
        batch = list(range(first, draw(st.integers(first, SMALL.pool - 1)) + 1))
    else:
        batch = draw(some)
    if not uneven or draw(st.booleans()):
        return batch, None
    return batch, counts_of([draw(st.integers(0, len(batch))) for _ in range(n - 1)], len(batch))


def holds_for(cases: list[Case]) -> Any:
    def holds(drawn: tuple[list[int], tuple[int, ...] | None]) -> None:
        batch, counts = drawn
        for case in cases:
            rows = case.given(batch, counts)
            index = place_of(rows) or torch.tensor(rows, dtype=torch.int64)
            options = {"rows": counts} if case.takes_rows else case.options(batch)
            if case.differs(case.call(index, **options), batch, counts):
                wrong.append(f"{case.name}: {case.what}, {batch}, {counts}")

    return holds


def same_on_all(cases: list[Case]) -> None:
    """Who asks does not matter, where all members get the same rows."""
    for case in cases:
        if case.alike:
            every = hashlib.sha256()
            for one in case.whole:
                if one is not None:
                    every.update(one.contiguous().view(torch.uint8).numpy().tobytes())
            said = f"{case.name}: {case.what}: {every.hexdigest()}"
            workspace(pyshmem.TEAM_WORLD).must_agree(said)


def drawn_batches(examples: int, everything: bool) -> None:
    maker = Maker(job, SMALL, torch.device("cpu"))
    for place, kind in enumerate(KINDS):
        for number in range(3) if everything else (place % 3,):
            cases = maker.cases(kind, number)
            same_on_all(cases)
            settings(
                max_examples=examples, derandomize=True, database=None, deadline=None,
                phases=(Phase.generate,),
            )(drawn_from(batches(cases[0].takes_rows))(holds_for(cases)))()  # fmt: skip


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
    x, w = torch.ones(4, 16), torch.ones(16, 8)
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
    x, w, weight = torch.randn(5, 16), torch.ones(16, 8), torch.ones(16)

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
