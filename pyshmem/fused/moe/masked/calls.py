# SPDX-License-Identifier: BSD-3-Clause
"""Calls of dispatch and combine that leave out members which are late, and who takes part."""

from __future__ import annotations

import dataclasses
import math
import numbers
from typing import Any, NamedTuple

import torch

from ...._core import errors
from ....host.job import runtime
from ....host.teams.team import TEAM_WORLD, Team
from ....triton import context
from ..._shared.arguments import check_tensor, refuse_grad, result
from ..._shared.powers import power_of_2
from ..._shared.slots import LAUNCH, programs
from ..._shared.workspace import Workspace, device_heap_is_p2p, workspace
from ..dispatch_kernels import Dest, Given, Tile
from ..routing import COLUMNS, constants_of
from ..routing_kernels import Call, Layout, LayoutTile
from . import agreement_kernels as agreement
from . import move_kernels as kernels

_CELLS = 8192  # of pairs compared at a time
_LEAST, _MOST = 1e-4, 3600.0
_ONE_WARP = {"num_warps": 1} if LAUNCH else {}


@dataclasses.dataclass(frozen=True, eq=False)
class Step:
    """What a dispatch that may leave out members leaves for its combine.

    Attributes:
        plan: (2,) int64: the operation's number and who is absent, and the number of the step.
        weights: (members, max_tokens, k) int32, the bits of weights.
        limit: nanoseconds.
    """

    plan: torch.Tensor
    weights: torch.Tensor
    limit: int


class ExpertMask(NamedTuple):
    """Who takes part in a team's steps, as its member sees it. Tensors of the caller's device.

    Attributes:
        mask: (members,) bool: who is in the caller's next step, as far as is known.
        absences: (members,) int64: without whom the caller's steps have ended, and how many.
        steps: (1,) int64: the caller's steps that have ended.
    """

    mask: torch.Tensor
    absences: torch.Tensor
    steps: torch.Tensor


def check_timeout(
    timeout: Any, mode: str, most: int | None, weights: Any, ids: torch.Tensor, space: Workspace
) -> None:
    """Raises what is wrong with a ``timeout``, and with what has to be there with it.

    Raises: TypeError, ValueError, UnsupportedError.
    """
    if timeout is None:
        if weights is not None:
            raise ValueError("topk_weights go with tokens where there is a timeout; see combine")
        return
    if isinstance(timeout, bool) or not isinstance(timeout, numbers.Real):
        raise TypeError(f"timeout is {type(timeout).__name__}; give seconds")
    if not _LEAST <= float(timeout) <= _MOST:
        raise ValueError(f"timeout is {timeout} s; it is from {_LEAST} to {_MOST:.0f} s")
    if mode != "decode" or not most:
        raise ValueError("timeout needs decode mode, with max_tokens of 1 or more")
    if weights is None:
        raise ValueError("timeout needs topk_weights, which travel with the tokens")
    check_tensor("topk_weights", weights, (torch.bfloat16, torch.float16, torch.float32), 2)
    if weights.shape != ids.shape:
        raise ValueError(
            f"topk_weights has size {tuple(weights.shape)}; topk_ids has {tuple(ids.shape)}"
        )
    if space.n_pes > agreement.MOST.value:
        raise errors.UnsupportedError(
            f"expert_dispatch with timeout is for teams of up to {agreement.MOST.value} PEs; this one "
            f"has {space.n_pes}"
        )
    if not device_heap_is_p2p():
        raise errors.UnsupportedError(
            "expert_dispatch with timeout: kernels do not reach all peers (PYSHMEM_P2P=0, or other "
            "hosts)"
        )


def refuse_operator(routine: str, x: Any) -> None:
    """Raises RuntimeError where a derivative is wanted, or a compiler is looking."""
    refuse_grad(f"{routine} with timeout", x)
    if torch.compiler.is_compiling():
        raise RuntimeError(f"{routine} with timeout is no operator: keep it out of compiled code")


def words_of(space: Workspace) -> torch.Tensor:
    """The team's words, int64; see ``agreement_kernels``."""
    return space.block("expert mask", 8 * agreement.WORDS, zeroed=True).view(torch.int64)


