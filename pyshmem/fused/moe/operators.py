# SPDX-License-Identifier: BSD-3-Clause
"""``torch.ops.pyshmem``: dispatch to experts and combine as operators, with their derivatives.

A handle is its tensors here. The derivative of a dispatch is a combine: of the gradients of a token's
rows, one a member that has it, with weights of one. That of a combine is a dispatch of the gradients, to
the rows that are known; what they mean for weights goes back by an all-to-all. All are collective, so
the same arguments require grad on all members; the loss is the sum of the PEs' losses.
"""

from __future__ import annotations

from typing import Any

import torch

from ..._torch.teams import TAGS, team_of
from ...triton.primitives.backend import INTERPRETED
from .._shared.powers import power_of_2
from .._shared.workspace import workspace
from ..exchange.all_to_all import equal, gather
from .api import combine, dispatch
from .dispatch import dispatch_again
from .grad_kernels import pairs_of_gradients
from .handle import sizes_of

_library = torch.library.Library("pyshmem", "FRAGMENT")
_HANDLE = "Tensor rows, Tensor offsets, Tensor pairs, Tensor ids, bool compact, int team=0"
_SCHEMAS = {
    "expert_dispatch":
        "(Tensor x, Tensor ids, int n_experts, str? quantize, str mode, int? max_tokens, "
        "bool zeroed=False, int team=0, str? algorithm=None, Tensor? global_scale=None) -> "
        "(Tensor, Tensor, Tensor, Tensor, Tensor)",
    "expert_combine": f"(Tensor y, Tensor weights, {_HANDLE}) -> Tensor",
    # Derivatives, without such of their own.
    "expert_dispatch_grad": f"(Tensor grad, {_HANDLE}) -> Tensor",
    "expert_combine_grad": f"(Tensor grad, Tensor y, Tensor weights, {_HANDLE}) -> (Tensor, Tensor)",
}  # fmt: skip


# ---- bodies --------------------------------------------------------------------------------------


def _dispatch(
    x: Any, ids: Any, n_experts: int, quantize: Any, mode: str, max_tokens: Any, zeroed: bool = False,
    team: int = 0, algorithm: str | None = None, global_scale: Any = None,
) -> Any:  # fmt: skip
    tokens, handle = dispatch(
        x, ids, n_experts, quantize, mode, max_tokens, team_of(team), algorithm, zeroed=zeroed,
        global_scale=global_scale,
    )  # fmt: skip
    scales = x.new_empty(0, dtype=torch.float32) if handle.scales is None else handle.scales
    return tokens, scales, handle.rows, handle.offsets, handle.pairs


def _combine(
    y: Any,
    weights: Any,
    rows: Any,
    offsets: Any,
    pairs: Any,
    ids: Any,
    compact: bool,
    team: int = 0,
) -> Any:
    return combine(y, rows, pairs, ids, weights, offsets.shape[0] - 1, team_of(team))


def _positions(pairs: torch.Tensor, compact: bool) -> torch.Tensor:
    """(members, tokens) int32: the row of each token that has an expert here, -1 for the others."""
    comes = (pairs >= 0).any(-1).view(-1)
    places = comes.cumsum(0) - 1 if compact else torch.arange(comes.numel(), device=pairs.device)
    return torch.where(comes, places, -1).int().view(pairs.shape[:2])


def _dispatch_grad(
    grad: Any, rows: Any, offsets: Any, pairs: Any, ids: Any, compact: bool, team: int = 0
) -> Any:
    one_pair = torch.full_like(pairs, -1)
    one_pair[:, :, 0] = _positions(pairs, compact)
    ones = torch.ones(ids.shape, dtype=torch.float32, device=ids.device)
    return combine(grad, grad, one_pair, ids, ones, offsets.shape[0] - 1, team_of(team))


def _combine_grad(
    grad: Any, y: Any, weights: Any, rows: Any, offsets: Any, pairs: Any, ids: Any, compact: bool,
    team: int = 0,
) -> Any:  # fmt: skip
    members = team_of(team)
    space, (n, most, k) = workspace(members), pairs.shape
    of_y, of_weights = torch.zeros_like(y), torch.zeros_like(weights)
    if not most or not y.shape[1]:
        return of_y, of_weights
    positions = _positions(pairs, compact)
    count = n * most  # at most; unknown on the host in throughput mode
    came = dispatch_again(grad, ids, positions, count, offsets.shape[0] - 1, members)
    mine = grad.new_zeros((most, k), dtype=torch.float32)
    mine[: ids.shape[0]] = weights
    every = gather(mine, space, None, None)
    flat, total = pairs.view(-1), y.shape[0]
    place = torch.where(flat >= 0, flat, total).long()  # one more, for pairs of others
    of_pair = every.new_zeros(total + 1).scatter_(0, place, every.view(-1))
    dots = every.new_zeros(total + 1)
    if total:
        block = 64 if INTERPRETED else min(2048, power_of_2(y.shape[1]))
        pairs_of_gradients[(min(total, 2 if INTERPRETED else 2048),)](
            of_y, dots, came, y, rows, of_pair, offsets[-1:], total, y.shape[1], B=block
        )
    back = torch.where(flat >= 0, dots[place], 0.0).view(n * most, k)
    found = equal(back, space, None, None).view(n, most, k).sum(0)  # one member's is not 0
    return of_y, of_weights.copy_(found[: ids.shape[0]])


