# SPDX-License-Identifier: BSD-3-Clause
"""By which algorithm a matrix product goes: the table, what can do it, and the call."""

from __future__ import annotations

from collections.abc import Callable

import torch

from .._shared.algorithm import NEVER, choose
from .._shared.batch_invariant import INVARIANT
from .arguments import Problem
from .copy_engine import gather_by_engine, scatter_by_engine, why_no_engine
from .local import layout_of, multiply
from .persistent import gather_by_tiles, scatter_by_tiles, why_no_tiles
from .unfused import gather_plainly, scatter_plainly

#: Until somebody has measured: few bytes are gone before two products could begin.
_DEFAULT = ((1 << 20, "unfused"), (NEVER, "copy_engine"))
_GATHERS: dict[str, Callable[..., None]] = {
    "copy_engine": gather_by_engine, "persistent": gather_by_tiles, "unfused": gather_plainly,
}  # fmt: skip
_SCATTERS: dict[str, Callable[..., None]] = {
    "copy_engine": scatter_by_engine, "persistent": scatter_by_tiles, "unfused": scatter_plainly,
}  # fmt: skip


def crossing(p: Problem) -> int:
    """Bytes that arrive at the member to which most come; the same on all."""
    others = p.space.n_pes - 1
    if p.operation == "all_gather_matmul":
        return (p.n_rows - min(p.rows)) * p.k * p.x.dtype.itemsize
    partials = max(p.rows) * others
    results = p.n_rows - min(p.rows) if p.operation == "matmul_all_reduce" else 0
    return (partials + results) * p.n * p.out_dtype.itemsize


def _algorithm(p: Problem, algorithm: str | None) -> str:
    """The one of a call. Batch invariant, those that multiply by the same tiles: by cuBLAS none does."""

    def make() -> str:
        if p.invariant:
            return "unfused" if why_no_tiles(p) else "persistent"
        can = {
            "copy_engine": why_no_engine(p),
            "persistent": why_no_tiles(p),
            "unfused": layout_of(p),
        }
        return choose(p.space, p.operation, crossing(p), can, _DEFAULT, algorithm)

    taken: str = p.plan(("algorithm", algorithm), make)
    return taken


def _agree(p: Problem, algorithm: str | None) -> None:
    """What has to be alike on all members: compared once, and in checking mode in each call."""
    if not p.space.checks and p.plans.get(("agreed", algorithm)):
        return
    kind = p.x.dtype if p.blocks is None else p.blocks.formats[0]
    facts = {
        "algorithm": algorithm, "dtype": kind, "out_dtype": p.out_dtype, "scale_of_rows": p.by_row,
        "unfused_can": not layout_of(p),
    }  # fmt: skip
    if p.operation != "all_gather_matmul":
        p.space.agree(p.operation, x_rows=p.rows, w_columns=p.n, **facts)
    else:
        p.space.agree_on_rows(p.operation, p.rows, k=p.k, **facts)
    p.plans["agreed", algorithm] = True


def _as_asked(p: Problem, algorithm: str | None) -> Problem:
    return p._replace(invariant=True) if algorithm == INVARIANT else p


def _alone(p: Problem, algorithm: str | None) -> None:
    if p.invariant:
        return
    if algorithm is not None and algorithm not in _GATHERS:
        raise ValueError(
            f"{p.operation} has no algorithm {algorithm!r}; it has {', '.join(_GATHERS)}"
        )
    if why := layout_of(p):
        raise ValueError(f"{p.operation}: {why}")


def gather(
    p: Problem, out: torch.Tensor, gathered: torch.Tensor | None, algorithm: str | None = None
) -> None:
    """all_gather_matmul into ``out``."""
    p = _as_asked(p, algorithm)
    _agree(p, algorithm)
    if p.space.n_pes == 1:
        _alone(p, algorithm)
        multiply(p, out, p.x, p.scale_x, whole=True)
        if gathered is not None:
            gathered.copy_(p.x)
    elif p.n_rows:
        _GATHERS[_algorithm(p, algorithm)](p, out, gathered)


def scatter(p: Problem, out: torch.Tensor, algorithm: str | None = None) -> None:
    """matmul_reduce_scatter or matmul_all_reduce into ``out``."""
    p = _as_asked(p, algorithm)
    _agree(p, algorithm)
    if p.space.n_pes == 1:
        _alone(p, algorithm)
        multiply(p, out, p.x, p.scale_x, whole=True)
    elif p.n_rows:
        _SCATTERS[_algorithm(p, algorithm)](p, out)
