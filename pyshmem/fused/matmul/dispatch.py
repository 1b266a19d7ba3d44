# SPDX-License-Identifier: BSD-3-Clause
"""By which road a matrix product goes: the table, what can do it, and the call."""

from __future__ import annotations

from collections.abc import Callable

import torch

from .._shared.algorithm import NEVER, choose
from .arguments import Problem
from .copy_engine import gather_by_engine, scatter_by_engine, why_no_engine
from .local import layout_of, multiply
from .persistent import gather_by_tiles, scatter_by_tiles, why_no_tiles
from .unfused import gather_plainly, scatter_plainly

#: Until somebody has measured: few bytes are gone before two products could begin.
_DEFAULT = ((1 << 20, "plain"), (NEVER, "engine"))
_GATHERS: dict[str, Callable[..., None]] = {
    "engine": gather_by_engine, "tiles": gather_by_tiles, "plain": gather_plainly,
}  # fmt: skip
_SCATTERS: dict[str, Callable[..., None]] = {
    "engine": scatter_by_engine, "tiles": scatter_by_tiles, "plain": scatter_plainly,
}  # fmt: skip


def crossing(p: Problem) -> int:
    """Bytes that arrive at the member to which most come; the same on all."""
    others = p.space.n_pes - 1
    if p.operation == "all_gather_matmul":
        return (p.n_rows - min(p.rows)) * p.k * p.x.dtype.itemsize
    partials = max(p.rows) * others
    results = p.n_rows - min(p.rows) if p.operation == "matmul_all_reduce" else 0
    return (partials + results) * p.n * p.out_dtype.itemsize


def _road(p: Problem, road: str | None) -> str:
    def make() -> str:
        can = {"engine": why_no_engine(p), "tiles": why_no_tiles(p), "plain": layout_of(p)}
        return choose(p.space, p.operation, crossing(p), can, _DEFAULT, road)

    taken: str = p.plan(("road", road), make)
    return taken


def _agree(p: Problem, road: str | None) -> None:
    """What has to be alike on all members: compared once, and in checking mode in each call."""
    if not p.space.checks and p.plans.get(("agreed", road)):
        return
    facts = road, p.x.dtype, p.out_dtype, p.by_row, layout_of(p) is None
    if p.operation != "all_gather_matmul":
        p.space.agree(p.operation, p.rows, p.n, *facts)
    else:
        p.space.agree_on_rows(p.operation, p.rows, p.k, *facts)
    p.plans["agreed", road] = True


def _alone(p: Problem, road: str | None) -> None:
    if road is not None and road not in _GATHERS:
        raise ValueError(f"{p.operation} has no road {road!r}; it has {', '.join(_GATHERS)}")
    if why := layout_of(p):
        raise ValueError(f"{p.operation}: {why}")


def gather(
    p: Problem, out: torch.Tensor, gathered: torch.Tensor | None, road: str | None = None
) -> None:
    """all_gather_matmul into ``out``."""
    _agree(p, road)
    if p.space.n_pes == 1:
        _alone(p, road)
        multiply(p, out, p.x, p.scale_x, whole=True)
        if gathered is not None:
            gathered.copy_(p.x)
    elif p.n_rows:
        _GATHERS[_road(p, road)](p, out, gathered)


def scatter(p: Problem, out: torch.Tensor, road: str | None = None) -> None:
    """matmul_reduce_scatter or matmul_all_reduce into ``out``."""
    _agree(p, road)
    if p.space.n_pes == 1:
        _alone(p, road)
        multiply(p, out, p.x, p.scale_x, whole=True)
    elif p.n_rows:
        _SCATTERS[_road(p, road)](p, out)
