# SPDX-License-Identifier: BSD-3-Clause
"""Mixtures of experts: tokens go to the PEs of their experts, and weighted sums come back."""

from __future__ import annotations

import functools
from typing import Any

import torch

from ..._core import errors
from ...host.teams.team import TEAM_WORLD, Team
from ...triton import context
from .._shared.arguments import check_tensor, needs_operator, on_tensors, refuse_grad, result
from .._shared.powers import power_of_2
from .._shared.slots import LAUNCH, programs, refuse_many
from .._shared.workspace import Workspace, workspace
from ..formats.table import check_global_scale, compared_global_scale
from .calls import combine_by_operator, dispatch_by_operator
from .combine_kernels import Sum, combine_tokens
from .dispatch import Dispatch
from .handle import FORMATS, ExpertHandle, check_rows, group_of
from .masked.calls import check_timeout, combine_step, refuse_operator
from .routing import COLUMNS, chunks_of, constants_of, table_of

FLOATS = (torch.bfloat16, torch.float16, torch.float32)
_INDICES = (torch.int32, torch.int64)


@functools.cache
def _has_fp8(device: torch.device) -> bool:
    return torch.cuda.get_device_capability(device) >= (8, 9)


def _check_dispatch(
    x: Any, ids: Any, n_experts: int, quantize: str | None, mode: str, most: int | None,
    space: Workspace, global_scale: Any,
) -> None:  # fmt: skip
    check_tensor("x", x, FLOATS, 2)
    check_tensor("topk_ids", ids, _INDICES, 2)
    refuse_many(space, "expert_dispatch", 63)
    if ids.shape[0] != x.shape[0] or not ids.shape[1] or not x.shape[1]:
        raise ValueError(
            f"topk_ids has size {tuple(ids.shape)} and x {tuple(x.shape)}; they have one row a token, "
            "and one or more columns"
        )
    if not hasattr(n_experts, "__index__"):
        raise TypeError(f"n_experts is {n_experts!r} ({type(n_experts).__name__}), not an integer")
    if n_experts < 1 or n_experts % space.n_pes:
        raise ValueError(
            f"n_experts is {n_experts}, and {n_experts} experts cannot be spread evenly over "
            f"{space.n_pes} PEs: give a multiple of {space.n_pes}"
        )
    if mode not in ("throughput", "decode"):
        raise ValueError(f"mode is {mode!r}; it can be 'throughput' or 'decode'")
    if quantize is not None and quantize not in tuple(FORMATS):
        known = ", ".join(map(repr, FORMATS))
        raise ValueError(f"quantize is {quantize!r}; it can be {known} or None")
    if quantize and x.shape[1] % group_of(quantize):
        raise ValueError(
            f"hidden size {x.shape[1]} is no multiple of {group_of(quantize)}, as {quantize.upper()} "
            "needs it"
        )
    check_global_scale(global_scale, quantize)
    if quantize and x.is_cuda and not _has_fp8(x.device):
        raise errors.UnsupportedError("this GPU has no FP8: quantize needs compute capability 8.9")
    if mode == "decode" and most is None:
        raise ValueError("decode mode needs max_tokens, the most that a PE has in any call")
    if most is not None and x.shape[0] > most:
        raise ValueError(f"{x.shape[0]} tokens are more than max_tokens, {most}")


