# SPDX-License-Identifier: BSD-3-Clause
"""``torch.ops.pyshmem.group_matmul``: the product grouped by expert as an operator, with derivatives.

Rows of pairs past the last expert's are 0 where there are derivatives. A token's gradient is the sum
over its pairs in their order, in float32, so results are the same from run to run.
"""

from __future__ import annotations

from typing import Any

import torch

from ...triton.primitives.backend import INTERPRETED
from .._shared.powers import power_of_2
from ..exchange.all_to_all import declare
from . import kernels
from .api import multiply_groups


def _body(
    tokens: Any, weights: Any, rows: Any, offsets: Any, pairs: int, batch_invariant: bool = False
) -> Any:
    out = weights.new_zeros((pairs, weights.shape[2]))
    multiply_groups(out, tokens, rows, offsets, weights, pairs, batch_invariant=batch_invariant)
    return out


def _fake(
    tokens: Any, weights: Any, rows: Any, offsets: Any, pairs: int, batch_invariant: bool = False
) -> Any:
    return weights.new_empty((pairs, weights.shape[2]))


def _grads(grad: Any, tokens: Any, weights: Any, rows: Any, offsets: Any) -> Any:
    """Gradients of tokens and weights."""
    pairs, (experts, k, n) = grad.shape[0], weights.shape
    of_pairs, of_weights = grad.new_zeros((pairs, k)), torch.zeros_like(weights)
    if pairs and weights.numel():
        multiply_groups(of_pairs, grad, None, offsets, weights, pairs, turned=True)
        high, wide, deep = (16, 32, 16) if INTERPRETED else (128, 128, 64)
        grid = (experts * -(-k // high) * -(-n // wide),)
        kernels.group_matmul_weights[grid](
            of_weights, tokens, rows, grad, offsets, n, k, BK=high, BN=wide, BP=deep
        )
    return (of_pairs if rows is None else _by_row(of_pairs, tokens, rows, offsets)), of_weights


def _by_row(of_pairs: Any, tokens: Any, rows: Any, offsets: Any) -> Any:
    """The sums over the pairs of each row."""
    count, device = tokens.shape[0], tokens.device
    if not tokens.numel() or not of_pairs.shape[0]:
        return torch.zeros_like(tokens)
    there = torch.arange(rows.shape[0], device=device) < offsets[-1]
    keys, order = torch.sort(torch.where(there, rows, count), stable=True)
    bounds = torch.searchsorted(keys, torch.arange(count + 1, device=device), out_int32=True)
    out, k = torch.empty_like(tokens), tokens.shape[1]
    block = 64 if INTERPRETED else min(2048, power_of_2(k))
    kernels.sums_of_pairs[(min(count, 2 if INTERPRETED else 2048),)](
        out, of_pairs, order, bounds, count, k, B=block
    )
    return out


def _keep(ctx: Any, inputs: Any, output: Any) -> None:
    ctx.save_for_backward(*inputs[:2], *inputs[2:4])


def _backward(ctx: Any, grad: Any) -> Any:
    both = torch.ops.pyshmem.group_matmul_grad(grad.contiguous(), *ctx.saved_tensors)
    return *both, None, None, None, None


declare(
    "group_matmul",
    "(Tensor tokens, Tensor weights, Tensor? rows, Tensor offsets, SymInt pairs, "
    "bool batch_invariant=False) -> Tensor",
    _body, _fake, _backward, _keep,
)  # fmt: skip
declare(
    "group_matmul_grad",
    "(Tensor grad, Tensor tokens, Tensor weights, Tensor? rows, Tensor offsets) -> (Tensor, Tensor)",
    _grads, lambda grad, tokens, weights, rows, offsets:
        (torch.empty_like(tokens), torch.empty_like(weights)), None,
)  # fmt: skip
