# SPDX-License-Identifier: BSD-3-Clause
"""Matrix products that communicate: all_gather_matmul, matmul_reduce_scatter, matmul_all_reduce."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Any

import torch

from ..._core.errors import UnsupportedError
from ...host.teams.team import TEAM_WORLD, Team
from .._shared.arguments import as_counts, needs_grad, needs_operator, on_tensors, result
from .._shared.batch_invariant import INVARIANT, takes_batch_invariant
from .._shared.team_numbers import number
from ..formats.block_tensor import BlockTensor
from .arguments import FP8, Problem, problem
from .blocks import block_problem
from .dispatch import gather, scatter

_ACTIVATE: dict[str, Callable[[Any], Any]] = {
    "relu": torch.relu, "gelu": torch.nn.functional.gelu, "silu": torch.nn.functional.silu,
}  # fmt: skip


def _without_grad(*given: Any) -> Any:
    """What a caller gave for results, and scales, may require grad; nothing else of this way does."""
    return torch.no_grad() if any(one is not None for one in given) else _NOTHING


_NOTHING = contextlib.nullcontext()


def _as_scale(scale: Any, x: Any) -> Any:
    if isinstance(scale, (int, float)):
        return torch.full((), float(scale), dtype=torch.float32, device=x.device)
    return scale


def _through_operator(
    name: str, x: Any, w: Any, bias: Any, activation: str | None, scale_x: Any, scale_w: Any,
    out_dtype: torch.dtype | None, rows: Sequence[int] | None, team: Team, algorithm: str | None,
    outs: Sequence[Any], *more: Any,
) -> Any:  # fmt: skip
    """The operator; where a tensor requires grad the activation is torch's, which has a derivative."""
    with_grad = needs_grad(x, w, bias)
    if with_grad and any(isinstance(out, torch.Tensor) for out in outs):
        raise ValueError(f"{name} with out= or gather_out= has no derivative: use torch.no_grad()")
    if with_grad and x.dtype == FP8:
        raise NotImplementedError(f"{name} of float8_e4m3fn has no derivative: use torch.no_grad()")
    if activation is not None and activation not in _ACTIVATE:
        raise ValueError(f"activation is {activation!r}; it can be None, relu, gelu, silu")
    taken = number(team)
    given = None if rows is None else as_counts(rows)
    inside, outside = (None, activation) if with_grad else (activation, None)
    scales = _as_scale(scale_x, x), _as_scale(scale_w, x)
    operator = getattr(torch.ops.pyshmem, name)
    found = operator(x, w, bias, inside, *scales, out_dtype, given, *more, taken, algorithm)
    results = list(found) if isinstance(found, tuple) else [found]
    if outside is not None:
        results[0] = _ACTIVATE[outside](results[0])
    for place, out in enumerate(outs):
        if isinstance(out, torch.Tensor):
            results[place] = out.copy_(results[place])
    return tuple(results) if len(results) > 1 else results[0]


@on_tensors
@takes_batch_invariant
def all_gather_matmul(
    x_shard: Any, w: Any, *, bias: Any = None, activation: str | None = None, scale_x: Any = None,
    scale_w: Any = None, out_dtype: torch.dtype | None = None, rows: Sequence[int] | None = None,
    gather_out: Any = None, out: Any = None, team: Team = TEAM_WORLD, algorithm: str | None = None,
) -> Any:  # fmt: skip
    """The rows of all members, gathered in their order, times ``w``. Collective.

    Args:
        x_shard: (m, k), the caller's rows, contiguous; anywhere on the PE's device.
        w: (k, n), its own on each member: contiguous, or the transpose of a contiguous (n, k) tensor.
            bfloat16, float16, float32 or float8_e4m3fn, as ``x_shard``. Or both are ``BlockTensor`` of
            one format, of (m, k) and, transposed, of (n, k), with scales in either layout.
        bias: (n,), of the result's dtype.
        activation: None, "relu", "gelu" (exact), "silu"; after the bias.
        scale_x, scale_w: of float8_e4m3fn: what elements are multiplied by, a float, float32 of one
            element, or one for each row of ``x_shard``, column of ``w``; the same way on all members.
        out_dtype: of float8_e4m3fn and blocks: bfloat16 (default), float16 or float32.
        rows: how many each member has; default: as many as the caller.
        gather_out: (M, k) tensor for the gathered rows, or True for a new one.
        out: (M, n) tensor for the result; default a new one. M is the sum of ``rows``.
        team: default ``TEAM_WORLD``.
        algorithm: "copy_engine" (copy engines beside cuBLAS), "persistent" (one kernel) or "unfused";
            default by the table, by bytes that arrive.
        batch_invariant: the bits of a row do not depend on the rows beside it, their number, their owner
            or its place; without ``algorithm``. Tiles of Triton, all of one size, and no product by
            cuBLAS: slower for many rows.

    Returns:
        The product (M, n), or it and the gathered rows (M, k) with ``gather_out``. Gradients go through
        the product alone.

    Completes: in the order of torch's current stream; on the CPU on return.
    Raises: TypeError (dtypes, FP8 on a GPU without it), ValueError (extents, layout, rows, algorithm
        that cannot do it), RuntimeError (a workspace would grow inside a capture; ``out`` was made in
        inference mode and this is outside), MismatchError (members differ),
        HeapExhausted, UnsupportedError (no device heap; blocks in compiled code or batch invariant),
        NotImplementedError (a derivative of FP8 or blocks), NotInitialized.
    Extension.
    """
    wants = gather_out is not None and gather_out is not False
    if isinstance(x_shard, BlockTensor) or isinstance(w, BlockTensor):
        _refuse_of_blocks(scale_x, scale_w, algorithm, wants)
        p = block_problem(x_shard, w, bias, activation, out_dtype, rows, team)
        return _of_blocks(p, out, algorithm)
    given = x_shard, w, bias, activation, scale_x, scale_w, out_dtype, rows, team
    if needs_operator(x_shard, w, bias):
        keep = wants or needs_grad(w)
        found = _through_operator("all_gather_matmul", *given, algorithm, (out, gather_out), keep)
        return found if wants else found[0]
    p = problem("all_gather_matmul", *given)
    product = result("out", out, (p.n_rows, p.n), p.out_dtype, p.x, p.read())
    gathered = None
    if wants:
        place = None if gather_out is True else gather_out
        read = p.read(("out", out))
        gathered = result("gather_out", place, (p.n_rows, p.k), p.x.dtype, p.x, read)
    with _without_grad(out, gathered, p.scale_x, p.scale_w):
        gather(p, product, gathered, algorithm)
    return product if gathered is None else (product, gathered)


