# SPDX-License-Identifier: BSD-3-Clause
"""Products of MXFP8 and NVFP4: what is checked, and how a PE multiplies by itself.

Rows travel as bytes, and so do their scales. Where the GPU multiplies blocks (compute capability 10)
the product is cuBLAS's; before, and in the interpreter, both sides are made bfloat16, or float32, first:
that is exact, and sums are float32, so what is lost is speed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from ..._foreign.torch import scaled_mm
from ...host.teams.team import Team
from .._shared.arguments import check_tensor, look
from .._shared.workspace import workspace
from ..formats.api import swizzle
from ..formats.block_tensor import checked, rows_of, unit_of
from ..formats.table import BlockFormat
from .arguments import ACTIVATIONS, WIDE, Problem, rows_of_members

_NAME = "all_gather_matmul"


class BlockProduct:
    """The weights of a call, and its scales.

    Args:
        formats: of rows and of weights.
        hidden: elements of a row.
        w, scale_w: weights, (n, bytes), and their scales.
        units: the global scales.
    """

    def __init__(
        self, formats: tuple[BlockFormat, BlockFormat], hidden: int, w: torch.Tensor,
        scale_w: torch.Tensor, units: tuple[torch.Tensor | None, torch.Tensor | None],
    ) -> None:  # fmt: skip
        self.formats, self.hidden, self.w, self.scale_w = formats, hidden, w, scale_w
        self.units = units
        self._wide: torch.Tensor | None = None

    def count_scales(self, rows: int) -> int:
        """Bytes of the scales of so many rows."""
        high, wide = self._scales_size(rows)
        return high * wide

    def _scales_size(self, rows: int) -> tuple[int, int]:
        size = self.formats[0].scales_size((rows, self.hidden))
        return size[0], size[1]

    def scales(self) -> tuple[torch.Tensor, torch.Tensor] | None:
        """What a product is multiplied by: the global scales, or None."""
        one, other = self.units
        if one is None and other is None:
            return None
        like = other if one is None else one
        assert like is not None
        unit = torch.ones_like(like)
        return unit if one is None else one, unit if other is None else other

    def product(self, x: torch.Tensor, scale_x: torch.Tensor) -> torch.Tensor:
        """Rows ``x`` times the weights, float32, without the global scales."""
        scale_x = scale_x.view(self._scales_size(x.shape[0]))
        if self._by_hardware(x):
            return self._scaled(x, scale_x)
        kind = torch.bfloat16 if x.is_cuda else torch.float32
        if self._wide is None:  # once a call, for all members' rows
            self._wide = rows_of(self.w, self.scale_w, self.formats[1], kind)
        rows = rows_of(x, scale_x, self.formats[0], kind)
        if x.is_cuda:
            return torch.mm(rows, self._wide.t(), out_dtype=torch.float32)
        return rows @ self._wide.t()

    def _by_hardware(self, x: torch.Tensor) -> bool:
        """Whether cuBLAS multiplies blocks of these sizes there. Nobody has tried it."""
        if not x.is_cuda or torch.cuda.get_device_capability(x.device) < (10, 0):
            return False
        return self.hidden % 128 == 0 and self.w.shape[0] % 16 == 0

    def _scaled(self, x: torch.Tensor, scale_x: torch.Tensor) -> torch.Tensor:
        sides = []
        for data, scales, format_ in zip(
            (x, self.w), (scale_x, self.scale_w), self.formats, strict=True
        ):
            tiles = scales if format_.swizzled else swizzle(scales)
            sides.append((data.view(format_.dtype), tiles.view(format_.scale_dtype)))
        (left, left_scales), (right, right_scales) = sides
        made: torch.Tensor = scaled_mm(
            left, right.t(), left_scales, right_scales, out_dtype=torch.float32
        )
        return made


def block_problem(
    x: Any, w: Any, bias: Any, activation: str | None, out_dtype: torch.dtype | None,
    rows: Sequence[int] | None, team: Team,
) -> Problem:  # fmt: skip
    """The call, if it can be done.

    Raises: TypeError, ValueError, UnsupportedError (compiled code, no device heap, a GPU without FP8),
        NotImplementedError (a bias that requires grad), NotInitialized.
    """
    space = workspace(team)
    data, scales, format_x = checked("x_shard", x, 2)
    weights, scale_w, format_w = checked("w", w, 2)
    if format_x.kind != format_w.kind:
        raise ValueError(f"x_shard is {x.quantize}, w is {w.quantize}; they have one format")
    hidden, n = data.shape[1] * format_x.per_byte, weights.shape[0]
    if weights.shape[1] != data.shape[1] or not n:
        raise ValueError(
            f"w has {n} rows of {weights.shape[1] * format_x.per_byte} elements; in blocks it is the "
            f"transpose, (n, k), and x_shard has k = {hidden}"
        )
    kind = out_dtype or torch.bfloat16
    if kind not in WIDE:
        raise TypeError(f"out_dtype is {kind}; it can be bfloat16, float16 or float32")
    if activation not in ACTIVATIONS:
        raise ValueError(f"activation is {activation!r}; it can be None, relu, gelu, silu")
    if bias is not None:
        check_tensor("bias", bias, (kind,), 1, of="the result")
        if bias.shape[0] != n:
            raise ValueError(f"bias has {bias.shape[0]} elements, w has {n} rows")
        if bias.requires_grad and torch.is_grad_enabled():
            raise NotImplementedError(f"{_NAME} of blocks has no derivative: use torch.no_grad()")
    counts = None if rows is None else tuple(int(count) for count in rows)
    given = rows_of_members(_NAME, data, counts, space)
    units = unit_of(x), unit_of(w)
    seen = (
        _NAME,
        look(data),
        x.quantize,
        look(weights),
        w.quantize,
        look(bias),
        activation,
        kind,
        given,
    )
    plans: dict[Any, Any] = space.plan(("blocks", seen), dict)
    product = BlockProduct((format_x, format_w), hidden, weights, scale_w, units)
    return Problem(
        _NAME, space, data, weights, bias, activation, scales.view(-1), scale_w.view(-1), kind, given,
        False, sum(given), data.shape[1], n, plans, False, product,
    )  # fmt: skip
