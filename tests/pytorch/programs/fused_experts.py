# SPDX-License-Identifier: BSD-3-Clause
"""pyshmem.fused: dispatch to experts and combine, against float64 on one PE."""

from __future__ import annotations

import itertools
import os

import pytest
import torch

import pyshmem
import pyshmem.fused as fused


def refused(kind: type[Exception], message: str, call, *arguments, **named) -> None:
    with pytest.raises(kind) as raised:
        call(*arguments, **named)
    assert message in str(raised.value), raised.value


def given(seed: int, tokens: int, hidden: int, k: int, experts: int, dtype: torch.dtype):
    """A PE's tokens, experts and weights: every PE can make those of all."""
    source = torch.Generator().manual_seed(seed)
    x = torch.randn(tokens, hidden, generator=source, device="cpu").to(dtype)
    ids = torch.randint(-1, experts, (tokens, k), generator=source, device="cpu")
    weights = torch.rand(tokens, k, generator=source, device="cpu")
    return tuple(one.to(torch.get_default_device()) for one in (x, ids, weights))


def pairs_of(all_ids: list[torch.Tensor], first: int, local: int) -> list[list[tuple[int, int]]]:
    """For each of a member's experts its pairs: PE and row of the token."""
    every = [[] for _ in range(local)]
    for pe, ids in enumerate(all_ids):
        for t, row in enumerate(ids.tolist()):
            for expert in row:
                if first <= expert < first + local:
                    every[expert - first].append((pe, t))
    return every


def by_experts(handle, rows: torch.Tensor, first: int) -> torch.Tensor:
    """What the caller's experts do: each multiplies by another number."""
    y = torch.zeros(handle.rows.shape[0], rows.shape[1], dtype=rows.dtype)
    offsets = handle.offsets.tolist()
    for e, (lo, hi) in enumerate(itertools.pairwise(offsets)):
        y[lo:hi] = rows[lo:hi] * (first + e + 1)
    return y


def round_trip(me: int, n: int, sizes: list[int], hidden: int, k: int, local: int, dtype, **named):
    """Dispatch, work, combine; results against a reference. ``ids`` may be changed by ``change``."""
    change, again = named.pop("change", lambda ids: ids), named.pop("again", False)
    every = [given(100 + pe, sizes[pe], hidden, k, n * local, dtype) for pe in range(n)]
    all_ids = [change(ids) for _, ids, _ in every]
    x, _, weights = every[me]
    first = me * local
    tokens, handle = fused.expert_dispatch(x, all_ids[me], n * local, **named)
    pairs = pairs_of(all_ids, first, local)
    assert handle.offsets.tolist() == [sum(map(len, pairs[:e])) for e in range(local + 1)]
    assert handle.counts.tolist() == list(map(len, pairs))
    total, flat = sum(map(len, pairs)), [pair for some in pairs for pair in some]
    rows = handle.by_expert(tokens)
    wanted = torch.stack([every[pe][0][t] for pe, t in flat]) if flat else x.new_empty(0, hidden)
    if named.get("quantize"):
        assert tokens.dtype == torch.float8_e4m3fn
        groups = wanted.float().unflatten(1, (-1, 128)).abs().amax(2, keepdim=True)
        difference = (rows[:total].float() - wanted.float()).unflatten(1, (-1, 128)).abs()
        assert (difference <= groups / 27.9).all(), (difference / groups).max()  # half a step
        if len(flat):
            scales = groups[:, :, 0].cpu() / 448  # on a GPU torch multiplies by the inverse
            assert torch.equal(handle.scales[handle.rows[:total]].cpu(), scales)
        rows = rows.to(dtype)
    else:
        assert torch.equal(rows[:total], wanted)
    if handle.mode == "throughput":
        assert tokens.shape[0] == len(set(flat)), "a token comes once, for all its experts here"
    y = by_experts(handle, rows, first)
    back = fused.expert_combine(y, handle, weights)
    if again:
        assert torch.equal(back, fused.expert_combine(y, handle, weights)), "the same, bit by bit"
    made = every[me][0].double()
    factor = torch.where(all_ids[me] >= 0, all_ids[me] + 1, 0) * weights.double()
    exact = made * factor.sum(1, keepdim=True)
    scale = (made.abs() * factor.sum(1, keepdim=True)).clamp(min=1e-3)
    eps = 2**-3 if named.get("quantize") else 3 * torch.finfo(dtype).eps
    if named.get("quantize"):
        scale = factor.sum(1, keepdim=True) * made.abs().amax(1, keepdim=True) + 1e-3
    assert ((back.double() - exact).abs() <= eps * scale).all()
    return back