@on_tensors
def expert_dispatch(
    x: Any, topk_ids: Any, n_experts: int, *, quantize: str | None = None, mode: str | None = None,
    max_tokens: int | None = None, team: Team = TEAM_WORLD, algorithm: str | None = None,
    global_scale: Any = None, timeout: float | None = None, topk_weights: Any = None,
) -> Any:  # fmt: skip
    """Send each token to the PEs that have one of its experts, once each.

    Experts are spread evenly: member p has those from ``p * n_experts / n_pes`` on.

    Args:
        x: (tokens, hidden) bfloat16, float16 or float32, contiguous; each PE may have another number of
            tokens, 0 too.
        topk_ids: (tokens, k) int32 or int64: each token's experts; -1 stands for none.
        quantize: "fp8": tokens travel, and are returned, as float8_e4m3fn with a float32 scale for each
            128 elements; ``hidden`` is a multiple of 128. "mxfp8" or "nvfp4": in blocks of 32 or 16, of
            which ``hidden`` is a multiple, with the bits that ``formats.quantize`` gives.
        mode: "throughput": the result has as many rows as tokens have come, so the host waits once for
            their number, while they move, and no capture is possible; its memory has room for the most
            tokens of each member, unless members are more than twice ``k``. "decode": one kernel, no
            wait, for CUDA graphs; there are ``n_pes * max_tokens`` rows: token t of member p has row
            ``p * max_tokens + t`` if it has an expert here, and the other rows are not written. Default:
            "decode" if ``max_tokens`` is given.
        max_tokens: the most tokens that a PE has; the same on all members. Decode mode needs it;
            throughput mode guesses it from the last calls, and does a call again that had more.
        team: default ``TEAM_WORLD``.
        algorithm: "simple" (kernels store the tokens that go) or, in throughput mode of tokens that are
            not quantised, "copy_engine" (copy engines send all of them); default by the tables. Without
            room on the device heap for ``max_tokens`` tokens of each member, tokens go through slots.
        global_scale: of NVFP4, one number or float32 tensor, of the same value on all members; default
            1. A number is copied to the GPU by each call.
        timeout: of decode mode, seconds, the same on all: members that are late or stopped are left out
            of a dispatch and its combine after so long in each; ``handle.mask`` says who takes part, the
            same on all that do. Who was left out waits as long to be let in by its next dispatch.
        topk_weights: with ``timeout``, what ``expert_combine`` is given without.

    Returns: the tokens (rows, hidden), in the order of their PEs and of their rows there, and an
        ``ExpertHandle``: the experts' rows, scales, and what ``expert_combine`` needs. Not quantised it
        has a derivative, which is collective: what all members' rows owe to a token, in PE order.
    Completes: in the order of the current stream. Collective. A caller that is interrupted while its
        host waits does the rest of the call before its next operation of the team.
    Raises: ValueError (sizes; an expert that there is not, in throughput mode on all members; in decode
        mode the kernel ends the job with its number and its token's), TypeError, UnsupportedError
        (``quantize`` on a GPU without FP8; more than 63 PEs, with ``timeout`` 16, all in reach),
        RuntimeError (``quantize`` or ``timeout`` and a tensor that requires grad; throughput mode in a
        capture, ``timeout`` in compiled code); MismatchError (members differ).
    Extension.
    """
    taken = mode or ("throughput" if max_tokens is None else "decode")
    if timeout is not None:
        refuse_operator("expert_dispatch", x)
    if needs_operator(x):
        if quantize:
            refuse_grad(f"expert_dispatch of {str(quantize).upper()}", x)
        return dispatch_by_operator(
            x, topk_ids, n_experts, quantize, taken, max_tokens, team, algorithm, global_scale
        )
    return dispatch(
        x, topk_ids, n_experts, quantize, taken, max_tokens, team, algorithm,
        global_scale=global_scale, timeout=timeout, weights=topk_weights,
    )  # fmt: skip


def dispatch(
    x: Any, ids: Any, n_experts: int, quantize: str | None, mode: str, most: int | None,
    team: Team, algorithm: str | None = None, *, zeroed: bool = False, global_scale: Any = None,
    timeout: float | None = None, weights: Any = None,
) -> tuple[torch.Tensor, ExpertHandle]:  # fmt: skip
    """The body of ``expert_dispatch``. ``zeroed``: rows that decode mode does not write are 0."""
    space = workspace(team)
    _check_dispatch(x, ids, n_experts, quantize, mode, most, space, global_scale)
    check_timeout(timeout, mode, most, weights, ids, space)
    timeout = None if timeout is None else float(timeout)
    given = global_scale is not None  # of a step with timeout no more: it waits for nobody
    unit = given if timeout is not None else compared_global_scale(global_scale, space)
    space.agree(
        "expert_dispatch", once=timeout is not None, dtype=x.dtype, hidden=x.shape[1], k=ids.shape[1],
        n_experts=n_experts, quantize=quantize, mode=mode, max_tokens=most, algorithm=algorithm,
        global_scale=unit, timeout=timeout,
    )  # fmt: skip
    experts = n_experts // space.n_pes
    call = Dispatch(space, team, x, ids, experts, quantize, zeroed, algorithm, global_scale)
    if mode == "decode":
        assert most is not None
        if algorithm not in (None, "simple"):
            raise ValueError(
                f"expert_dispatch by {algorithm}: decode mode is one kernel, through slots"
            )
        if timeout is not None:
            return call.in_step(most, weights, timeout)
        return call.in_one_kernel(most)
    return call.by_counts(most)


