# SPDX-License-Identifier: BSD-3-Clause
"""What the callers of matrix products give, checked before anything is transferred."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch

from ...host.teams.team import Team
from .._shared.arguments import check_tensor, look
from .._shared.workspace import Workspace, workspace

FP8 = torch.float8_e4m3fn
WIDE = (torch.bfloat16, torch.float16, torch.float32)
ACTIVATIONS = (None, "relu", "gelu", "silu")


def share_of_rows(n_rows: int, n_pes: int) -> tuple[int, ...]:
    """How many rows each of ``n_pes`` members has: the first ``n_rows % n_pes`` one more than the rest.

    Args:
        n_rows: rows of the whole.
        n_pes: members.

    Returns:
        Numbers of rows in the order of the members; each has those behind the rows of the one before.

    Raises: ValueError.
    Extension.
    """
    if n_rows < 0 or n_pes < 1:
        raise ValueError(f"{n_rows} rows for {n_pes} PEs")
    base, extra = n_rows // n_pes, n_rows % n_pes  # a compiler's numbers have no divmod
    return tuple(base + (1 if member < extra else 0) for member in range(n_pes))


class Problem(NamedTuple):
    """One call: its tensors, and who has which rows of the whole.

    Calls that differ by the addresses of their tensors alone share ``plans``, as long as no block of the
    workspace grows.
    """

    operation: str
    space: Workspace
    x: torch.Tensor
    w: torch.Tensor
    bias: torch.Tensor | None
    activation: str | None
    scale_x: torch.Tensor | None
    scale_w: torch.Tensor | None
    out_dtype: torch.dtype
    rows: tuple[int, ...]
    by_row: bool  # scale_x is one a row, and not one for all
    n_rows: int  # of all members
    k: int
    n: int
    plans: dict[Any, Any]
    invariant: bool = False  # batch invariant: one kind of tiles for all numbers of rows
    blocks: Any = None  # of elements in blocks, which are bytes here: a BlockProduct

    def plan(self, key: Any, make: Callable[[], Any]) -> Any:
        """What ``make`` gave for ``key`` and calls like this one."""
        found = self.plans.get(key)
        if found is None:
            with torch.inference_mode(False):  # later calls may be outside, and use its views
                found = self.plans[key] = make()
        return found

    def rows_of(self, member: int) -> slice:
        """The rows of a member in the whole."""
        first = sum(self.rows[:member])
        return slice(first, first + self.rows[member])

    def n_scales(self, rows: int) -> int:
        """How many scales so many rows of x have."""
        if self.blocks is not None:
            return int(self.blocks.count_scales(rows))
        return 0 if self.scale_x is None else rows if self.by_row else 1

    def read(self, *more: tuple[str, Any]) -> tuple[tuple[str, Any], ...]:
        """Names and tensors of what is read while results are written; ``more`` are other results."""
        name = "x_shard" if self.operation == "all_gather_matmul" else "x"
        given = (name, self.x), ("w", self.w), ("bias", self.bias)
        return *given, ("scale_x", self.scale_x), ("scale_w", self.scale_w), *more

    @property
    def transposed(self) -> bool:
        """``w`` lies in memory as (n, k)."""
        return not self.w.is_contiguous()


class _Checked(NamedTuple):
    """What a call that can be done has found about it."""

    out_dtype: torch.dtype
    rows: tuple[int, ...]
    by_row: bool
    n_rows: int
    k: int
    n: int
    plans: dict[Any, Any]


def problem(
    operation: str, x: Any, w: Any, bias: Any, activation: str | None, scale_x: Any, scale_w: Any,
    out_dtype: torch.dtype | None, rows: Sequence[int] | None, team: Team,
) -> Problem:  # fmt: skip
    """The call, if it can be done.

    Raises: TypeError (dtypes), ValueError (extents, layout, device, activation, rows), NotInitialized,
        UnsupportedError (no device heap).
    """
    space = workspace(team)
    counts = None if rows is None else tuple(int(count) for count in rows)
    seen = (
        operation, look(x), look(w), look(bias), activation, look(scale_x), look(scale_w), out_dtype,
        counts,
    )  # fmt: skip
    checked: _Checked = space.plan(
        seen,
        lambda: _check(
            operation, x, w, bias, activation, scale_x, scale_w, out_dtype, counts, space
        ),
    )
    if x.dtype == FP8:
        scale_x, scale_w = _as_tensor(scale_x, x), _as_tensor(scale_w, x)
        if checked.by_row and scale_x.numel() != x.shape[0]:
            scale_x = scale_x.repeat(x.shape[0])
    return Problem(operation, space, x, w, bias, activation, scale_x, scale_w, *checked)


def _check(
    operation: str, x: Any, w: Any, bias: Any, activation: str | None, scale_x: Any, scale_w: Any,
    out_dtype: torch.dtype | None, rows: tuple[int, ...] | None, space: Workspace,
) -> _Checked:  # fmt: skip
    check_tensor("x_shard" if operation == "all_gather_matmul" else "x", x, (*WIDE, FP8), 2)
    _check_weight(x, w)
    if activation not in ACTIVATIONS:
        raise ValueError(f"activation is {activation!r}; it can be None, relu, gelu, silu")
    kind = _result_dtype(x, out_dtype)
    if x.dtype == FP8:
        _check_fp8(x)
        _check_scale("scale_x", scale_x, x.shape[0])
        _check_scale("scale_w", scale_w, w.shape[1])
    elif scale_x is not None or scale_w is not None:
        raise TypeError(f"scales are for float8_e4m3fn; x and w are {x.dtype}")
    if bias is not None:
        check_tensor("bias", bias, (kind,), 1, of="the result")
        if bias.shape[0] != w.shape[1]:
            raise ValueError(f"bias has {bias.shape[0]} elements, w has {w.shape[1]} columns")
    given = rows_of_members(operation, x, rows, space)
    # The same on all members: one scale of a member with one row does not say for what it stands.
    uneven = operation == "all_gather_matmul" and len(set(given)) > 1
    by_row = _is_by_row(scale_x, x.shape[0], uneven)
    k, n = w.shape
    return _Checked(kind, given, by_row, sum(given), k, n, {})


def _check_weight(x: torch.Tensor, w: Any) -> None:
    if isinstance(w, torch.Tensor) and w.dim() == 2 and not w.is_contiguous():
        if not w.t().is_contiguous():
            raise ValueError(
                f"w is neither contiguous nor the transpose of a contiguous tensor (size "
                f"{tuple(w.shape)}, strides {w.stride()}): pass w.contiguous(), made once"
            )
        check_tensor("w", w.t(), (*WIDE, FP8), 2)
    else:
        check_tensor("w", w, (*WIDE, FP8), 2)
    if x.dtype != w.dtype:
        raise TypeError(f"x is {x.dtype}, w is {w.dtype}; they have one dtype")
    if x.shape[1] != w.shape[0]:
        raise ValueError(
            f"x {tuple(x.shape)} has {x.shape[1]} columns, w {tuple(w.shape)} has {w.shape[0]} rows"
            + (": give w.t(), as of torch.nn.Linear" if x.shape[1] == w.shape[1] else "")
        )
    if not w.numel():
        raise ValueError(f"w {tuple(w.shape)} has no elements")


def _result_dtype(x: torch.Tensor, wanted: torch.dtype | None) -> torch.dtype:
    kind = wanted or (torch.bfloat16 if x.dtype == FP8 else x.dtype)
    if kind not in WIDE or (x.dtype != FP8 and kind != x.dtype):
        choice = "bfloat16, float16 or float32" if x.dtype == FP8 else f"that of x, {x.dtype}"
        raise TypeError(f"out_dtype is {kind}; it can be {choice}")
    return kind


def _check_fp8(x: torch.Tensor) -> None:
    if x.is_cuda and torch.cuda.get_device_capability(x.device) < (8, 9):
        name = torch.cuda.get_device_name(x.device)
        raise TypeError(f"x is float8_e4m3fn, which {name} does not multiply (from sm_89 on)")


def _check_scale(name: str, scale: Any, count: int) -> None:
    if isinstance(scale, (int, float)):
        return
    if scale is None:
        raise TypeError(f"x and w are float8_e4m3fn, and {name} is not given; pass 1.0 for none")
    check_tensor(name, scale, (torch.float32,))
    flat = scale.numel() == max(scale.shape, default=1)
    if scale.numel() not in (1, count) or not (flat or scale.numel() == 0):
        what = "row of x" if name == "scale_x" else "column of w"
        raise ValueError(f"{name} has size {tuple(scale.shape)}; give one number, or one a {what}")


def _is_by_row(scale: Any, rows: int, uneven: bool) -> bool:
    return isinstance(scale, torch.Tensor) and scale.dim() > 0 and (uneven or scale.numel() == rows)


def _as_tensor(scale: Any, x: torch.Tensor) -> torch.Tensor:
    """A scale as a flat tensor of one element, or of one for each row or column."""
    if isinstance(scale, torch.Tensor):
        return scale.view(-1)
    return torch.full((1,), float(scale), dtype=torch.float32, device=x.device)


def rows_of_members(
    operation: str, x: torch.Tensor, given: tuple[int, ...] | None, space: Workspace
) -> tuple[int, ...]:
    """Who has which rows, as given or as the operation has it."""
    gathers, n_pes, mine = operation == "all_gather_matmul", space.n_pes, int(x.shape[0])
    if given is None:
        return (mine,) * n_pes if gathers else share_of_rows(mine, n_pes)
    if len(given) != n_pes or any(count < 0 for count in given):
        raise ValueError(f"rows is {given}; it has a number of rows for each of {n_pes} PEs")
    if gathers and given[space.me] != mine:
        raise ValueError(f"x has {mine} rows, but rows says {given[space.me]} for PE {space.me}")
    if not gathers and sum(given) != mine:
        raise ValueError(f"x has {mine} rows, but rows {given} are {sum(given)} together")
    return given
