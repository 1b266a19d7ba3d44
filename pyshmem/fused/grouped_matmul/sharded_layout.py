# SPDX-License-Identifier: BSD-3-Clause
"""Which rows go to which experts where every PE has a share of each: the same on all members."""

from __future__ import annotations

import dataclasses
import functools

import torch

from ...host.teams.team import Team
from ...triton import context
from ...triton.primitives.backend import INTERPRETED
from .._shared.workspace import Workspace
from ..exchange.all_to_all import gather
from . import sharded_layout_kernels as kernels

_BLOCK = 64 if INTERPRETED else 512
_LIMITS = torch.iinfo(torch.int32)


@dataclasses.dataclass(frozen=True, eq=False)
class GroupRouting:
    """What ``all_gather_group_matmul`` knows of the pairs of a token and an expert, on all members.

    Pairs are sorted by the token's member, then by expert, then by token. Those of no expert stand
    behind all others; their rows of a product are not written, and not read.

    Attributes:
        rows: (pairs,) int32: the row of the pair's token among the gathered ones.
        offsets: (n_pes * experts + 1,) int32: the pairs of member p's tokens and expert e are
            ``offsets[p * experts + e]`` to ``offsets[p * experts + e + 1]``.
        pairs: (tokens, k) int32: the place of each pair, -1 for no expert.
        member_rows: how many tokens each member has.
    """

    rows: torch.Tensor
    offsets: torch.Tensor
    pairs: torch.Tensor
    member_rows: tuple[int, ...]
    local: torch.Tensor
    experts: int
    team: Team

    @property
    def k(self) -> int:
        """Experts a token."""
        return int(self.pairs.shape[1])

    def read(self) -> tuple[tuple[str, torch.Tensor], ...]:
        """Names and tensors of what the way down reads of it."""
        return (
            ("routing.rows", self.rows), ("routing.offsets", self.offsets),
            ("routing.pairs", self.pairs), ("routing.local", self.local),
        )  # fmt: skip

    def first(self, member: int) -> int:
        """The first row of a member."""
        return sum(self.member_rows[:member])

    def groups(self, member: int) -> torch.Tensor:
        """Where the pairs of a member's tokens begin, for each expert, and where they end."""
        return self.offsets[member * self.experts : (member + 1) * self.experts + 1]


@functools.lru_cache(maxsize=64)
def _members(rows: tuple[int, ...], device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    """The member of each row, and each one's first row. Kept: captures cannot copy from the host."""
    counts = torch.tensor(rows)
    members = torch.arange(len(rows)).repeat_interleave(counts)
    return members.int().to(device), (counts.cumsum(0) - counts).int().to(device)


def gather_choices(
    space: Workspace, mine: torch.Tensor, rows: tuple[int, ...], nothing: float
) -> torch.Tensor:
    """What each member has of its own tokens, (rows, k) of 4 bytes: (all rows, k)."""
    most, k = max(rows), mine.shape[1]
    if mine.shape[0] < most:
        mine = torch.cat([mine, mine.new_full((most - mine.shape[0], k), nothing)])
    found = gather(mine.contiguous(), space, None, None)
    if min(rows) == most:
        return found
    return torch.cat([found[p * most : p * most + count] for p, count in enumerate(rows)])


def route(
    space: Workspace, ids: torch.Tensor, rows: tuple[int, ...], experts: int, team: Team
) -> GroupRouting:
    """All members' choices, sorted."""
    n, k = space.n_pes, ids.shape[1]
    if ids.dtype == torch.int64:  # what int32 has no room for is no expert, and becomes none
        ids = ids.clamp(_LIMITS.min, _LIMITS.max)
    every = gather_choices(space, ids.int(), rows, -1).view(-1)
    count, device = every.numel(), ids.device
    members, firsts = _members(rows, device)
    keys = torch.empty_like(every)
    grid = (max(1, -(-count // _BLOCK)),)
    kernels.keys_of_pairs[grid](keys, every, members, count, n, experts, context(), K=k, B=_BLOCK)
    keys, order = torch.sort(keys, stable=True)
    bounds = torch.arange(n * experts + 1, dtype=torch.int32, device=device)
    offsets = torch.searchsorted(keys, bounds, out_int32=True)
    made, local, pairs = (torch.empty_like(every) for _ in range(3))
    kernels.places_of_pairs[grid](
        made, local, pairs, order, keys, firsts, count, n, experts, K=k, B=_BLOCK
    )
    return GroupRouting(made, offsets, pairs.view(-1, k), rows, local, experts, team)