@on_tensors
def expert_combine(
    y: Any, handle: ExpertHandle, topk_weights: Any = None, *, out: Any = None
) -> Any:
    """Send back what experts made of tokens, weighted and summed.

    A member adds what its experts made of a token before it sends one row; the token's PE adds the
    members' rows in PE order. Both add in float32, so results are the same from run to run, bit by bit;
    a row travels in the dtype of ``y``.

    Args:
        y: (pairs, hidden) bfloat16, float16 or float32, contiguous: a row for each of ``handle.rows``,
            not for each token that came; ``hidden`` and dtype are the same on all members.
        handle: what ``expert_dispatch`` returned; it may be used again.
        topk_weights: (tokens, k) bfloat16, float16 or float32: weights of the caller's tokens' experts.
            None where the dispatch had them, with ``timeout``: then members may be left out here, too,
            and ``handle`` is used once, before the team's next dispatch with ``timeout``.
        out: where the result goes; default: a new tensor.

    Returns: (tokens, hidden): for each token the weighted sum over its experts, 0 if it has none. It has
        derivatives, which are collective, for ``y`` and ``topk_weights``, unless ``out`` is given.
    Completes: in the order of the current stream; one kernel, without a wait of the host. Collective.
    Raises: ValueError (sizes, layout), TypeError, RuntimeError (``out`` where a tensor requires grad;
        of a dispatch with ``timeout``: ``y`` requires grad, or the step is over);
        MismatchError (members differ).
    Extension.
    """
    if not isinstance(handle, ExpertHandle):
        raise TypeError(f"handle is {type(handle).__name__}; give what expert_dispatch returned")
    experts = handle.offsets.shape[0] - 1
    if handle.step is not None or topk_weights is None:
        _check_step(y, handle, topk_weights)
        return combine_step(y, handle, experts, out)
    if isinstance(y, torch.Tensor) and not torch.compiler.is_compiling():
        handle.check_pairs(y)
    if needs_operator(y, topk_weights):
        if out is not None:
            refuse_grad("expert_combine with out=", y, topk_weights)
        summed = combine_by_operator(y, handle, topk_weights)
        return summed if out is None else out.copy_(summed)
    return combine(
        y, handle.rows, handle.pairs, handle.topk_ids, topk_weights, experts, handle.team, out
    )


def _check_step(y: Any, handle: ExpertHandle, topk_weights: Any) -> None:
    """Raises what is wrong with a combine of a step that may leave out members."""
    if handle.step is None:
        raise ValueError("topk_weights is None; they are known from a dispatch with timeout alone")
    if topk_weights is not None:
        raise ValueError(
            "topk_weights went with the tokens, as timeout needs it: leave them out here"
        )
    check_tensor("y", y, FLOATS, 2)
    refuse_operator("expert_combine", y)
    handle.check_pairs(y)


def combine(
    y: Any, rows: torch.Tensor, pairs: torch.Tensor, ids: torch.Tensor, topk_weights: Any, experts: int,
    team: Team, out: Any = None,
) -> torch.Tensor:  # fmt: skip
    """The body of ``expert_combine``; ``pairs`` has the row of ``y`` of each pair of a token."""
    check_tensor("y", y, FLOATS, 2)
    check_tensor("topk_weights", topk_weights, FLOATS, 2)
    space = workspace(team)
    check_rows(y, rows)
    if topk_weights.shape != ids.shape:
        raise ValueError(
            f"topk_weights has size {tuple(topk_weights.shape)}; topk_ids had {tuple(ids.shape)}"
        )
    tokens, k = ids.shape
    hidden, most = y.shape[1], pairs.shape[1]
    of_handle = ("handle.topk_ids", ids), ("handle.rows", rows), ("handle.pairs", pairs)
    read = ("y", y), ("topk_weights", topk_weights), *of_handle
    dest = result("out", out, (tokens, hidden), y.dtype, y, read)
    space.agree("expert_combine", dtype=y.dtype, hidden=hidden, k=k, max_tokens=most)
    if not most or not hidden:
        return dest
    moves = chunks_of(space, most, hidden, hidden * y.itemsize)
    tile = Sum(min(COLUMNS // 2, power_of_2(hidden)), space.n_pes == 2, moves.chunks > programs())
    combine_tokens[(2 * programs(),)](
        dest, y, pairs, topk_weights, ids, tokens, most, experts, table_of(space, most * k), *moves,
        context(), CALL=constants_of(space, k), SUM=tile, **LAUNCH,
    )  # fmt: skip
    return dest