def _refuse_of_blocks(scale_x: Any, scale_w: Any, algorithm: str | None, gathers: bool) -> None:
    """Raises where an option says nothing to elements in blocks."""
    if torch.compiler.is_compiling():
        raise UnsupportedError(
            "all_gather_matmul of blocks is not traced: call it outside of torch.compile"
        )
    if scale_x is not None or scale_w is not None:
        raise TypeError("scale_x and scale_w are for float8_e4m3fn; a BlockTensor has its scales")
    if algorithm == INVARIANT:
        raise UnsupportedError(
            "batch_invariant=True: products of blocks are by cuBLAS, which is not"
        )
    if gathers:
        raise ValueError(
            "gather_out would have elements without their scales: low_latency_all_gather has both"
        )


def _of_blocks(p: Problem, out: Any, algorithm: str | None) -> torch.Tensor:
    product = result("out", out, (p.n_rows, p.n), p.out_dtype, p.x, p.read())
    with torch.no_grad():
        gather(p, product, None, algorithm)
    return product


@on_tensors
@takes_batch_invariant
def matmul_reduce_scatter(
    x: Any, w: Any, *, bias: Any = None, activation: str | None = None, scale_x: Any = None,
    scale_w: Any = None, out_dtype: torch.dtype | None = None, rows: Sequence[int] | None = None,
    out: Any = None, team: Team = TEAM_WORLD, algorithm: str | None = None,
) -> Any:  # fmt: skip
    """``x @ w`` added up over the members, of which each gets its share of the rows. Collective.

    Args:
        x: (M, k), the caller's part of the inner extent, contiguous.
        w: (k, n), as for ``all_gather_matmul``, and so the rest.
        bias: (n,), added to the sum once: that of the member whose row it is.
        rows: how many rows each member gets; default ``share_of_rows(M, n_pes)``: the first
            ``M % n_pes`` members one more than the rest.
        out: (rows of the caller, n) tensor for the result.

    Returns:
        The caller's rows (m, n) of the sum. Partial products have the result's dtype; they are added
        in float32 in PE order.

    Completes, Raises: as ``all_gather_matmul``.
    Extension.
    """
    given = x, w, bias, activation, scale_x, scale_w, out_dtype, rows, team
    return _scattered("matmul_reduce_scatter", given, out, algorithm)


@on_tensors
@takes_batch_invariant
def matmul_all_reduce(
    x: Any, w: Any, *, bias: Any = None, activation: str | None = None, scale_x: Any = None,
    scale_w: Any = None, out_dtype: torch.dtype | None = None, rows: Sequence[int] | None = None,
    out: Any = None, team: Team = TEAM_WORLD, algorithm: str | None = None,
) -> Any:  # fmt: skip
    """``x @ w`` added up over the members, on all of them. Collective.

    Arguments, completion and errors: ``matmul_reduce_scatter``. ``rows`` says who adds up which rows;
    ``out`` is (M, n), and the result is the same bit by bit on all members. If it is on the device heap,
    or registered (``pyshmem.register``), it is the same tensor on both members of a team of two, which
    store into each other's.

    Extension.
    """
    given = x, w, bias, activation, scale_x, scale_w, out_dtype, rows, team
    return _scattered("matmul_all_reduce", given, out, algorithm)


def _scattered(operation: str, given: tuple[Any, ...], out: Any, algorithm: str | None) -> Any:
    if needs_operator(*given[:3]):
        return _through_operator(operation, *given, algorithm, (out,))
    p: Problem = problem(operation, *given)
    height = p.n_rows if operation == "matmul_all_reduce" else p.rows[p.space.me]
    total = result("out", out, (height, p.n), p.out_dtype, p.x, p.read())
    with _without_grad(out, p.scale_x, p.scale_w):
        scatter(p, total, algorithm)
    return total
