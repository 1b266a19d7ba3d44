# SPDX-License-Identifier: BSD-3-Clause
"""All-to-all of equal and uneven parts, and an all-gather for small messages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from ..._core import errors
from ..._torch.teams import TAGS, team_of
from ...host.teams.team import TEAM_WORLD, Team
from .._shared.arguments import as_counts, check_tensor, on_tensors, refuse_grad, result
from .._shared.slots import gather_numbers
from .._shared.team_numbers import check_input, number
from .._shared.workspace import Workspace, workspace
from ..formats.api import swizzle, unswizzle
from ..formats.block_tensor import BlockTensor, checked
from ..formats.table import compared_global_scale
from . import kernels
from .launch import algorithm_of, as_units, by_flags, even, in_turn, move

#: Whatever moves as bytes.
MOVED = (
    torch.float32, torch.bfloat16, torch.float16, torch.float64, torch.float8_e4m3fn,
    torch.float8_e5m2, torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool,
)  # fmt: skip


def _check_splits(space: Workspace, name: str, splits: Sequence[int], rows: int | None) -> None:
    if len(splits) != space.n_pes or any(one < 0 for one in splits):
        raise ValueError(
            f"{name} is {list(splits)}: give the rows of each of the {space.n_pes} members"
        )
    if rows is not None and sum(splits) != rows:
        raise ValueError(f"{name} {list(splits)} has a sum of {sum(splits)}; x has {rows} rows")


def _agree_on_splits(space: Workspace, outputs: Sequence[int], inputs: Sequence[int]) -> None:
    """Raises on all members unless what each sends is what the others wait for.

    The first calls are looked at, in checking mode all: one that sends more than another waits for
    leaves rows behind that the next call takes for its own.
    """
    if space.n_pes == 1 or not space.checks:
        return
    counts = gather_numbers(space, *outputs, *inputs)
    n = space.n_pes
    for sender in range(n):
        for receiver in range(n):
            sent, wanted = counts[sender, n + receiver], counts[receiver, sender]
            if sent != wanted:
                raise errors.MismatchError(
                    f"all_to_all: PE {sender} has {sent} rows for PE {receiver}, which has "
                    f"output_splits for {wanted}"
                )


def uneven(
    x: torch.Tensor, outputs: Sequence[int], inputs: Sequence[int], space: Workspace,
    out: torch.Tensor | None,
) -> torch.Tensor:  # fmt: skip
    """``all_to_all`` with splits."""
    _check_splits(space, "input_splits", inputs, x.shape[0])
    _check_splits(space, "output_splits", outputs, None)
    dest = result("out", out, (sum(outputs), *x.shape[1:]), x.dtype, x, (("x", x),))
    space.agree("all_to_all", dtype=x.dtype, row=tuple(x.shape[1:]))
    _agree_on_splits(space, outputs, inputs)
    row = x.shape[1:].numel() * x.itemsize
    if row:
        units_x, units_out = as_units(row, x, dest)
        width = row // units_x.itemsize
        move(space, units_out, units_x, in_turn(inputs, width), in_turn(outputs, width))
    return dest


def equal(
    x: torch.Tensor, space: Workspace, out: torch.Tensor | None, algorithm: str | None
) -> torch.Tensor:
    """``all_to_all`` without splits."""
    n = space.n_pes
    if x.shape[0] % n:
        raise ValueError(f"x has {x.shape[0]} rows, which is no multiple of {n} PEs; give splits")
    dest = result("out", out, x.shape, x.dtype, x, (("x", x),))
    space.agree("all_to_all", dtype=x.dtype, x=tuple(x.shape), algorithm=algorithm)
    nbytes = x.nbytes // n
    taken = algorithm_of(space, "all_to_all", x, nbytes, algorithm)
    if nbytes and taken == "ll":
        by_flags(space, kernels.alltoall_ll, dest, x, nbytes)
    elif nbytes:
        units_x, units_out = as_units(nbytes, x, dest)
        part = nbytes // units_x.itemsize
        move(space, units_out, units_x, even(n, part), even(n, part))
    return dest


def gather(
    x: torch.Tensor, space: Workspace, out: torch.Tensor | None, algorithm: str | None
) -> torch.Tensor:
    """``low_latency_all_gather`` of a tensor of one or more dimensions."""
    n = space.n_pes
    dest = result("out", out, (n * x.shape[0], *x.shape[1:]), x.dtype, x, (("x", x),))
    space.agree("low_latency_all_gather", dtype=x.dtype, x=tuple(x.shape), algorithm=algorithm)
    taken = algorithm_of(space, "low_latency_all_gather", x, x.nbytes, algorithm)
    if x.nbytes and taken == "ll":
        by_flags(space, kernels.all_gather_ll, dest, x, x.nbytes)
    elif x.nbytes:
        units_x, units_out = as_units(x.nbytes, x, dest)
        part = units_x.numel()
        move(space, units_out, units_x, even(n, part, 0), even(n, part))
    return dest


def exchange(
    x: torch.Tensor, outputs: Sequence[int] | None, inputs: Sequence[int] | None, team: Team,
    algorithm: str | None, out: torch.Tensor | None = None,
) -> torch.Tensor:  # fmt: skip
    """The body of ``all_to_all``."""
    check_tensor("x", x, MOVED)
    if not x.dim():
        raise ValueError("x is a scalar; parts are along dimension 0")
    if (outputs is None) != (inputs is None):
        raise ValueError("give both of output_splits and input_splits, or none")
    space = workspace(team)
    if outputs is None or inputs is None:
        return equal(x, space, out, algorithm)
    if algorithm not in (None, "simple"):
        raise ValueError(f"all_to_all by {algorithm}: parts are not equal")
    return uneven(x, as_counts(outputs), as_counts(inputs), space, out)


@on_tensors
def all_to_all(
    x: Any, *, output_splits: Sequence[int] | None = None, input_splits: Sequence[int] | None = None,
    team: Team = TEAM_WORLD, out: Any = None, algorithm: str | None = None,
) -> Any:  # fmt: skip
    """Send a part of ``x`` to each member, and join what they send, both along dimension 0.

    Args:
        x: (rows, ...), contiguous, any dtype; the same dtype and further extents on all members. Part p
            goes to member p.
        output_splits, input_splits: rows that come from each member, and rows of ``x`` that go to each;
            0 is allowed. Default: equal parts, and the same number of rows on all members.
        team: default ``TEAM_WORLD``.
        out: where the result goes; default: a new tensor.
        algorithm: "ll" (flags in the data: small equal parts) or "simple"; default by the tables.

    Returns: (sum of ``output_splits``, ...), the parts in the order of the members. It has a derivative
        unless ``out`` is given: the gradients' all-to-all.
    Completes: in the order of the current stream. Collective.
    Raises: ValueError (splits, layout, algorithm), TypeError; MismatchError (members differ, or a
        member sends what another does not wait for: in the first calls, in checking mode in all).
    Spec: shmem_alltoall; uneven parts are an extension.
    """
    if out is not None:
        refuse_grad("all_to_all with out=", x, out)
        return exchange(x, output_splits, input_splits, team, algorithm, out)
    check_input(x)
    splits = [None if one is None else as_counts(one) for one in (output_splits, input_splits)]
    return torch.ops.pyshmem.fused_all_to_all(x, *splits, number(team), algorithm)


@on_tensors
def low_latency_all_gather(
    x: Any, *, team: Team = TEAM_WORLD, out: Any = None, algorithm: str | None = None
) -> Any:
    """Join the tensors of all members along dimension 0, in one kernel and without flags of its own.

    Args:
        x: (rows, ...), contiguous, any dtype; the same size on all members. Or a ``formats.BlockTensor``
            of (rows, ..., hidden): elements and scales travel as they are, in one call of this each.
        team: default ``TEAM_WORLD``.
        out: where the result goes; default: a new tensor.
        algorithm: "ll", up to some hundred KiB, or "simple"; default by the tables.

    Returns: (n_pes * rows, ...), or a BlockTensor of it, in the same format, whose global scale is the
        caller's, so all members have the same. It has a derivative unless ``out`` is given, or ``x`` is
        in blocks: the sum, in PE order and in float32, of what all members' results owe to ``x``.
    Completes: in the order of the current stream. Collective.
    Raises: ValueError, TypeError; MismatchError (members differ); UnsupportedError (blocks in compiled
        code, or on a GPU without FP8).
    Spec: shmem_fcollect.
    """
    if isinstance(x, BlockTensor):
        return _gather_blocks(x, team, algorithm, out)
    if out is not None:
        refuse_grad("low_latency_all_gather with out=", x, out)
        return gather_into(x, team, algorithm, out)
    check_input(x)
    return torch.ops.pyshmem.low_latency_all_gather(x, number(team), algorithm)


def _gather_blocks(x: BlockTensor, team: Team, algorithm: str | None, out: Any) -> BlockTensor:
    """Scales in tiles go by tiles if no tile has rows of two members; else they are laid out anew."""
    if torch.compiler.is_compiling():
        raise errors.UnsupportedError(
            "low_latency_all_gather of blocks is not traced by torch.compile"
        )
    if out is not None:
        raise ValueError("out= is a tensor; elements in blocks come with scales, in new tensors")
    data, scales, format_ = checked("x", x)
    if data.dim() < 2:
        raise ValueError(f"x.elements has size {tuple(data.shape)}; rows are along dimension 0")
    space = workspace(team)
    unit = compared_global_scale(x.global_scale, space)
    space.agree("low_latency_all_gather", format=x.quantize, global_scale=unit)
    hidden = data.shape[-1] * format_.per_byte
    rows, blocks = data.numel() // data.shape[-1], format_.blocks(hidden)
    apart = format_.swizzled and rows % 128 != 0
    if apart:
        scales = unswizzle(scales, rows, blocks)
    elements, factors = (gather_into(one, team, algorithm) for one in (data, scales))
    factors = swizzle(factors) if apart else factors
    return BlockTensor(
        elements.view(format_.dtype), factors.view(format_.scale_dtype), x.quantize, x.global_scale
    )


def gather_into(
    x: torch.Tensor, team: Team, algorithm: str | None, out: torch.Tensor | None = None
) -> torch.Tensor:
    """The body of ``low_latency_all_gather``."""
    check_tensor("x", x, MOVED)
    if not x.dim():
        raise ValueError("x is a scalar; parts are along dimension 0")
    return gather(x, workspace(team), out, algorithm)


# ---- operators -----------------------------------------------------------------------------------

_library = torch.library.Library("pyshmem", "FRAGMENT")


def _all_to_all(
    input: Any,
    output_splits: Any = None,
    input_splits: Any = None,
    team: int = 0,
    algorithm: Any = None,
) -> Any:
    return exchange(input, output_splits, input_splits, team_of(team), algorithm)


def _fake_all_to_all(
    input: Any,
    output_splits: Any = None,
    input_splits: Any = None,
    team: int = 0,
    algorithm: Any = None,
) -> Any:
    rows = input.shape[0] if output_splits is None else sum(output_splits)
    return input.new_empty((rows, *input.shape[1:]))


def _all_to_all_backward(ctx: Any, grad: Any) -> Any:
    outputs, inputs, team, algorithm = ctx.given
    back = torch.ops.pyshmem.fused_all_to_all(grad.contiguous(), inputs, outputs, team, algorithm)
    return back, None, None, None, None


def _all_gather(input: Any, team: int = 0, algorithm: Any = None) -> Any:
    return gather_into(input, team_of(team), algorithm)


def _fake_all_gather(input: Any, team: int = 0, algorithm: Any = None) -> Any:
    return input.new_empty((team_of(team).n_pes() * input.shape[0], *input.shape[1:]))


def _all_gather_backward(ctx: Any, grad: Any) -> Any:
    team, _ = ctx.given
    back = torch.ops.pyshmem.fused_all_to_all(grad.contiguous(), None, None, team, None)
    n = team_of(team).n_pes()
    shares = back.view(n, back.shape[0] // n, *back.shape[1:]).unbind(0)
    total = shares[0].float() if grad.dtype.itemsize < 4 else shares[0].clone()
    for share in shares[1:]:
        total += share
    return total.to(grad.dtype), None, None


def keep(ctx: Any, inputs: Any, output: Any) -> None:
    """What derivatives need to know: how the operator was called."""
    ctx.given = inputs[1:]


def declare(name: str, schema: str, body: Any, fake: Any, backward: Any, kept: Any = keep) -> None:
    """Make ``torch.ops.pyshmem.<name>`` of a body, what compilers see, and a derivative."""
    _library.define(name + schema, tags=TAGS)
    for device in ("CPU", "CUDA"):
        _library.impl(name, body, device)
    torch.library.register_fake(f"pyshmem::{name}", fake, lib=_library)
    if backward is not None:
        torch.library.register_autograd(
            f"pyshmem::{name}", backward, setup_context=kept, lib=_library
        )


declare(
    "fused_all_to_all",
    "(Tensor input, SymInt[]? output_splits=None, SymInt[]? input_splits=None, int team=0, "
    "str? algorithm=None) -> Tensor",
    _all_to_all, _fake_all_to_all, _all_to_all_backward,
)  # fmt: skip
declare(
    "low_latency_all_gather", "(Tensor input, int team=0, str? algorithm=None) -> Tensor",
    _all_gather, _fake_all_gather, _all_gather_backward,
)  # fmt: skip
