# SPDX-License-Identifier: BSD-3-Clause
"""``torch.ops.pyshmem``: the matrix products as operators, for torch.compile, graphs and autograd.

``team`` is a number, as for the operators of ``pyshmem.interop.torch``: 0 for ``TEAM_WORLD``, else what
``register_team`` gives. ``all_gather_matmul`` returns the gathered rows too, or, without
``gathered=True``, a tensor without rows in their place.

The loss is the sum of the PEs' losses: a PE's gradient is what all PEs' results owe to its input. With
an activation, and for float8_e4m3fn, there is no derivative. A derivative is collective, so the same
arguments require grad on all members.
"""

from __future__ import annotations

from typing import Any

import torch

from ..._torch.arguments import as_bytes
from ..._torch.teams import TAGS, team_of
from .._shared.workspace import workspace
from .arguments import FP8, problem, share_of_rows
from .dispatch import gather, scatter
from .unfused import all_gather_bytes, sum_rows

_COMMON = (
    "Tensor w, Tensor? bias=None, str? activation=None, Tensor? scale_x=None, "
    "Tensor? scale_w=None, ScalarType? out_dtype=None, SymInt[]? rows=None, "
)
_SCHEMAS = {
    "all_gather_matmul":
        f"(Tensor x, {_COMMON}bool gathered=False, int team=0, str? algorithm=None) -> (Tensor, Tensor)",
    "matmul_reduce_scatter": f"(Tensor x, {_COMMON}int team=0, str? algorithm=None) -> Tensor",
    "matmul_all_reduce": f"(Tensor x, {_COMMON}int team=0, str? algorithm=None) -> Tensor",
    # What derivatives need besides; without derivatives of their own.
    "matmul_gather_rows": "(Tensor x, SymInt[]? rows=None, int team=0) -> Tensor",
    "matmul_sum_rows": "(Tensor x, SymInt[]? rows=None, int team=0) -> Tensor",
}  # fmt: skip

_library = torch.library.Library("pyshmem", "FRAGMENT")


# ---- bodies --------------------------------------------------------------------------------------


def _all_gather_matmul(
    x: Any, w: Any, bias: Any = None, activation: Any = None, scale_x: Any = None,
    scale_w: Any = None, out_dtype: Any = None, rows: Any = None, gathered: bool = False,
    team: int = 0, algorithm: str | None = None,
) -> Any:  # fmt: skip
    p = problem(
        "all_gather_matmul", x, w, bias, activation, scale_x, scale_w, out_dtype, rows,
        team_of(team),
    )  # fmt: skip
    out = x.new_empty((p.n_rows, p.n), dtype=p.out_dtype)
    everything = x.new_empty((p.n_rows if gathered else 0, p.k))
    gather(p, out, everything if gathered else None, algorithm)
    return out, everything


def _scattered(operation: str) -> Any:
    def body(
        x: Any, w: Any, bias: Any = None, activation: Any = None, scale_x: Any = None,
        scale_w: Any = None, out_dtype: Any = None, rows: Any = None, team: int = 0,
        algorithm: str | None = None,
    ) -> Any:  # fmt: skip
        p = problem(
            operation, x, w, bias, activation, scale_x, scale_w, out_dtype, rows, team_of(team)
        )
        height = p.n_rows if operation == "matmul_all_reduce" else p.rows[p.space.me]
        out = x.new_empty((height, p.n), dtype=p.out_dtype)
        scatter(p, out, algorithm)
        return out

    return body


def _gather_rows(x: Any, rows: Any = None, team: int = 0) -> Any:
    space = workspace(team_of(team))
    counts = list(rows or [x.shape[0]] * space.n_pes)
    width = x.shape[1] * x.dtype.itemsize
    given = as_bytes(x.contiguous())
    found = all_gather_bytes(space, given, max(max(counts) * width, 1))
    parts = [found[member][: count * width] for member, count in enumerate(counts)]
    return torch.cat(parts).view(x.dtype).view(sum(counts), x.shape[1])


def _sum_rows(x: Any, rows: Any = None, team: int = 0) -> Any:
    space = workspace(team_of(team))
    counts = tuple(rows or share_of_rows(x.shape[0], space.n_pes))
    mine = x.new_empty((counts[space.me], x.shape[1]))
    sum_rows(space, x.contiguous(), counts, mine)
    return _gather_rows(mine, counts, team)


_BODIES = {
    "all_gather_matmul": _all_gather_matmul,
    "matmul_reduce_scatter": _scattered("matmul_reduce_scatter"),
    "matmul_all_reduce": _scattered("matmul_all_reduce"),
    "matmul_gather_rows": _gather_rows,
    "matmul_sum_rows": _sum_rows,
}


# ---- what compilers see ----------------------------------------------------------------------------


def _result_dtype(x: Any, wanted: Any) -> Any:
    return wanted or (torch.bfloat16 if x.dtype == FP8 else x.dtype)


def _total(x: Any, rows: Any, team: int) -> Any:
    return sum(rows) if rows is not None else x.shape[0] * team_of(team).n_pes()


def _fake_all_gather_matmul(
    x: Any, w: Any, bias: Any = None, activation: Any = None, scale_x: Any = None,
    scale_w: Any = None, out_dtype: Any = None, rows: Any = None, gathered: bool = False,
    team: int = 0, algorithm: Any = None,
) -> Any:  # fmt: skip
    total = _total(x, rows, team)
    out = x.new_empty((total, w.shape[1]), dtype=_result_dtype(x, out_dtype))
    return out, x.new_empty((total if gathered else 0, x.shape[1]))


