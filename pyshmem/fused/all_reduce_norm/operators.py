# SPDX-License-Identifier: BSD-3-Clause
"""``torch.ops.pyshmem.all_reduce_rmsnorm``: the schema, what compilers see, and the derivative.

``team`` is a number, as for all operators of ``torch.ops.pyshmem``. Without FP8 the third result is
empty. ``sum_rows`` is the sum alone, by the same kernels: derivatives need it.
"""

from __future__ import annotations

from typing import Any

import torch

from ..._torch.teams import TAGS, team_of
from . import api as norm
from .launch import GROUP, Request

_NAME = "pyshmem::all_reduce_rmsnorm"
#: It adds to the operators that ``pyshmem.interop.torch`` defines.
_library = torch.library.Library("pyshmem", "FRAGMENT")


def _body(
    x: Any, weight: Any, residual: Any = None, bias: Any = None, eps: float = 1e-6,
    kind: str = "rms", quantize: str | None = None, team: int = 0, algorithm: str | None = None,
    global_scale: Any = None,
) -> tuple[Any, Any, Any]:  # fmt: skip
    given = Request(x, weight, residual, bias, eps, kind, quantize, None, None, None, global_scale)
    output, added, scales = norm.run(given, team_of(team), algorithm)
    return output, added, x.new_empty(0, dtype=torch.float32) if scales is None else scales


def _fake(
    x: Any, weight: Any, residual: Any = None, bias: Any = None, eps: float = 1e-6,
    kind: str = "rms", quantize: str | None = None, team: int = 0, algorithm: str | None = None,
    global_scale: Any = None,
) -> tuple[Any, Any, Any]:  # fmt: skip
    if quantize not in GROUP:
        raise ValueError(norm.wrong_format(quantize))
    (dtype, size), (scale_dtype, scales) = norm.output_of(x, quantize), norm.scales_of(x, quantize)
    output = x.new_empty(size, dtype=dtype)
    return output, torch.empty_like(x), x.new_empty(scales, dtype=scale_dtype)


# ---- the derivative ------------------------------------------------------------------------------
# The loss is the sum of the PEs' losses: the gradient of ``x`` is the sum of the gradients of the sum on
# all PEs. Residual, weight and bias are each PE's own.


def _keep(ctx: Any, inputs: Any, output: Any) -> None:
    _, weight, residual, bias, eps, kind, quantize, team, _, _ = inputs
    ctx.save_for_backward(output[1], weight)
    ctx.given = (
        eps,
        kind,
        quantize,
        team,
        residual is not None,
        None if bias is None else bias.dtype,
    )


def _backward(ctx: Any, grad: Any, grad_residual: Any, grad_scales: Any) -> tuple[Any, ...]:
    eps, kind, quantize, team, has_residual, bias_dtype = ctx.given
    if quantize:
        raise NotImplementedError(
            f"all_reduce_rmsnorm with quantize={quantize!r} has no derivative; without it has"
        )
    added, weight = ctx.saved_tensors
    values, grad = added.float(), grad.float()
    if kind == "layer":
        values = values - values.mean(-1, keepdim=True)
    scale = torch.rsqrt(values.square().mean(-1, keepdim=True) + eps)
    unit = values * scale
    inner = grad * weight.float()
    inner = (inner - unit * (inner * unit).mean(-1, keepdim=True)) * scale
    if kind == "layer":
        inner = inner - inner.mean(-1, keepdim=True)
    owed = (inner + grad_residual.float()).to(added.dtype).contiguous()
    rows = grad.reshape(-1, grad.shape[-1])
    of_weight = (rows * unit.reshape(rows.shape)).sum(0).to(weight.dtype)
    of_bias = None if bias_dtype is None else rows.sum(0).to(bias_dtype)
    of_x = torch.ops.pyshmem.sum_rows(owed, team)
    return of_x, of_weight, owed if has_residual else None, of_bias, *(None,) * 6


def _sum_rows(x: Any, team: int = 0) -> Any:
    return norm.sum_rows(x, team_of(team))


def _keep_team(ctx: Any, inputs: Any, output: Any) -> None:
    ctx.team = inputs[1]


def _sum_rows_backward(ctx: Any, grad: Any) -> tuple[Any, None]:
    return torch.ops.pyshmem.sum_rows(grad.contiguous(), ctx.team), None


def _declare() -> None:
    _library.define(
        "all_reduce_rmsnorm(Tensor x, Tensor weight, Tensor? residual=None, Tensor? bias=None, "
        "float eps=1e-6, str norm='rms', str? quantize=None, int team=0, str? algorithm=None, "
        "Tensor? global_scale=None) "
        "-> (Tensor, Tensor, Tensor)",
        tags=TAGS,
    )
    _library.define("sum_rows(Tensor x, int team=0) -> Tensor", tags=TAGS)
    for device in ("CPU", "CUDA"):
        _library.impl("all_reduce_rmsnorm", _body, device)
        _library.impl("sum_rows", _sum_rows, device)
    torch.library.register_fake(_NAME, _fake, lib=_library)
    torch.library.register_fake(
        "pyshmem::sum_rows", lambda x, team=0: torch.empty_like(x), lib=_library
    )
    torch.library.register_autograd(_NAME, _backward, setup_context=_keep, lib=_library)
    torch.library.register_autograd(
        "pyshmem::sum_rows", _sum_rows_backward, setup_context=_keep_team, lib=_library
    )


_declare()