def _parts(space: Workspace, nbytes: int, pitch: int, width: int) -> kernels.Parts:
    """Where members store ``nbytes`` bytes at each other, in rows."""
    block = space.block("expert steps", 2 * runtime.n_pes() * (nbytes + 255 & -256))
    words = (block.numel() // (2 * space.n_pes) & -256) // 8
    return kernels.Parts(block.view(torch.int64), words * space.n_pes, words, pitch, width)


def _pitch(nbytes: int) -> int:
    return nbytes + 15 & -16


class _Last:
    """The step of a team that was begun last."""

    step: Step | None = None


def _last_of(space: Workspace) -> _Last:
    kept: _Last = space.thing("expert steps", 0, _Last)
    return kept


def dispatch_step(
    space: Workspace, given: Given, weights: torch.Tensor, most: int, experts: int, to: Dest,
    row_bytes: int, tile: Tile, made: tuple[torch.Tensor, torch.Tensor, torch.Tensor], limit: int,
) -> tuple[Step, torch.Tensor]:  # fmt: skip
    """Launch a dispatch to ``to`` and ``made``; what its combine needs, and the mask.

    Args:
        row_bytes: of a token as it travels.
        made: rows, pairs, offsets.
    """
    tokens, k = given.ids.shape
    n, hidden, x = space.n_pes, given.x.shape[1], given.x
    pitch, words = _pitch(row_bytes), words_of(space)
    parts = _parts(space, most * (pitch + 8 * k), pitch, hidden)
    call = constants_of(space, k)
    plan, mask = x.new_empty(2, dtype=torch.int64), x.new_empty(n, dtype=torch.uint8)
    ids, bits = (x.new_empty((n, most, k), dtype=torch.int32) for _ in "iw")
    team, many, job = call.TEAM, (2 * programs(),), context()
    agreement.begin_step[(1,)](plan, words, limit, job, TEAM=team, **_ONE_WARP)
    kernels.send_tokens[many](
        given, weights, tokens, most, experts, plan, parts, job, CALL=call, TILE=tile, **LAUNCH
    )
    agreement.end_operation[(1,)](plan, mask, words, limit, job, TEAM=team, COMBINE=0, **_ONE_WARP)
    kernels.take_tokens[many](
        to, kernels.Lists(ids, bits), given, weights, tokens, most, experts, plan, parts, job, CALL=call,
        TILE=tile, **LAUNCH,
    )  # fmt: skip
    own, width = power_of_2(-(-n * most // programs())), power_of_2(k)
    layout = LayoutTile(width, 0, max(1, _CELLS // (own * width**2)), 0, own)
    kernels.lay_out_step[(programs(),)](
        Layout(*made, made[2]), ids, most, experts, space.me * experts, n * most, CALL=call,
        LAYOUT=layout, **LAUNCH,
    )  # fmt: skip
    step = Step(plan, bits, limit)
    _last_of(space).step = step
    return step, mask.view(torch.bool)


def combine_step(y: Any, handle: Any, experts: int, out: Any) -> torch.Tensor:
    """``expert_combine`` of a step that may leave out members; ``y`` and its rows fit."""
    space, pairs = workspace(handle.team), handle.pairs
    step: Step = handle.step
    tokens, k = handle.topk_ids.shape
    most, hidden = pairs.shape[1], y.shape[1]
    if handle.step is not _last_of(space).step:
        raise RuntimeError(
            "expert_combine with timeout: this handle was combined already, or the team has begun "
            "another step since its dispatch; each expert_dispatch is combined once"
        )
    of_handle = ("handle.topk_ids", handle.topk_ids), ("handle.rows", handle.rows)
    read = ("y", y), *of_handle, ("handle.pairs", pairs)
    dest = result("out", out, (tokens, hidden), y.dtype, y, read)
    space.agree(
        "expert_combine with timeout", once=True, dtype=y.dtype, hidden=hidden, k=k, max_tokens=most
    )
    pitch, words = _pitch(hidden * y.itemsize), words_of(space)
    parts = _parts(space, most * pitch, pitch, hidden)
    call: Call = constants_of(space, k)
    columns, many, job = (
        min(COLUMNS // 2, power_of_2(max(1, hidden))),
        (2 * programs(),),
        context(),
    )
    kernels.send_sums[many](
        y, pairs, step.weights, most, step.plan, parts, job, CALL=call, TC=columns, **LAUNCH
    )
    agreement.end_operation[(1,)](
        step.plan, handle.mask.view(torch.uint8), words, step.limit, job, TEAM=call.TEAM, COMBINE=1,
        **_ONE_WARP,
    )  # fmt: skip
    kernels.add_sums[many](
        dest, y, pairs, step.weights, handle.topk_ids, tokens, most, experts, step.plan, parts, job,
        CALL=call, TC=columns, **LAUNCH,
    )  # fmt: skip
    _last_of(space).step = None
    return dest


def expert_mask(*, team: Team = TEAM_WORLD) -> ExpertMask:
    """Who takes part in ``expert_dispatch`` with ``timeout``, and who was left out how often.

    Args:
        team: default ``TEAM_WORLD``.

    Returns: an ``ExpertMask`` of new tensors. A caller that is left out itself sees only itself; before
        the first such call of the team all take part.
    Completes: in the order of the current stream; may be captured. Not collective, but the first call
        with a team, which makes memory.
    Raises: NotInitialized, TypeError (no team), UnsupportedError (no device heap).
    Example: ``late = (~fused.expert_mask().mask).nonzero()``
    Extension.
    """
    space = workspace(team)
    words = words_of(space)
    n, at = space.n_pes, agreement.ABSENCES.value
    members = torch.arange(n, device=words.device)
    view, out = words[agreement.VIEW.value], words[agreement.OUT.value]
    here = ((view >> members) & 1 == 0) & ((out == 0) | (members == space.me))
    return ExpertMask(
        here, words[at : at + n].clone(), words[agreement.STEPS.value].view(1).clone()
    )


def nanoseconds(timeout: float) -> int:
    """As kernels have it."""
    return math.ceil(timeout * 1e9)