def same_bits(me: int, n: int) -> None:
    """Sums in PE order, in float32: an exact order of additions, computed here too."""
    every = [given(7 + pe, 5, 16, 3, 2 * n, torch.float32) for pe in range(n)]
    x, ids, weights = every[me]
    tokens, handle = fused.expert_dispatch(x, ids, 2 * n)
    back = fused.expert_combine(handle.by_expert(tokens), handle, weights)
    total = torch.zeros_like(x)
    for pe in range(n):
        part = torch.zeros_like(x)
        for j in range(3):
            here = (ids[:, j] // 2 == pe) & (ids[:, j] >= 0)
            part += torch.where(here, weights[:, j], 0.0)[:, None] * x
        total += part
    torch.testing.assert_close(back, total, rtol=4e-7, atol=2e-7)  # GPUs fuse multiply and add


def layer(me: int, n: int, dtype: torch.dtype, **named) -> None:
    """A layer of experts, each two matrices, against float64."""
    every = [given(31 + pe, 4, 128, 2, 2 * n, dtype) for pe in range(n)]
    x, ids, weights = every[me]
    source = torch.Generator().manual_seed(5)
    up = torch.randn(2 * n, 128, 40, generator=source, device="cpu") / 11
    down = torch.randn(2 * n, 40, 24, generator=source, device="cpu") / 6
    up, down = up.to(x), down.to(x)
    own = slice(2 * me, 2 * me + 2)
    tokens, handle = fused.expert_dispatch(x, ids, 2 * n, **named)
    hidden = fused.group_matmul(tokens, up[own].contiguous(), handle).relu_()
    y = fused.group_matmul(hidden, down[own].contiguous(), handle, by_pair=True)
    got = fused.expert_combine(y, handle, weights)
    exact = torch.zeros(4, 24, dtype=torch.float64)
    for j in range(2):
        expert = ids[:, j].clamp(min=0)
        inner = torch.einsum("tk,tkn->tn", x.double(), up[expert].double()).relu()
        made = torch.einsum("tk,tkn->tn", inner, down[expert].double())
        exact += torch.where(ids[:, j] >= 0, weights[:, j].double(), 0.0)[:, None] * made
    bound = 0.15 if named.get("quantize") else 8 * torch.finfo(dtype).eps
    assert (got.double() - exact).abs().max() <= bound * exact.abs().max() + 1e-6
    refused(ValueError, "weights has size", fused.group_matmul, tokens, up[:1], handle)


def trained(me: int, n: int) -> None:
    """Gradients of a layer of experts: of tokens and of both matrices, the members' together."""
    every = [given(71 + pe, 5, 24, 2, 2 * n, torch.float32) for pe in range(n)]
    source = torch.Generator().manual_seed(5)
    up, down = (
        torch.randn(2 * n, *size, generator=source, device="cpu").to(every[0][0])
        for size in ((24, 40), (40, 24))
    )
    exact = [one.double().requires_grad_() for one in (up, down, every[me][0])]
    loss = 0.0
    for pe, (x, ids, weights) in enumerate(every):
        out, x = 0.0, exact[2] if pe == me else x.double()
        for j in range(2):
            expert = ids[:, j].clamp(min=0)
            inner = torch.einsum("tk,tkn->tn", x, exact[0][expert]).relu()
            made = torch.einsum("tk,tkn->tn", inner, exact[1][expert])
            out = out + torch.where(ids[:, j] >= 0, weights[:, j], 0.0)[:, None] * made
        loss = loss + (out * out).sum()
    loss.backward()
    x, ids, weights = every[me]
    own = slice(2 * me, 2 * me + 2)
    x, up, down = (one.clone().requires_grad_() for one in (x, up[own], down[own]))
    tokens, handle = fused.expert_dispatch(x, ids, 2 * n)
    inner = fused.group_matmul(tokens, up, handle).relu()
    y = fused.group_matmul(inner, down, handle, by_pair=True)
    out = fused.expert_combine(y, handle, weights)
    (out * out).sum().backward()
    for got, wanted in ((up, exact[0].grad[own]), (down, exact[1].grad[own]), (x, exact[2].grad)):
        torch.testing.assert_close(
            got.grad.double(), wanted, rtol=1e-4, atol=1e-5 * wanted.abs().max()
        )


def derivatives(me: int, n: int, compiled: bool = False, **named) -> None:
    """Gradients of tokens, rows of experts and weights, each against float64 of all PEs' losses."""
    every = [given(61 + pe, 3 + pe % 2, 24, 2, 2 * n, torch.float32) for pe in range(n)]
    scales = torch.arange(1, 2 * n + 1, dtype=torch.float64)
    exact = [[one.clone().double().requires_grad_() for one in (x, w)] for x, _, w in every]
    loss = 0.0
    for (x, w), (_, ids, _) in zip(exact, every, strict=True):
        out = torch.zeros_like(x)
        for j in range(2):
            factor = torch.where(ids[:, j] >= 0, scales[ids[:, j].clamp(min=0)], 0.0)
            out = out + (factor * w[:, j])[:, None] * (x + x * x)
        loss = loss + (out * out).sum()
    loss.backward()
    x, ids, weights = every[me]
    x, weights = (one.clone().requires_grad_() for one in (x, weights))

    def step(x, ids, weights):
        tokens, handle = fused.expert_dispatch(x, ids, 2 * n, **named)
        rows = tokens.index_select(0, handle.rows)
        expert = torch.bucketize(
            torch.arange(rows.shape[0], device=rows.device), handle.offsets[1:], right=True
        )
        factor = (scales.float()[2 * me :][:2])[expert.clamp(max=1)]
        y = factor[:, None] * (rows + rows * rows)
        return fused.expert_combine(y, handle, weights)

    if compiled:
        step = torch.compile(step, backend="aot_eager", fullgraph=True)
    out = step(x, ids, weights)
    (out * out).sum().backward()
    for got, wanted in ((x, exact[me][0]), (weights, exact[me][1])):
        assert got.grad.dtype == got.dtype
        torch.testing.assert_close(got.grad.double(), wanted.grad, rtol=1e-5, atol=1e-4)


def by_engine(me: int, n: int) -> None:
    """Whole pieces, none, and a part of one; rows of odd length; more tokens than guessed."""
    for sizes in ([13 - 4 * pe for pe in range(n)], [5 * (pe == n - 1) for pe in range(n)]):
        round_trip(me, n, sizes, 24, 3, 2, torch.bfloat16, algorithm="copy_engine")
    round_trip(me, n, [14 + pe for pe in range(n)], 9, 2, 1, torch.float32, algorithm="copy_engine")
    to_none = {"change": lambda ids: ids * 0 - 1, "algorithm": "copy_engine"}
    round_trip(me, n, [6] * n, 16, 2, 1, torch.float32, **to_none)
    derivatives(me, n, mode="throughput", max_tokens=5, algorithm="copy_engine")
    x, ids, _ = given(me, 4, 128, 1, n, torch.float32)
    call, options = fused.expert_dispatch, {"algorithm": "copy_engine"}
    refused(ValueError, "decode mode is one kernel", call, x, ids, n, max_tokens=4, **options)
    refused(ValueError, "made FP8 by the kernel", call, x, ids, n, quantize="fp8", **options)
    refused(ValueError, "it has simple, copy_engine", call, x, ids, n, algorithm="stores")
    if n > 2:
        refused(ValueError, "more than twice the 1 experts", call, x, ids, n, **options)


def tokens_as_pairs(me: int, n: int) -> None:
    """With one expert a token there are as many tokens as pairs; they are no pairs all the same."""
    x, ids, weights = given(me, 4, 8, 1, 2 * n, torch.float32)
    told, combine = "y is the tokens as they came", fused.expert_combine
    for mode in ({}, {"max_tokens": 5}):
        tokens, handle = fused.expert_dispatch(x, ids, 2 * n, **mode)
        if len(tokens):
            refused(ValueError, told, combine, tokens, handle, weights)
            refused(ValueError, told, combine, tokens.relu_()[:], handle, weights)
        combine(handle.by_expert(tokens), handle, weights)
    x.requires_grad_()
    tokens, handle = fused.expert_dispatch(x, ids, 2 * n, max_tokens=5)
    refused(ValueError, told, combine, tokens, handle, weights)
    combine(handle.by_expert(tokens), handle, weights)
    tokens, handle = fused.expert_dispatch(x.detach(), ids.clamp(max=n - 1), n)
    combine(tokens, handle, weights)  # of one expert a member: in the order of its pairs


def refusals(me: int, n: int) -> None:
    x, ids, weights = given(me, 4, 8, 2, n, torch.float32)
    call = fused.expert_dispatch
    refused(ValueError, "spread evenly", call, x, ids, n + 1 if n > 1 else 0)
    refused(ValueError, "one row a token", call, x, ids[:3], n)
    refused(ValueError, "max_tokens, 3", call, x, ids, n, max_tokens=3)
    refused(ValueError, "needs max_tokens", call, x, ids, n, mode="decode")
    refused(ValueError, "multiple of 128", call, x, ids, n, quantize="fp8")
    refused(ValueError, "quantize", call, x, ids, n, quantize="int8")
    refused(ValueError, "mode", call, x, ids, n, mode="fast")
    refused(TypeError, "float64", call, x.double(), ids, n)
    refused(TypeError, "float32", call, x, ids.float(), n)
    wide, options = torch.ones(4, 128, requires_grad=True), {"quantize": "fp8"}
    refused(RuntimeError, "requires grad", call, wide, ids, n, **options)
    wrong = ids.clone()
    wrong[1, 1] = n if me == n - 1 else ids[1, 1]
    first = (
        f"have 1 experts that there are not, the first of them {n} of token 1 of member {n - 1};"
    )
    refused(ValueError, first, call, x, wrong, n)
    tokens, handle = call(x, ids, n)
    y = handle.by_expert(tokens)
    refused(ValueError, "pairs", fused.expert_combine, torch.zeros(99, 8), handle, weights)
    refused(
        ValueError, "topk_weights", fused.expert_combine, y, handle, weights[:, :1].contiguous()
    )
    refused(TypeError, "handle", fused.expert_combine, y, None, weights)
    tokens_as_pairs(me, n)
    more, many = torch.zeros(tokens.shape[0] + 1, 8), f"the handle have {tokens.shape[0]}"
    refused(ValueError, many, fused.group_matmul, more, torch.ones(1, 8, 2), handle)
    if n > 1 and os.environ.get("PYSHMEM_CHECK") == "1":
        refused(pyshmem.MismatchError, "expert_dispatch", call, torch.zeros(4, 8 + me), ids, n)


def check(me: int, n: int, few: bool) -> None:
    uneven = [2 + 3 * pe for pe in range(n)]
    round_trip(me, n, uneven, 24, 3, 2, torch.bfloat16, again=True)
    round_trip(me, n, [3] * n, 900, 2, 1, torch.float32)  # more chunks than programs
    most = [2 + 9 * (pe == 0) for pe in range(n)]  # one more than guessed: that call is made twice
    round_trip(me, n, most, 16, 2, 1, torch.float32)
    round_trip(me, n, most, 16, 2, 1, torch.float32, mode="throughput", max_tokens=12)
    round_trip(me, n, [0] * n, 16, 2, 1, torch.float32, mode="throughput", max_tokens=0)
    if few:
        x, ids, _ = given(me, 4, 8, 2, n, torch.float32)
        refused(
            ValueError, "reach all peers", fused.expert_dispatch, x, ids, n, algorithm="copy_engine"
        )
        round_trip(me, n, [2] * n, 24, 2, 1, torch.float16, max_tokens=3)
        refusals(me, n)
        return
    round_trip(me, n, [3 * (pe == n - 1) for pe in range(n)], 9, 2, 3, torch.float32)
    round_trip(
        me, n, [2] * n, 16, 2, 1, torch.float16, change=lambda ids: ids.clamp(max=0)
    )  # to one
    round_trip(me, n, [2] * n, 16, 1, 1, torch.float32, change=lambda ids: ids * 0 - 1)  # to none
    round_trip(me, n, [0] * n, 16, 1, 1, torch.float32)
    round_trip(me, n, [1] * n, 16, 1, 1, torch.float32)  # 3 PEs: the host waits before tokens move
    round_trip(me, n, [2] * n, 128, 2, 2, torch.bfloat16, quantize="fp8")
    for call in range(2 + (n == 2)):  # both halves, in turn
        sizes = [2 + (pe + call) % 2 for pe in range(n)]
        captured = round_trip(
            me, n, sizes, 24, 2, 2, torch.float32, max_tokens=3, change=lambda ids: ids.int()
        )
    many = round_trip(me, n, sizes, 24, 2, 2, torch.float32)
    assert torch.equal(captured, many), "both modes add in one order"
    round_trip(me, n, [2] * n, 128, 2, 1, torch.float16, max_tokens=2, quantize="fp8")
    same_bits(me, n)
    by_engine(me, n)
    layer(me, n, torch.bfloat16)
    layer(me, n, torch.float32, max_tokens=4, quantize="fp8")
    derivatives(me, n)
    trained(me, n)
    derivatives(me, n, compiled=True, max_tokens=4)
    refusals(me, n)
