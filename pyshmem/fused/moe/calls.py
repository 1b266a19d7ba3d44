# SPDX-License-Identifier: BSD-3-Clause
"""Calls of experts' operations through ``torch.ops.pyshmem``: for derivatives, and for torch.compile."""

from __future__ import annotations

import weakref
from typing import Any

import torch

from ...host.teams.team import Team
from .._shared.arguments import needs_grad
from .._shared.team_numbers import number
from ..formats.table import global_scale_tensor
from .handle import ExpertHandle


def dispatch_by_operator(
    x: Any,
    ids: Any,
    n_experts: int,
    quantize: str | None,
    mode: str,
    most: int | None,
    team: Team,
    algorithm: str | None = None,
    global_scale: Any = None,
) -> tuple[torch.Tensor, ExpertHandle]:
    """``expert_dispatch``; with derivatives, rows that decode mode does not write are 0."""
    zeroed = mode == "decode" and needs_grad(x)
    unit = global_scale_tensor(global_scale, x)
    tokens, scales, rows, offsets, pairs = torch.ops.pyshmem.expert_dispatch(
        x, ids, n_experts, quantize, mode, most, zeroed, number(team), algorithm, unit
    )
    kept = scales if quantize else None
    came = None if torch.compiler.is_compiling() else weakref.ref(tokens)
    return tokens, ExpertHandle(
        rows, offsets, kept, mode, team, ids, pairs, tokens.shape[0], unit, came=came
    )


def combine_by_operator(y: Any, handle: ExpertHandle, weights: Any) -> torch.Tensor:
    """``expert_combine``."""
    result: torch.Tensor = torch.ops.pyshmem.expert_combine(
        y, weights, handle.rows, handle.offsets, handle.pairs, handle.topk_ids,
        handle.mode == "throughput", number(handle.team),
    )  # fmt: skip
    return result
