# SPDX-License-Identifier: BSD-3-Clause
"""pyshmem.fused: all-to-all, low-latency all-gather, Ulysses: results, derivatives, refusals."""

from __future__ import annotations

import os

import numpy as np
import pytest
import torch

import pyshmem
import pyshmem.fused as fused

ops = torch.ops.pyshmem


def given(rank: int, *size: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    values = torch.arange(torch.Size(size).numel(), dtype=torch.float32).view(size) % 61
    return (values + 64 * rank).to(dtype)


def refused(kind: type[Exception], message: str, call, *arguments, **named) -> None:
    with pytest.raises(kind) as raised:
        call(*arguments, **named)
    assert message in str(raised.value), raised.value


def x_on_gpu() -> bool:
    return torch.get_default_device().type == "cuda"


def equal_parts(me: int, n: int, many: int) -> None:
    for algorithm, rows, width, dtype in (
        ("ll", 3, 5, torch.float32), ("simple", 3, 5, torch.bfloat16), (None, 1, 3, torch.uint8),
        ("simple", many, 3, torch.float16), ("simple", 1, 1, torch.uint8), (None, 2, 900, torch.float64),
        (None, 0, 4, torch.float32), ("ll", 2, 1, torch.bfloat16),
    ):  # fmt: skip
        every = [given(r, n * rows, width, dtype=dtype) for r in range(n)]
        want = torch.cat([one.view(n, rows, width)[me] for one in every])
        got = fused.all_to_all(every[me], algorithm=algorithm)
        assert torch.equal(got, want), (algorithm, rows, width, dtype)
        gathered = fused.low_latency_all_gather(every[me], algorithm=algorithm)
        assert torch.equal(gathered, torch.cat(every)), (algorithm, rows, width, dtype)
    out = torch.empty(n, 7)
    assert fused.all_to_all(given(me, n, 7), out=out) is out
    assert torch.equal(out, torch.stack([given(r, n, 7)[me] for r in range(n)]))
    if x_on_gpu():
        return
    array = fused.low_latency_all_gather(np.full((1, 2), me, np.float32))
    assert isinstance(array, np.ndarray)
    assert array[:, 0].tolist() == list(range(n))


def odd_addresses(me: int, n: int) -> None:
    """Bytes that begin at an odd address on one PE alone, as rows of a table may."""
    for size in (6, 64, 400):
        every = [given(r, n * size, dtype=torch.uint8) for r in range(n)]
        x, place = (
            torch.empty(n * size + 1, dtype=torch.uint8)[me == 0 :][: n * size] for _ in "xy"
        )
        x.copy_(every[me])
        want = torch.cat([one.view(n, size)[me] for one in every])
        for algorithm in ("ll", "simple"):
            assert torch.equal(fused.all_to_all(x, algorithm=algorithm), want), (size, algorithm)
            assert fused.all_to_all(every[me], out=place, algorithm=algorithm) is place
            assert torch.equal(place, want), (size, algorithm)
            gathered = fused.low_latency_all_gather(x[:size], algorithm=algorithm)
            assert torch.equal(gathered, torch.cat([one[:size] for one in every])), (
                size,
                algorithm,
            )


def uneven_parts(me: int, n: int) -> None:
    counts = np.array(
        [[(3 * a + 5 * b) % 7 * (a != b or a == 1) for b in range(n)] for a in range(n)]
    )
    if n > 1:
        counts[0, 1] = 200  # in several slots
    for width in (1, 6):
        every = [given(r, int(counts[r].sum()), width) for r in range(n)]
        pieces = [torch.split(every[r], counts[r].tolist())[me] for r in range(n)]
        splits = {"output_splits": counts[:, me].tolist(), "input_splits": counts[me].tolist()}
        assert torch.equal(fused.all_to_all(every[me], **splits), torch.cat(pieces))
        x = every[me].clone().requires_grad_()
        fused.all_to_all(x, **splits).mul(me + 1).sum().backward()
        receivers = torch.repeat_interleave(torch.arange(1.0, n + 1), torch.tensor(counts[me]))
        assert torch.equal(x.grad, receivers[:, None].expand(-1, width))


def ulysses(me: int, n: int) -> None:
    for batch, local, heads, d, dtype in (
        (1, 3, 2, 4, torch.bfloat16),
        (2, 5, 1, 3, torch.float32),
    ):
        whole = given(0, batch, local * n, heads * n, d, dtype=dtype)
        mine = whole[:, local * me : local * (me + 1)].contiguous()
        turned = fused.ulysses_to_heads(mine)
        assert torch.equal(turned, whole[:, :, heads * me : heads * (me + 1)])
        assert torch.equal(fused.ulysses_to_sequence(turned), mine)
    x = mine.float().requires_grad_()
    weight = given(me, *turned.shape)
    (fused.ulysses_to_heads(x) * weight).sum().backward()
    assert torch.equal(x.grad, fused.ulysses_to_sequence(weight))
    out = torch.empty_like(mine)
    assert torch.equal(fused.ulysses_to_sequence(turned, out=out), mine)


def derivatives(me: int, n: int) -> None:
    x, weights = given(me, 2 * n, 3), [given(r, 2 * n * n, 3) for r in range(n)]
    x.requires_grad_()
    (fused.low_latency_all_gather(x) * weights[me]).sum().backward()
    owed = sum(weight.view(n, 2 * n, 3)[me] for weight in weights)
    assert torch.equal(x.grad, owed)

    for size in ((0, 3), (2, 0)):
        nothing = torch.empty(size, requires_grad=True)
        fused.low_latency_all_gather(nothing).sum().backward()
        assert nothing.grad.shape == size

    def model(x: torch.Tensor) -> torch.Tensor:
        return ops.fused_all_to_all(ops.fused_all_to_all(x) * 2) + x

    if n == 1:
        graph = torch.compile(model, fullgraph=True, backend="aot_eager")
        assert torch.equal(graph(x), 3 * x)
        grad, flat = given(0, 2, 3).requires_grad_(), given(0, 1, 4, 2, 3).requires_grad_()
        torch.library.opcheck(ops.fused_all_to_all.default, (grad,))
        torch.library.opcheck(ops.fused_all_to_all.default, (grad, [2], [2]))
        torch.library.opcheck(ops.low_latency_all_gather.default, (grad,))
        torch.library.opcheck(ops.ulysses_to_heads.default, (flat,))
        torch.library.opcheck(ops.ulysses_to_sequence.default, (flat,))


def refusals(me: int, n: int) -> None:
    x = given(me, n, 4)
    refused(ValueError, "both of output_splits", fused.all_to_all, x, input_splits=[n])
    refused(ValueError, "sum", fused.all_to_all, x, input_splits=[9] * n, output_splits=[9] * n)
    refused(ValueError, "members", fused.all_to_all, x, input_splits=[n] * 9, output_splits=[9])
    refused(ValueError, "not contiguous", fused.all_to_all, given(me, 4, 2 * n).t())
    refused(ValueError, "no algorithm 'nvls'", fused.all_to_all, x, algorithm="nvls")
    refused(ValueError, "room for", fused.all_to_all, torch.zeros(n, 99999), algorithm="ll")
    refused(TypeError, "list", fused.all_to_all, [1.0])
    refused(ValueError, "out has size", fused.all_to_all, x, out=torch.empty(1, 99))
    refused(
        RuntimeError, "requires grad", fused.all_to_all, x.requires_grad_(), out=torch.empty(n, 4)
    )
    if n > 1:
        refused(ValueError, "multiple", fused.all_to_all, torch.zeros(n + 1, 2))
        refused(ValueError, "split over", fused.ulysses_to_heads, torch.zeros(1, 2, n + 1, 2))
    if n > 1 and os.environ.get("PYSHMEM_CHECK") == "1":
        splits = [[2] * n, [2 + me] + [1] * (n - 1)]
        wrong = {"output_splits": splits[0], "input_splits": splits[1]}
        rows = torch.zeros(sum(splits[1]), 2)
        refused(pyshmem.MismatchError, "output_splits", fused.all_to_all, rows, **wrong)
        refused(pyshmem.MismatchError, "all_to_all", fused.all_to_all, torch.zeros(n, 2 + me))


def check(me: int, n: int, few: bool) -> None:
    equal_parts(me, n, 40 if few else 400)
    odd_addresses(me, n)
    uneven_parts(me, n)
    ulysses(me, n)
    derivatives(me, n)
    refusals(me, n)
    if n == 3:
        pair = pyshmem.TEAM_WORLD.split_strided(0, 2, 2)  # PEs 0 and 2
        alone = pyshmem.TEAM_WORLD.split_strided(1, 1, 1)
        team = alone if me == 1 else pair
        for algorithm in (None, "ll", "simple"):
            got = fused.low_latency_all_gather(torch.full((1,), me), team=team, algorithm=algorithm)
            assert got.tolist() == ([1] if me == 1 else [0, 2])