def _fake_reduce_scatter(
    x: Any, w: Any, bias: Any = None, activation: Any = None, scale_x: Any = None,
    scale_w: Any = None, out_dtype: Any = None, rows: Any = None, team: int = 0, algorithm: Any = None,
) -> Any:  # fmt: skip
    me, n_pes = team_of(team).my_pe(), team_of(team).n_pes()
    if rows is None:
        rest = x.shape[0] - n_pes * (x.shape[0] // n_pes)
        height = x.shape[0] // n_pes + (1 if me < rest else 0)
    else:
        height = rows[me]
    return x.new_empty((height, w.shape[1]), dtype=_result_dtype(x, out_dtype))


def _fake_all_reduce(
    x: Any, w: Any, bias: Any = None, activation: Any = None, scale_x: Any = None,
    scale_w: Any = None, out_dtype: Any = None, rows: Any = None, team: int = 0, algorithm: Any = None,
) -> Any:  # fmt: skip
    return x.new_empty((x.shape[0], w.shape[1]), dtype=_result_dtype(x, out_dtype))


_FAKES = {
    "all_gather_matmul": _fake_all_gather_matmul,
    "matmul_reduce_scatter": _fake_reduce_scatter,
    "matmul_all_reduce": _fake_all_reduce,
    "matmul_gather_rows":
        lambda x, rows=None, team=0: x.new_empty((_total(x, rows, team), x.shape[1])),
    "matmul_sum_rows": lambda x, rows=None, team=0: x.new_empty(x.shape),
}  # fmt: skip


# ---- derivatives -----------------------------------------------------------------------------------


def _keep(ctx: Any, inputs: Any, output: Any) -> None:
    x, w, _, activation, *_, team, _ = inputs
    if isinstance(output, tuple):
        ctx.mark_non_differentiable(output[1])
    if activation is not None or x.dtype == FP8:
        ctx.refused = f"activation {activation!r}" if activation else "float8_e4m3fn"
        return
    ctx.refused, ctx.team, ctx.rows = None, team, inputs[7]
    kept = output[1] if isinstance(output, tuple) and output[1].shape[0] else x
    ctx.gathered = kept is not x
    ctx.save_for_backward(kept, w)


def _begin(ctx: Any, operation: str) -> tuple[Any, Any]:
    if ctx.refused:
        raise NotImplementedError(f"{operation} with {ctx.refused} has no derivative")
    kept, w = ctx.saved_tensors
    return kept, w


def _needed(ctx: Any) -> tuple[bool, bool, bool]:
    """Whether x, w and bias need gradients; arguments that a caller left out are not among them."""
    x, w, bias = (*ctx.needs_input_grad, False)[:3]
    return x, w, bias


def _all_gather_matmul_backward(ctx: Any, grad: Any, grad_gathered: Any) -> Any:
    kept, w = _begin(ctx, "all_gather_matmul")
    grad = grad.contiguous()
    rows = ctx.rows
    need_x, need_w, need_bias = _needed(ctx)
    of_x = of_w = of_bias = None
    if need_x:
        of_x = torch.ops.pyshmem.matmul_reduce_scatter(
            grad, w.t(), None, None, None, None, None, rows, ctx.team
        )
    if need_w:
        if not ctx.gathered:
            kept = torch.ops.pyshmem.matmul_gather_rows(kept, rows, ctx.team)
        of_w = kept.t() @ grad
    if need_bias:
        of_bias = grad.sum(0)
    return of_x, of_w, of_bias, *(None,) * 8


def _reduce_scatter_backward(ctx: Any, grad: Any) -> Any:
    x, w = _begin(ctx, "matmul_reduce_scatter")
    grad = grad.contiguous()
    n_pes = team_of(ctx.team).n_pes()
    rows = ctx.rows if ctx.rows is not None else list(share_of_rows(x.shape[0], n_pes))
    need_x, need_w, need_bias = _needed(ctx)
    of_x = of_w = of_bias = whole = None
    if need_x:
        of_x, whole = torch.ops.pyshmem.all_gather_matmul(
            grad, w.t(), None, None, None, None, None, rows, need_w, ctx.team
        )
    elif need_w:
        whole = torch.ops.pyshmem.matmul_gather_rows(grad, rows, ctx.team)
    if need_w:
        of_w = x.t() @ whole
    if need_bias:
        of_bias = grad.sum(0)
    return of_x, of_w, of_bias, *(None,) * 7


def _all_reduce_backward(ctx: Any, grad: Any) -> Any:
    x, w = _begin(ctx, "matmul_all_reduce")
    members = team_of(ctx.team)
    rows = ctx.rows if ctx.rows is not None else list(share_of_rows(x.shape[0], members.n_pes()))
    whole = torch.ops.pyshmem.matmul_sum_rows(grad, rows, ctx.team)
    need_x, need_w, need_bias = _needed(ctx)
    of_bias = None
    if need_bias:  # that of a row's owner is what all have added
        first = sum(rows[: members.my_pe()])
        of_bias = whole[first : first + rows[members.my_pe()]].sum(0)
    of_x = whole @ w.t() if need_x else None
    return of_x, x.t() @ whole if need_w else None, of_bias, *(None,) * 7


_BACKWARD = {
    "all_gather_matmul": _all_gather_matmul_backward,
    "matmul_reduce_scatter": _reduce_scatter_backward,
    "matmul_all_reduce": _all_reduce_backward,
}


def _declare() -> None:
    for name, schema in _SCHEMAS.items():
        _library.define(name + schema, tags=TAGS)
        _library.impl(name, _BODIES[name], "CPU")
        _library.impl(name, _BODIES[name], "CUDA")
        torch.library.register_fake(f"pyshmem::{name}", _FAKES[name], lib=_library)
        if name in _BACKWARD:
            torch.library.register_autograd(
                f"pyshmem::{name}", _BACKWARD[name], setup_context=_keep, lib=_library
            )


_declare()
