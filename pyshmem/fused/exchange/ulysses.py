# SPDX-License-Identifier: BSD-3-Clause
"""Ulysses: attention's activations change between a split sequence and split heads."""

from __future__ import annotations

from typing import Any

import torch

from ..._torch.teams import team_of
from ...host.teams.team import TEAM_WORLD, Team
from .._shared.arguments import check_tensor, on_tensors, refuse_grad, result
from .._shared.team_numbers import check_input, number
from .._shared.workspace import workspace
from .all_to_all import MOVED, declare
from .launch import Parts, Rows, as_units, even, move


def _turned(size: Any, n: int, to_heads: bool) -> tuple[int, ...]:
    """The size of the result."""
    batch, sequence, heads, d = size
    if to_heads:
        return batch, sequence * n, heads // n, d
    return batch, sequence // n, heads * n, d


def _turn(
    x: torch.Tensor, to_heads: bool, team: Team, out: torch.Tensor | None = None
) -> torch.Tensor:
    """Rows of the heads of one member go there, and come to where their place in the sequence is."""
    name = "ulysses_to_heads" if to_heads else "ulysses_to_sequence"
    check_tensor("x", x, MOVED, 4)
    space = workspace(team)
    n = space.n_pes
    dimension, word = (2, "heads") if to_heads else (1, "positions")
    if x.shape[dimension] % n:
        raise ValueError(f"{name}: {x.shape[dimension]} {word} cannot be split over {n} PEs")
    dest = result("out", out, _turned(x.shape, n, to_heads), x.dtype, x, (("x", x),))
    space.agree(name, dtype=x.dtype, x=tuple(x.shape))
    if not x.numel():
        return dest
    batch, local, heads, d = (x if to_heads else dest).shape
    nbytes = heads // n * d * x.itemsize
    units_x, units_out = as_units(nbytes, x, dest)
    width = nbytes // units_x.itemsize
    elems = batch * local * width
    split: tuple[Parts, Rows] = even(n, elems, width), Rows(1 << 30, 0, n * width)
    whole = even(n, elems, local * width), Rows(local, n * local * width, width)
    (to, x_rows), (come, out_rows) = (split, whole) if to_heads else (whole, split)
    move(space, units_out, units_x, to, come, width, x_rows, out_rows)
    return dest


@on_tensors
def ulysses_to_heads(x: Any, *, team: Team = TEAM_WORLD, out: Any = None) -> Any:
    """From a part of the sequence with all heads to the whole sequence with a part of the heads.

    Args:
        x: (batch, positions, heads, d), contiguous, any dtype; the same size on all members, whose
            positions follow each other in their order. ``heads`` is a multiple of their number.
        team: default ``TEAM_WORLD``.
        out: where the result goes; default: a new tensor.

    Returns: (batch, n_pes * positions, heads / n_pes, d): of the heads, member p has the p-th part. The
        derivative, unless ``out`` is given, is ``ulysses_to_sequence``.
    Completes: in the order of the current stream. Collective.
    Raises: ValueError (sizes, layout), TypeError; MismatchError (members differ).
    Extension.
    """
    if out is not None:
        refuse_grad("ulysses_to_heads with out=", x, out)
        return _turn(x, True, team, out)
    check_input(x)
    return torch.ops.pyshmem.ulysses_to_heads(x, number(team))


@on_tensors
def ulysses_to_sequence(x: Any, *, team: Team = TEAM_WORLD, out: Any = None) -> Any:
    """The other way round: from a part of the heads to a part of the sequence.

    Args:
        x: (batch, positions, heads, d), contiguous, any dtype: all positions and the caller's heads.
            The number of positions is a multiple of that of the members.
        team, out: as for ``ulysses_to_heads``, which is the derivative.

    Returns: (batch, positions / n_pes, n_pes * heads, d).
    Completes: in the order of the current stream. Collective.
    Raises: as ``ulysses_to_heads``.
    Extension.
    """
    if out is not None:
        refuse_grad("ulysses_to_sequence with out=", x, out)
        return _turn(x, False, team, out)
    check_input(x)
    return torch.ops.pyshmem.ulysses_to_sequence(x, number(team))


def _body(to_heads: bool) -> Any:
    def body(input: Any, team: int = 0) -> Any:
        return _turn(input, to_heads, team_of(team))

    return body


def _fake(to_heads: bool) -> Any:
    def fake(input: Any, team: int = 0) -> Any:
        return input.new_empty(_turned(input.shape, team_of(team).n_pes(), to_heads))

    return fake


def _backward(name: str) -> Any:
    def backward(ctx: Any, grad: Any) -> Any:
        return getattr(torch.ops.pyshmem, name)(grad.contiguous(), *ctx.given), None

    return backward


_NAMES = "ulysses_to_sequence", "ulysses_to_heads"
for _heads in (True, False):
    declare(
        _NAMES[_heads], "(Tensor input, int team=0) -> Tensor", _body(_heads), _fake(_heads),
        _backward(_NAMES[not _heads]),
    )  # fmt: skip
