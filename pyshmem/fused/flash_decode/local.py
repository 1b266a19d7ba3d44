# SPDX-License-Identifier: BSD-3-Clause
"""Attention over the caller's own keys, token by token: the bits of one depend on nothing beside it.

A token's keys are split into as many parts for all, which follow from its own keys, and merged in their
order; tokens of one sequence are queries of their own. So a token has the same bits alone, in a batch,
and in a prompt that is read at once or in pieces.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch

from ..._torch.launches import Launch
from .._shared.powers import power_of_2
from . import kernels
from .api import _FLOATS, _INVARIANT_SPLITS, _KEYS

_MOST_SUMS = 64 << 20  # bytes of float32 that parts have at a time


class _Plan(NamedTuple):
    parts: Launch
    merge: Launch


_plans: dict[Any, _Plan] = {}
_MOST_PLANS = 1024


def bounds_of(mask: torch.Tensor) -> torch.Tensor:
    """Where the keys of each token begin and end: int32 (..., 2), of a bool mask (..., keys).

    -1 is the beginning of keys that do not lie behind each other.
    """
    seen = mask.to(torch.int32)
    count = seen.sum(-1, dtype=torch.int32)
    first = seen.argmax(-1).to(torch.int32)
    behind = mask.shape[-1] - seen.flip(-1).argmax(-1).to(torch.int32)
    whole = (count == 0) | (behind - first == count)
    return torch.stack((torch.where(whole, first, -1), first + count), -1)


def _plan(key: Any) -> _Plan:
    tokens, heads, d, kv_heads, keys, batch, scale = key[:7]
    group, wide = heads // kv_heads, power_of_2(d, 16)
    split = kernels.Split(group, False, 1, power_of_2(group, 16), d, wide, _KEYS)
    splits, grid = _INVARIANT_SPLITS, (batch * tokens * kv_heads, _INVARIANT_SPLITS)
    behind = keys, kv_heads, tokens, splits, scale * math.log2(math.e)
    parts = Launch(
        kernels.own_parts, grid, behind, {"SPLIT": split, "num_warps": 4, "num_stages": 3}
    )
    merge = Launch(
        kernels.merge_own, batch * tokens * heads, (heads, splits),
        {"D": d, "DP": wide, "SP": power_of_2(splits), "num_warps": 4},
    )  # fmt: skip
    return _Plan(parts, merge)


def attend_alone(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, bounds: torch.Tensor, scale: float
) -> torch.Tensor:
    """As q, (batch, tokens, heads, d); k and v are (batch, kv_heads, keys, d), all contiguous.

    ``bounds``: (batch, tokens, 2), as ``bounds_of`` makes them.

    Raises: TypeError (dtypes), ValueError (extents).
    """
    batch, tokens, heads, d = q.shape
    kv_heads, keys = k.shape[1:3]
    if q.dtype not in _FLOATS or {k.dtype, v.dtype} != {q.dtype}:
        raise TypeError(f"q is {q.dtype}, k {k.dtype}; they can be bfloat16, float16, float32")
    if d > 256 or k.shape != v.shape or k.shape[0] != batch or heads % max(kv_heads, 1):
        raise ValueError(f"q has size {tuple(q.shape)}, k {tuple(k.shape)}, v {tuple(v.shape)}")
    out = torch.empty_like(q)
    if not q.numel():
        return out
    each = heads * _INVARIANT_SPLITS * d * 4
    if batch * tokens * each > _MOST_SUMS and batch * tokens > 1:  # in pieces, with the same bits
        at_once = max(1, _MOST_SUMS // each)
        for row in range(batch):
            for some in range(0, tokens, at_once):
                here = slice(row, row + 1), slice(some, some + at_once)
                part = attend_alone(
                    q[here].contiguous(),
                    k[row][None],
                    v[row][None],
                    bounds[here].contiguous(),
                    scale,
                )
                out[here] = part
        return out
    key = tokens, heads, d, kv_heads, keys, batch, scale, q.dtype, q.device
    plan = _plans.get(key)
    if plan is None:
        if len(_plans) >= _MOST_PLANS:
            _plans.clear()
        plan = _plans[key] = _plan(key)
    items = batch * tokens * heads
    sums = q.new_empty((items, _INVARIANT_SPLITS, d), dtype=torch.float32)
    stats = q.new_empty((items, _INVARIANT_SPLITS, 2), dtype=torch.float32)
    plan.parts((sums, stats, q, k, v, bounds))
    plan.merge((out, sums, stats, bounds))
    return out