# ---- what compilers see ----------------------------------------------------------------------------


def _fake_dispatch(
    x: Any, ids: Any, n_experts: int, quantize: Any, mode: str, max_tokens: Any, zeroed: bool = False,
    team: int = 0, algorithm: str | None = None, global_scale: Any = None,
) -> Any:  # fmt: skip
    n, k = team_of(team).n_pes(), ids.shape[1]
    if mode == "decode":
        most, count, total = max_tokens, n * max_tokens, n * max_tokens * k
    else:
        context = torch.library.get_ctx()
        most, count, total = (context.new_dynamic_size() for _ in range(3))
    made: Any = ((count, x.shape[1]), x.dtype), ((0,), torch.float32)
    if quantize:
        made = sizes_of(quantize, count, x.shape[1])

    def ints(*size: Any) -> Any:
        return x.new_empty(size, dtype=torch.int32)

    return (
        *(x.new_empty(size, dtype=dtype) for size, dtype in made),
        ints(total), ints(n_experts // n + 1), ints(n, most, k),
    )  # fmt: skip


def _fake_combine(
    y: Any,
    weights: Any,
    rows: Any,
    offsets: Any,
    pairs: Any,
    ids: Any,
    compact: bool,
    team: int = 0,
) -> Any:
    return y.new_empty((ids.shape[0], y.shape[1]))


def _fake_dispatch_grad(
    grad: Any, rows: Any, offsets: Any, pairs: Any, ids: Any, compact: bool, team: int = 0
) -> Any:
    return grad.new_empty((ids.shape[0], grad.shape[1]))


def _fake_combine_grad(
    grad: Any, y: Any, weights: Any, rows: Any, offsets: Any, pairs: Any, ids: Any, compact: bool,
    team: int = 0,
) -> Any:  # fmt: skip
    return torch.empty_like(y), torch.empty_like(weights)


# ---- derivatives -----------------------------------------------------------------------------------


def _keep_dispatch(ctx: Any, inputs: Any, output: Any) -> None:
    _, ids, _, quantize, mode, _, _, team, *_ = inputs
    ctx.mark_non_differentiable(*output[1:])
    ctx.save_for_backward(*output[2:], ids)
    ctx.refused, ctx.given = quantize, (mode == "throughput", team)


def _dispatch_backward(ctx: Any, grad: Any, *_: Any) -> Any:
    if ctx.refused:
        raise NotImplementedError(f"expert_dispatch of {ctx.refused.upper()} has no derivative")
    handle = ctx.saved_tensors
    of_x = torch.ops.pyshmem.expert_dispatch_grad(grad.contiguous(), *handle, *ctx.given)
    return of_x, *(None,) * 9


def _keep_combine(ctx: Any, inputs: Any, output: Any) -> None:
    ctx.save_for_backward(*inputs[:6])
    ctx.given = inputs[6:]


def _combine_backward(ctx: Any, grad: Any) -> Any:
    y, weights, *handle = ctx.saved_tensors
    both = torch.ops.pyshmem.expert_combine_grad(grad.contiguous(), y, weights, *handle, *ctx.given)
    return *both, *(None,) * 6


_BODIES = {
    "expert_dispatch": (_dispatch, _fake_dispatch),
    "expert_combine": (_combine, _fake_combine),
    "expert_dispatch_grad": (_dispatch_grad, _fake_dispatch_grad),
    "expert_combine_grad": (_combine_grad, _fake_combine_grad),
}
_DERIVATIVES = {
    "expert_dispatch": (_keep_dispatch, _dispatch_backward),
    "expert_combine": (_keep_combine, _combine_backward),
}


def _declare() -> None:
    for name, (body, fake) in _BODIES.items():
        _library.define(name + _SCHEMAS[name], tags=TAGS)
        for device in ("CPU", "CUDA"):
            _library.impl(name, body, device)
        torch.library.register_fake(f"pyshmem::{name}", fake, lib=_library)
        if name in _DERIVATIVES:
            keep, backward = _DERIVATIVES[name]
            torch.library.register_autograd(
                f"pyshmem::{name}", backward, setup_context=keep, lib=_library
            )


_declare()
