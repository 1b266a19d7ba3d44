# SPDX-License-Identifier: BSD-3-Clause
"""What one call of ``expert_dispatch`` leaves for the calls behind it."""

from __future__ import annotations

import dataclasses

import torch

from ...host.teams.team import Team
from .._shared.workspace import workspace

GROUP = 128  # elements of a token that have one scale


@dataclasses.dataclass(frozen=True, eq=False)
class ExpertHandle:
    """What ``expert_dispatch`` knows of the tokens that it brought, for grouped GEMMs and the way back.

    Attributes:
        rows: (pairs,) int32: of each pair of a token and an expert of the caller's the row of the token,
            sorted by expert, then by token. In decode mode there is room for all pairs that there could
            be, and those that there are not name row 0.
        offsets: (experts of the caller's + 1,) int32: the pairs of its expert e are ``offsets[e]`` to
            ``offsets[e + 1]``. ``rows`` and ``offsets`` are on the caller's device.
        scales: (rows, hidden / 128) float32, if the tokens are FP8: a token is its bytes times these.
        mode: "throughput" or "decode".
        n_rows: how many rows the tokens have.
    """

    rows: torch.Tensor
    offsets: torch.Tensor
    scales: torch.Tensor | None
    mode: str
    team: Team
    topk_ids: torch.Tensor
    pairs: torch.Tensor
    n_rows: int

    @property
    def first_expert(self) -> int:
        """Number of the caller's first expert."""
        return workspace(self.team).me * (self.offsets.shape[0] - 1)

    @property
    def counts(self) -> torch.Tensor:
        """(experts,) int32: how many pairs each of the caller's experts has; on its device."""
        return self.offsets[1:] - self.offsets[:-1]

    def by_expert(self, tokens: torch.Tensor) -> torch.Tensor:
        """(pairs, hidden): a token for each pair, sorted by expert, for a GEMM that looks nothing up.

        FP8 tokens come as float32, multiplied by their scales.
        """
        if self.scales is not None:
            groups = tokens.float().unflatten(-1, (-1, GROUP)) * self.scales.unsqueeze(-1)
            tokens = groups.flatten(-2)
        return tokens.index_select(0, self.rows)
