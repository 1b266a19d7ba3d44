# SPDX-License-Identifier: BSD-3-Clause
"""``torch.ops.pyshmem``: collectives and signals as operators, for eager code, torch.compile and graphs.

Names that end in ``_`` or ``_out`` write tensors that are given, all on a symmetric heap and
contiguous: one call of the library, without a copy. The others return new tensors; they go through
staging memory and have derivatives. With ``copy=True`` tensors may lie anywhere, and all forms go
through it. CUDA tensors: in the order of torch's current stream. CPU tensors: done on return.

``team`` is a number: 0 for ``TEAM_WORLD``, else what ``register_team`` gives. What an operator writes
is in its schema, so that a compiler keeps their order: signals name the data that they tell of, a
barrier names a tensor.
"""

from __future__ import annotations

from typing import Any

import torch

from .._foreign.torch import BelowAutograd
from .operator_bodies import BODIES
from .teams import TAGS, team_of

_SCHEMAS = {
    "all_reduce": "(Tensor input, str op='sum', int team=0, bool copy=False) -> Tensor",
    "all_reduce_": "(Tensor(a!) tensor, str op='sum', int team=0, bool copy=False) -> ()",
    "all_gather": "(Tensor input, int team=0, bool copy=False) -> Tensor",
    "all_gather_out": "(Tensor(a!) out, Tensor input, int team=0, bool copy=False) -> ()",
    "reduce_scatter": "(Tensor input, str op='sum', int team=0, bool copy=False) -> Tensor",
    "reduce_scatter_out":
        "(Tensor(a!) out, Tensor input, str op='sum', int team=0, bool copy=False) -> ()",
    "all_to_all": "(Tensor input, int team=0, bool copy=False) -> Tensor",
    "all_to_all_out": "(Tensor(a!) out, Tensor input, int team=0, bool copy=False) -> ()",
    "broadcast": "(Tensor input, int root, int team=0, bool copy=False) -> Tensor",
    "broadcast_": "(Tensor(a!) tensor, int root, int team=0, bool copy=False) -> ()",
    "put_signal":
        "(Tensor(a!) dest, Tensor source, Tensor(b!) sig, int signal, int sig_op, int pe) -> ()",
    "wait_signal": "(Tensor(a!) sig, int cmp, int value, Tensor(b!)? data=None) -> ()",
    "barrier": "(Tensor(a!) tensor, int team=0) -> ()",
}  # fmt: skip

#: Operators are known as long as this is.
_library = torch.library.Library("pyshmem", "DEF")


# ---- what compilers see --------------------------------------------------------------------------


def _fake_like(input: Any, *rest: Any, **options: Any) -> Any:
    return torch.empty_like(input, memory_format=torch.contiguous_format)


def _fake_all_gather(input: Any, team: int = 0, copy: bool = False) -> Any:
    n_pes = team_of(team).n_pes()
    return input.new_empty((n_pes * (input.shape[0] if input.dim() else 1), *input.shape[1:]))


def _fake_reduce_scatter(input: Any, op: str = "sum", team: int = 0, copy: bool = False) -> Any:
    return input.new_empty((input.shape[0] // team_of(team).n_pes(), *input.shape[1:]))


def _fake_nothing(*given: Any, **options: Any) -> None:
    return None


_FAKES = {
    "all_reduce": _fake_like, "all_to_all": _fake_like, "broadcast": _fake_like,
    "all_gather": _fake_all_gather, "reduce_scatter": _fake_reduce_scatter,
}  # fmt: skip


# ---- derivatives ---------------------------------------------------------------------------------
# The loss is the sum of the PEs' losses: a PE's gradient is what all PEs' results owe to its input.


def _keep(ctx: Any, inputs: Any, output: Any) -> None:
    ctx.given = inputs[1:]


def _keep_shape(ctx: Any, inputs: Any, output: Any) -> None:
    ctx.given, ctx.shape = inputs[1:], inputs[0].shape


def _linear(op: str, routine: str) -> None:
    if op not in ("sum", "avg"):
        raise NotImplementedError(f"{routine} with op {op!r} has no derivative; sum and avg have")


def _all_reduce_backward(ctx: Any, grad: Any) -> Any:
    op, team, _ = ctx.given
    _linear(op, "all_reduce")
    return torch.ops.pyshmem.all_reduce(grad, op, team, True), None, None, None


def _all_gather_backward(ctx: Any, grad: Any) -> Any:
    team, _ = ctx.given
    summed = torch.ops.pyshmem.reduce_scatter(grad, "sum", team, True)
    return summed.reshape(ctx.shape), None, None


def _reduce_scatter_backward(ctx: Any, grad: Any) -> Any:
    op, team, _ = ctx.given
    _linear(op, "reduce_scatter")
    gathered = torch.ops.pyshmem.all_gather(grad, team, True)
    if op == "avg":
        gathered = gathered / team_of(team).n_pes()
    return gathered, None, None, None


def _all_to_all_backward(ctx: Any, grad: Any) -> Any:
    team, _ = ctx.given
    return torch.ops.pyshmem.all_to_all(grad, team, True), None, None


def _broadcast_backward(ctx: Any, grad: Any) -> Any:
    root, team, _ = ctx.given
    summed = torch.ops.pyshmem.all_reduce(grad, "sum", team, True)
    mine = team_of(team).my_pe() == root
    return summed if mine else torch.zeros_like(summed), None, None, None


_BACKWARD = {
    "all_reduce": (_all_reduce_backward, _keep),
    "all_gather": (_all_gather_backward, _keep_shape),
    "reduce_scatter": (_reduce_scatter_backward, _keep),
    "all_to_all": (_all_to_all_backward, _keep),
    "broadcast": (_broadcast_backward, _keep),
}


def _refusing(name: str) -> Any:
    """What autograd calls of an operator that writes its arguments: there is no derivative."""
    operator = getattr(torch.ops.pyshmem, name).default
    written = [i for i, a in enumerate(operator._schema.arguments) if a.is_write]

    def call(*given: Any, **options: Any) -> None:
        tensors = [one for one in (*given, *options.values()) if isinstance(one, torch.Tensor)]
        if torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors):
            functional = name.removesuffix("_out").removesuffix("_")
            raise RuntimeError(
                f"pyshmem::{name} writes a tensor and has no derivative, but a tensor requires grad; "
                + (f"use pyshmem::{functional}, or " if functional in _BACKWARD else "")
                + "torch.no_grad() or tensor.detach()"
            )
        for i in written:  # so that autograd finds what it had kept of them changed
            if i < len(given) and given[i] is not None and not given[i].is_inference():
                torch.autograd.graph.increment_version(given[i])
        with BelowAutograd():
            operator(*given, **options)

    return call


def _declare() -> None:
    for name, schema in _SCHEMAS.items():
        qualified = f"pyshmem::{name}"
        _library.define(name + schema, tags=TAGS)
        _library.impl(name, BODIES[name], "CPU")
        _library.impl(name, BODIES[name], "CUDA")
        torch.library.register_fake(qualified, _FAKES.get(name, _fake_nothing), lib=_library)
        if name in _BACKWARD:
            backward, keep = _BACKWARD[name]
            torch.library.register_autograd(qualified, backward, setup_context=keep, lib=_library)
        else:
            _library.impl(name, _refusing(name), "Autograd")
            # Torch would give them a copy of a lazy view, and nobody would see what is written to it.
            for key in ("Conjugate", "Negative"):
                _library.impl(name, torch.library.fallthrough_kernel, key)


_declare()
