# SPDX-License-Identifier: BSD-3-Clause
"""Attention of a few queries over keys that are spread over the PEs of a team."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch

from ..._torch.launches import Launch
from ..._torch.teams import team_of
from ...host.teams.team import TEAM_WORLD, Team
from ...triton import Channel, channel, context
from ...triton.primitives.backend import INTERPRETED
from .._shared.arguments import check_tensor, look, on_tensors, refuse_grad, result
from .._shared.powers import power_of_2
from .._shared.slots import number_of
from .._shared.team_numbers import check_input, number
from .._shared.workspace import Workspace, workspace
from ..exchange.all_to_all import declare
from . import kernels

_FLOATS = (torch.bfloat16, torch.float16, torch.float32)
_PROGRAMS = 4 if INTERPRETED else 128  # that merge, all of them resident
_MOST_SPLITS = 64
_INVARIANT_SPLITS = 4 if INTERPRETED else 16
_KEYS = 16 if INTERPRETED else 64  # keys of a step


def _channel(space: Workspace, packets: int) -> Channel:
    """One for each class of head sizes, so that two models do not take it from each other."""
    made: Channel = space.thing(
        f"flash decode {packets}", 0, lambda: channel(_PROGRAMS, 4 * (packets + 16))
    )
    return made


def _splits(programs: int, keys: int, device: torch.device, batch_invariant: bool) -> int:
    """Into how many parts each sequence's keys are split, so that all SMs have two programs.

    Batch invariant, they are as many for all batches, and for all extents of the shards.
    """
    if batch_invariant:
        return _INVARIANT_SPLITS
    if INTERPRETED:
        wanted = 3
    else:
        wanted = 2 * torch.cuda.get_device_properties(device).multi_processor_count
        wanted = -(-wanted // programs)
    return max(1, min(wanted, _MOST_SPLITS, -(-keys // (2 * _KEYS))))


def _check(q: Any, k: Any, v: Any, lengths: Any) -> None:
    check_tensor("q", q, _FLOATS)
    if q.dim() not in (3, 4):
        raise ValueError(f"q has size {tuple(q.shape)}; it is (batch, [queries,] heads, d)")
    check_tensor("k_shard", k, (q.dtype,), 4, of="q")
    check_tensor("v_shard", v, (q.dtype,), 4, of="q")
    batch, heads, d = q.shape[0], q.shape[-2], q.shape[-1]
    kv_heads = k.shape[2]
    if k.shape != v.shape or k.shape[0] != batch or k.shape[3] != d:
        raise ValueError(
            f"k_shard has size {tuple(k.shape)}, v_shard {tuple(v.shape)} and q {tuple(q.shape)}: they "
            "are (batch, keys, kv_heads, d) and (batch, [queries,] heads, d)"
        )
    if not kv_heads or not d or heads % kv_heads:
        raise ValueError(f"{heads} heads of q do not share {kv_heads} heads of keys evenly")
    if d > 256:
        raise ValueError(f"d is {d}; it can be 256 at most")
    if lengths is not None:
        check_tensor("lengths", lengths, (torch.int32, torch.int64))
        queries = q.shape[1] if q.dim() == 4 else 1
        if tuple(lengths.shape) not in ((batch,), (batch, queries)):
            raise ValueError(
                f"lengths has size {tuple(lengths.shape)} for a batch of {batch}; it is (batch,), or "
                "(batch, queries)"
            )


def attend(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, scale: float | None, lengths: Any,
    team: Team, out: torch.Tensor | None = None, batch_invariant: bool = False,
) -> torch.Tensor:  # fmt: skip
    """The body of ``flash_decode``."""
    space = workspace(team)
    key = "flash decode", look(q), look(k), look(v), look(lengths), scale, batch_invariant
    space.plan(key, lambda: _check(q, k, v, lengths))
    read = ("q", q), ("k_shard", k), ("v_shard", v), ("lengths", lengths)
    dest = result("out", out, q.shape, q.dtype, q, read)
    space.agree(
        "flash_decode", dtype=q.dtype, q=tuple(q.shape), kv_heads=k.shape[2], scale=scale,
        batch_invariant=batch_invariant,
    )  # fmt: skip
    plan: _Plan = space.plan(
        (key, "launches"), lambda: _plan(space, q, k, lengths, scale, batch_invariant)
    )
    if plan.items:
        sums = q.new_empty((plan.items, plan.splits, q.shape[-1]), dtype=torch.float32)
        stats = q.new_empty((plan.items, plan.splits, 2), dtype=torch.float32)
        plan.parts((sums, stats, q, k, v) if lengths is None else (sums, stats, q, k, v, lengths))
        plan.merge((dest, sums, stats))
    return dest


class _Plan(NamedTuple):
    """What all calls of a shape do."""

    items: int
    splits: int
    parts: Launch
    merge: Launch


def _plan(
    space: Workspace, q: torch.Tensor, k: torch.Tensor, lengths: Any, scale: Any,
    batch_invariant: bool,
) -> _Plan:  # fmt: skip
    batch, heads, d = q.shape[0], q.shape[-2], q.shape[-1]
    queries = q.shape[1] if q.dim() == 4 else 1
    keys, kv_heads = k.shape[1], k.shape[2]
    group, items = heads // kv_heads, batch * queries * heads
    splits = _splits(batch * kv_heads, keys, q.device, batch_invariant)
    factor, wide = (d**-0.5 if scale is None else scale) * math.log2(math.e), power_of_2(d, 16)
    behind: tuple[Any, ...] = keys, kv_heads, queries, splits, factor
    if lengths is None:
        behind = None, *behind
    split = kernels.Split(
        group, lengths is not None and lengths.dim() == 2, power_of_2(queries),
        power_of_2(group * queries, 16), d, wide, _KEYS,
    )  # fmt: skip
    parts = Launch(
        kernels.decode_parts, (batch * kv_heads, splits), behind,
        {"SPLIT": split, "num_warps": 4, "num_stages": 3},
    )  # fmt: skip
    merge = Launch(
        kernels.merge_parts, min(items, _PROGRAMS), (items, splits, _channel(space, wide), context()),
        {"TEAM": number_of(space), "D": d, "DP": wide, "SP": power_of_2(splits), "num_warps": 4},
    )  # fmt: skip
    return _Plan(items, splits, parts, merge)


@on_tensors
def flash_decode(
    q: Any, k_shard: Any, v_shard: Any, *, scale: float | None = None, lengths: Any = None,
    team: Team = TEAM_WORLD, out: Any = None, batch_invariant: bool = False,
) -> Any:  # fmt: skip
    """Attention of one or a few queries of each sequence over the keys of all members.

    Args:
        q: (batch, heads, d) or (batch, queries, heads, d), bfloat16, float16 or float32, contiguous; the
            same values on all members. ``d`` is 256 at most.
        k_shard, v_shard: (batch, keys, kv_heads, d), of the same dtype, contiguous: the caller's keys
            and values. Members may have different numbers of keys, 0 too; ``heads`` is a multiple of
            ``kv_heads``, and as many heads as that share one of keys.
        scale: what scores are multiplied by; default ``d ** -0.5``.
        lengths: (batch,) int32 or int64: how many of the caller's keys of each sequence count, or
            (batch, queries), for each query: in a causal mask later ones see more. Default: all.
        team: default ``TEAM_WORLD``.
        out: where the result goes; default: a new tensor.
        batch_invariant: the bits of a sequence, which are all its queries, depend on its queries, keys
            and lengths, and not on the sequences beside it, nor on keys past its length. Slower for few
            sequences: the keys of each are split into as many parts, 16, for all batches.

    Returns: as ``q``; 0 for a sequence without keys. Sums are in float32 and in PE order: the same bits
        on all members.
    Completes: in the order of the current stream; two kernels. Collective.
    Raises: ValueError (sizes, layout), TypeError, RuntimeError (a tensor requires grad); MismatchError
        (members differ).
    Extension.
    """
    check_input(q)
    refuse_grad("flash_decode", q, k_shard, v_shard, out)
    if out is not None:
        return attend(q, k_shard, v_shard, scale, lengths, team, out, bool(batch_invariant))
    return torch.ops.pyshmem.flash_decode(
        q, k_shard, v_shard, scale, lengths, number(team), bool(batch_invariant)
    )


def _body(
    q: Any, k_shard: Any, v_shard: Any, scale: Any = None, lengths: Any = None, team: int = 0,
    batch_invariant: bool = False,
) -> Any:  # fmt: skip
    return attend(q, k_shard, v_shard, scale, lengths, team_of(team), None, batch_invariant)


def _fake(
    q: Any, k_shard: Any, v_shard: Any, scale: Any = None, lengths: Any = None, team: int = 0,
    batch_invariant: bool = False,
) -> Any:  # fmt: skip
    return torch.empty_like(q)


declare(
    "flash_decode",
    "(Tensor q, Tensor k_shard, Tensor v_shard, float? scale=None, Tensor? lengths=None, int team=0, "
    "bool batch_invariant=False) -> Tensor",
    _body, _fake, None,
)  # fmt: skip
