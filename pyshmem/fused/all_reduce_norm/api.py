# SPDX-License-Identifier: BSD-3-Clause
"""All-reduce, residual, norm and quantisation in one kernel."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import torch

from ..._core.errors import UnsupportedError
from ..._torch.arguments import check_apart
from ...host.job import runtime
from ...host.teams.team import TEAM_WORLD, Team
from .._shared.algorithm import NEVER, Rows, choose
from .._shared.arguments import check_tensor, look, look_at_once, on_tensors
from .._shared.batch_invariant import INVARIANT, check_units, takes_batch_invariant
from .._shared.team_numbers import number
from .._shared.workspace import Workspace, workspace
from ..formats.table import (
    BLOCK_FORMATS,
    check_global_scale,
    compared_global_scale,
    global_scale_tensor,
)
from ..formats.table import lacks_fp8 as _lacks_fp8
from . import launch as norm_launch
from .launch import GROUP, NORMS, Request

_NAME = "all_reduce_rmsnorm"
_DTYPES = (torch.float16, torch.bfloat16, torch.float32)
_FP8 = torch.float8_e4m3fn
#: Results that may be the same memory as what is read: a row is read before it is written.
_IN_PLACE = ("out", "x"), ("residual_out", "residual"), ("residual_out", "x")
_WIDEST = 1 << 20  # elements of Triton's largest tile
_new = tuple.__new__  # of a named tuple without its own, which takes twice as long


class NormResult(NamedTuple):
    """What ``all_reduce_rmsnorm`` returns.

    Attributes:
        output: normalised rows, of the size of ``x``: its dtype, or FP8 e4m3; of NVFP4 two to a byte.
        residual: the sum that was normalised, of the size and dtype of ``x``.
        scales: None, or float32 of size (..., 1) or (..., groups of 128), or those of blocks, as
            ``formats.quantize`` gives them: an element of ``output`` times its scale is what it stands
            for.
    """

    output: Any
    residual: Any
    scales: Any


def _repeated(function: Callable[..., NormResult]) -> Callable[..., NormResult]:
    """``function``, with a way past it for calls like one before: all was found then."""

    @functools.wraps(function)
    def call(
        x: Any, weight: Any, *, residual: Any = None, bias: Any = None, eps: Any = 1e-6,
        norm: Any = "rms", team: Any = TEAM_WORLD, **others: Any,
    ) -> NormResult:  # fmt: skip
        if not others and not torch.compiler.is_compiling():
            done = _again(x, weight, residual, bias, eps, norm, team)
            if done is not None:
                return done
        return function(
            x, weight, residual=residual, bias=bias, eps=eps, norm=norm, team=team, **others
        )

    return call


@_repeated
@on_tensors
@takes_batch_invariant
def all_reduce_rmsnorm(
    x: Any, weight: Any, *, residual: Any = None, bias: Any = None, eps: float = 1e-6,
    norm: str = "rms", quantize: str | None = None, global_scale: Any = None, out: Any = None,
    residual_out: Any = None, team: Team = TEAM_WORLD, algorithm: str | None = None,
) -> NormResult:  # fmt: skip
    """Sum ``x`` over the team, add the residual, normalise each row, quantise. Collective.

    Sums are float32 in the order of the members, then comes the residual; they are rounded once, to the
    dtype of ``x``: that is the residual returned, and what is normalised, in float32. So all members get
    the same bits, in all runs. The residual has the same bits on all algorithms, too.

    Args:
        x: (..., hidden), float16, bfloat16 or float32, of one size on all members; hidden is a multiple
            of 8. It may lie anywhere; nothing is copied before it is sent.
        weight: (hidden,), of one of the same dtypes.
        residual: as ``x``, and the same on all members; default none.
        bias: as ``weight``, added to what is normalised; default none.
        eps: what is added to the mean square.
        norm: ``"rms"``, or ``"layer"``, which subtracts the mean.
        quantize: ``"row"`` or ``"group"``: FP8 e4m3 with a float32 scale a row, or for 128 elements.
            ``"mxfp8"``, ``"nvfp4"`` or one of them with ``_swizzled``: blocks, as ``formats.quantize``
            makes them of the normalised rows, rounded to the dtype of ``x``.
        global_scale: of NVFP4, as there: a number, which is copied to the GPU, or a tensor.
        out: where ``output`` goes; it may be ``x``.
        residual_out: where the sum goes; it may be ``residual`` or ``x``.
        team: default all PEs. One call of a team at a time, in stream order.
        algorithm: ``"one_shot"``, ``"pull"``, ``"push"`` or ``"two_shot"``, the same on all members;
            default by the measured table, whose sizes are bytes of ``x``.
        batch_invariant: the bits of a row do not depend on the rows beside it; without ``algorithm``.
            The table is asked for one row, whatever ``x`` has.

    Returns: output, residual, scales. For arrays of CuPy and NumPy, FP8 are uint8 bytes.
    Completes: in the order of the current stream.
    Raises: TypeError, ValueError (sizes, or, batch invariant, an address that is no multiple of 16),
        UnsupportedError (FP8 on a GPU that has none), MismatchError (members call it otherwise),
        RuntimeError (the workspace would grow inside a capture),
        HeapExhausted, NotInitialized.
    Extension.
    """
    given = Request(
        x, weight, residual, bias, float(eps), norm, quantize, out, residual_out, None, global_scale
    )  # fmt: skip
    if torch.compiler.is_compiling() or _wants_grad(given):
        if out is not None or residual_out is not None:
            raise ValueError(
                f"{_NAME} with out= or residual_out= has no derivative and is not traced; leave them "
                "out, or call it under torch.no_grad()"
            )
        return _by_operator(given, team, algorithm)
    return run(given, team, algorithm)


def _again(
    x: Any, weight: Any, residual: Any, bias: Any, eps: Any, norm: Any, team: Any
) -> NormResult | None:
    """A call like one before; None: it is not, or somebody has to look at its arguments."""
    facts = look_at_once(torch.is_grad_enabled(), x, weight, residual, bias)
    if facts is None or type(eps) is not float or type(norm) is not str:
        return None
    launches = workspace(team).known(((facts, eps, norm), None))
    if not launches or not launches[0].repeats:
        return None
    output, total = torch.empty_like(x), torch.empty_like(x)
    if norm_launch.again(launches, x, weight, residual, bias, output, total):
        return _new(NormResult, (output, total, None))
    return None


def _wants_grad(given: Request) -> bool:
    if not torch.is_grad_enabled():
        return False
    for one in given[:4]:  # noqa: SIM110  (a generator would take longer than all of it)
        if one is not None and getattr(one, "requires_grad", False):
            return True
    return False


def _by_operator(given: Request, team: Team, algorithm: str | None) -> NormResult:
    output, residual, scales = torch.ops.pyshmem.all_reduce_rmsnorm(
        given.x, given.weight, given.residual, given.bias, given.eps, given.norm, given.quantize,
        number(team), algorithm, global_scale_tensor(given.global_scale, given.x),
    )  # fmt: skip
    return NormResult(output, residual, scales if given.quantize else None)


def run(given: Request, team: Team, algorithm: str | None) -> NormResult:
    """The call itself, on tensors that have memory."""
    space = workspace(team)
    if given.out is not None or given.residual_out is not None:
        named = given._asdict()
        results = [(name, named[name]) for name in ("out", "residual_out")]
        inputs = [(name, named[name]) for name in ("x", "weight", "residual", "bias")]
        if isinstance(given.global_scale, torch.Tensor):
            inputs.append(("global_scale", given.global_scale))
        check_apart(results, inputs, _IN_PLACE)
    if algorithm == INVARIANT:
        check_units(
            x=given.x, residual=given.residual, out=given.out, residual_out=given.residual_out
        )
    key = _seen(given), algorithm
    checks = space.checks  # it may change with the comparison
    if checks:
        space.plan((key, "checked"), lambda: _check(given))
        _agree(space, given, algorithm)
    launches = space.plan(key, lambda: _plan(space, given, algorithm, checks))
    given = _with_results(given)
    norm_launch.launch(launches, given)
    return NormResult(given.out, given.residual_out, given.scales)


def _plan(space: Workspace, given: Request, algorithm: str | None, compared: bool) -> Any:
    """Found once for tensors of these sizes: that they can be, and how the kernel is launched."""
    _check(given)
    if not compared:
        _agree(space, given, algorithm)
    given = _with_results(given)
    taken = algorithm_of(space, given, algorithm)
    return norm_launch.launches(space, given, taken, algorithm == INVARIANT)


def _agree(space: Workspace, given: Request, algorithm: str | None) -> None:
    """What has to be alike on all members."""
    space.agree(
        _NAME, x=tuple(given.x.shape), dtype=given.x.dtype, weight=given.weight.dtype,
        residual=given.residual is not None, bias=given.bias is not None, eps=given.eps, norm=given.norm,
        quantize=given.quantize, algorithm=algorithm,
        global_scale=compared_global_scale(given.global_scale, space),
    )  # fmt: skip


def _seen(given: Request) -> tuple[Any, ...]:
    """All that the checks look at, and what a launch depends on but for addresses."""
    x, weight, residual, bias, eps, norm, quantize, out, residual_out, _, unit = given
    if out is None and residual_out is None and quantize is None:
        facts = look_at_once(False, x, weight, residual, bias)
        if facts is not None:
            return facts, eps, norm
    tensors = x, weight, residual, bias, out, residual_out, unit
    number = unit if isinstance(unit, (int, float)) else None
    return eps, number, norm, quantize, *[None if one is None else look(one) for one in tensors]


def algorithm_of(space: Workspace, given: Request, algorithm: str | None) -> str:
    """Which way a call takes: small messages by everyone, others by the owners of rows."""
    can = {
        "one_shot": norm_launch.why_not_one_shot(space, given),
        "pull": norm_launch.why_not_pull(space, given),
        "push": norm_launch.why_not_push(space, given),
        "two_shot": None,
    }
    # A row crosses to each of n - 1 peers by "pull" and "push", and 2 * (n - 1) / n times by "two_shot".
    # A third more crosses by "one_shot", but nobody waits for a meeting. Few rows that are loaded are
    # finished sooner, many are stored faster: measured on two PEs, by bytes that cross.
    n_pes = runtime.n_pes()
    default: Rows = ((2 << 20) // max(n_pes - 1, 1), "one_shot"), ((16 << 20) // n_pes, "pull")
    default += ((NEVER, "push" if n_pes == 2 else "two_shot"),)
    if algorithm == INVARIANT:  # as if each row came alone
        return choose(space, _NAME, given.hidden * given.x.itemsize, can, default)
    return choose(space, _NAME, given.x.nbytes, can, default, algorithm)


def sum_rows(x: torch.Tensor, team: Team) -> torch.Tensor:
    """The sum over the members alone, by the same kernels: what derivatives need."""
    space = workspace(team)
    given = Request(x, x, None, None, 0.0, "none", None, x, torch.empty_like(x))
    check_tensor("x", x, _DTYPES)
    space.agree(f"sum of the derivative of {_NAME}", x=tuple(x.shape), dtype=x.dtype)
    key = "sum", x.shape, x.dtype
    norm_launch.launch(
        space.plan(
            key, lambda: norm_launch.launches(space, given, algorithm_of(space, given, None))
        ),
        given,
    )
    return given.residual_out


# -- arguments -----------------------------------------------------------------------------------------


def _check(given: Request) -> None:
    """Raises what is wrong, before anything is transferred."""
    if given.norm not in NORMS:
        raise ValueError(f"norm is {given.norm!r}; it is {' or '.join(map(repr, NORMS))}")
    if given.quantize not in GROUP:
        raise ValueError(wrong_format(given.quantize))
    check_tensor("x", given.x, _DTYPES)
    size = tuple(given.x.shape)
    if not size or size[-1] % 8 or not 8 <= size[-1] <= _WIDEST:
        raise ValueError(
            f"x has size {size}; its last extent, hidden, is a multiple of 8, from 8 to {_WIDEST}"
        )
    if given.x.numel() // size[-1] >= 1 << 31:
        raise ValueError(f"x has size {size}; 2**31 rows are too many")
    for name, value in (("weight", given.weight), ("bias", given.bias)):
        if value is not None or name == "weight":
            check_tensor(name, value, _DTYPES)
            _same_size(name, value, size[-1:])
    for name, value in (("residual", given.residual), ("residual_out", given.residual_out)):
        if value is not None:
            check_tensor(name, value, (given.x.dtype,), of="x")
            _same_size(name, value, size)
    if given.out is not None:
        kind, made = output_of(given.x, given.quantize)
        kinds = (kind, torch.uint8) if given.quantize else (kind,)
        check_tensor("out", given.out, kinds, of="" if given.quantize else "x")
        _same_size("out", given.out, made)
    check_global_scale(given.global_scale, given.quantize)
    if given.quantize and _lacks_fp8(given.x.device):
        raise UnsupportedError(
            f"quantize={given.quantize!r}: the GPU of this PE has no FP8 (compute capability 8.9)"
        )


def _same_size(name: str, value: torch.Tensor, size: tuple[int, ...]) -> None:
    if tuple(value.shape) != size:
        raise ValueError(f"{name} has size {tuple(value.shape)}; with this x it has {size}")


def _with_results(given: Request) -> Request:
    x, out = given.x, given.out
    blocks = BLOCK_FORMATS.get(given.quantize or "")
    if out is None and blocks is not None:
        out = blocks.new_output(x)
    elif out is None:
        out = torch.empty_like(x, dtype=_FP8) if given.quantize else torch.empty_like(x)
    into = torch.empty_like(x) if given.residual_out is None else given.residual_out
    scales = None
    if blocks is not None:
        scales = blocks.new_scales(x)
    elif given.quantize:
        scales = x.new_empty(scales_size(x.shape, given.quantize), dtype=torch.float32)
    return Request(*given[:7], out, into, scales, given.global_scale)  # _replace() takes longer


def wrong_format(quantize: Any) -> str:
    """For people: that there is no such format."""
    known = ", ".join(repr(one) for one in GROUP if one)
    return f"quantize is {quantize!r}; it is {known} or None"


def output_of(x: torch.Tensor, quantize: str | None) -> tuple[torch.dtype, tuple[int, ...]]:
    """Dtype and size of what is normalised."""
    blocks = BLOCK_FORMATS.get(quantize or "")
    if blocks is not None:
        return blocks.dtype, blocks.output_size(x.shape)
    return _FP8 if quantize else x.dtype, tuple(x.shape)


def scales_of(x: torch.Tensor, quantize: str | None) -> tuple[torch.dtype, tuple[int, ...]]:
    """Dtype and size of its scales; (0,) without."""
    blocks = BLOCK_FORMATS.get(quantize or "")
    if blocks is not None:
        return blocks.scale_dtype, blocks.scales_size(x.shape)
    return torch.float32, scales_size(x.shape, quantize) if quantize else (0,)


def scales_size(size: Any, quantize: str) -> tuple[int, ...]:
    """The size of the scales of ``x`` of that size."""
    group = GROUP[quantize]
    return (*size[:-1], 1 if group is None else (size[-1] + group - 1) // group)
