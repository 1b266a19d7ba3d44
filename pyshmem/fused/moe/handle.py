# SPDX-License-Identifier: BSD-3-Clause
"""What one call of ``expert_dispatch`` leaves for the calls behind it."""

from __future__ import annotations

import dataclasses
import weakref
from typing import Any

import torch

from ...host.teams.team import Team
from .._shared.arguments import check_tensor
from .._shared.workspace import workspace
from ..formats import dequantize
from ..formats.table import BLOCK_FORMATS
from .masked.calls import Step

GROUP = 128  # elements of an FP8 token that have one scale
#: What ``quantize=`` has; scales are looked up by row, so they are in no tiles.
FORMATS = ("fp8", *(name for name, one in BLOCK_FORMATS.items() if not one.swizzled))


def sizes_of(
    quantize: str | None, rows: int, hidden: int
) -> tuple[tuple[tuple[int, ...], torch.dtype], tuple[tuple[int, ...], torch.dtype]]:
    """Size and dtype of tokens in a format, and of their scales."""
    found = BLOCK_FORMATS.get(quantize or "")
    if found is None:
        return ((rows, hidden), torch.float8_e4m3fn), ((rows, hidden // GROUP), torch.float32)
    size = rows, hidden
    return (found.output_size(size), found.dtype), (found.scales_size(size), found.scale_dtype)


def group_of(quantize: str) -> int:
    """Elements of a token in that format that have one scale."""
    found = BLOCK_FORMATS.get(quantize)
    return GROUP if found is None else found.group


def check_rows(y: torch.Tensor, rows: torch.Tensor) -> None:
    """Raises ValueError unless ``y`` has as many rows."""
    if y.dim() != 2 or y.shape[0] != rows.shape[0]:
        check_tensor("y", y, (y.dtype,))  # a view whose extents are turned is told as such
        raise ValueError(
            f"y has {y.shape[0] if y.dim() else 'no'} rows (size {tuple(y.shape)}); the handle has "
            f"{rows.shape[0]} pairs"
        )


@dataclasses.dataclass(frozen=True, eq=False)
class ExpertHandle:
    """What ``expert_dispatch`` knows of the tokens that it brought, for grouped GEMMs and the way back.

    Attributes:
        rows: (pairs,) int32: of each pair of a token and an expert of the caller's the row of the token,
            sorted by expert, then by token. In decode mode there is room for all pairs that there could
            be, and those that there are not name row 0.
        offsets: (experts of the caller's + 1,) int32: the pairs of its expert e are ``offsets[e]`` to
            ``offsets[e + 1]``. ``rows`` and ``offsets`` are on the caller's device.
        scales: of quantised tokens, None without: (rows, hidden / 128) float32 of FP8, (rows, hidden /
            32) float8_e8m0fnu of MXFP8, (rows, hidden / 16) float8_e4m3fn of NVFP4.
        global_scale: of NVFP4, if it was given, a float32 tensor of one.
        mode: "throughput" or "decode".
        n_rows: how many rows the tokens have.
        mask: with ``timeout`` (members,) bool, on the caller's device: who takes part in the step, which
            ``expert_combine`` brings up to date; None without.
    """

    rows: torch.Tensor
    offsets: torch.Tensor
    scales: torch.Tensor | None
    mode: str
    team: Team
    topk_ids: torch.Tensor
    pairs: torch.Tensor
    n_rows: int
    global_scale: Any = None
    mask: torch.Tensor | None = None
    step: Step | None = None
    came: weakref.ref[torch.Tensor] | None = dataclasses.field(default=None, repr=False)

    @property
    def first_expert(self) -> int:
        """Number of the caller's first expert."""
        return workspace(self.team).me * (self.offsets.shape[0] - 1)

    @property
    def number(self) -> torch.Tensor | None:
        """With ``timeout`` (1,) int64, on the caller's device: which of the team's steps this one is.

        The same on all that take part, from 1 on; 0 if the caller is left out. None without.
        """
        return None if self.step is None else self.step.plan[1:]

    @property
    def counts(self) -> torch.Tensor:
        """(experts,) int32: how many pairs each of the caller's experts has; on its device."""
        return self.offsets[1:] - self.offsets[:-1]

    @property
    def block_format(self) -> str | None:
        """What tokens in blocks are, "mxfp8" or "nvfp4"; None for others."""
        if self.scales is None or self.scales.dtype == torch.float32:
            return None
        return "nvfp4" if self.scales.dtype == torch.float8_e4m3fn else "mxfp8"

    def check_pairs(self, y: torch.Tensor) -> None:
        """Raises what is wrong with the rows of ``y``, which has one for each of ``rows``.

        With one expert a token there are as many tokens as pairs, in another order, and in decode mode
        with rows that nobody wrote; tokens that came for one expert are in the order of its pairs.

        Raises: ValueError.
        """
        check_rows(y, self.rows)
        in_order = self.mode == "throughput" and self.offsets.shape[0] == 2
        tokens = None if in_order or self.came is None else self.came()
        if tokens is not None and y.numel() and y.data_ptr() == tokens.data_ptr():
            raise ValueError(
                "y is the tokens as they came, a row a token; it has a row for each of handle.rows: "
                "handle.by_expert(tokens) has, and what group_matmul gives"
            )

    def by_expert(self, tokens: torch.Tensor) -> torch.Tensor:
        """(pairs, hidden): a token for each pair, sorted by expert, for a GEMM that looks nothing up.

        Quantised tokens come as float32, multiplied by their scales.

        Raises: ValueError, where ``tokens`` are not as many as the dispatch of this handle has brought.
        """
        if tokens.dim() != 2 or tokens.shape[0] != self.n_rows:
            raise ValueError(
                f"tokens has size {tuple(tokens.shape)}; give the {self.n_rows} rows that came "
                "from expert_dispatch with this handle"
            )
        if self.scales is None and (tokens.itemsize < 2 or not tokens.is_floating_point()):
            raise ValueError(
                f"tokens is {tokens.dtype}, and this handle's came as they were, without quantize"
            )
        if self.block_format is not None:
            assert self.scales is not None
            tokens = dequantize(
                tokens, self.scales, self.block_format, global_scale=self.global_scale
            )
        elif self.scales is not None:
            groups = tokens.float().unflatten(-1, (-1, GROUP)) * self.scales.unsqueeze(-1)
            tokens = groups.flatten(-2)
        return tokens.index_select(0, self.rows)
