# SPDX-License-Identifier: BSD-3-Clause
"""How tokens and lists travel: sizes that ``expert_dispatch`` and ``expert_combine`` share."""

from __future__ import annotations

from typing import NamedTuple

import torch

from ...host.job import runtime
from ...triton.primitives.backend import INTERPRETED
from .._shared.slots import Slots, programs, slots
from .._shared.workspace import Workspace

LISTERS = 2 if INTERPRETED else 32  # programs that send lists
BLOCK = 128 if INTERPRETED else 2048  # cells of a list that one of them sends at a time
COLUMNS = 8192  # most elements of a token in registers; of sums half of that


class Lists(NamedTuple):
    """The block of ``routing_kernels``: as int64, where its data starts, and cells of a list."""

    block: torch.Tensor
    head: int
    cells: int


def lists_of(space: Workspace, cells: int) -> Lists:
    """The team's lists, of more than ``cells`` cells, which is the same on all PEs."""

    def head_of(n_pes: int) -> int:
        return 4 * programs() + LISTERS * n_pes + 31 & -32

    world = runtime.n_pes()
    wanted = 8 * head_of(world) + 2 * world * 4 * (cells + 16 & -16)
    block = space.block("lists", wanted, zeroed=True)
    head = head_of(space.n_pes)
    room = (block.numel() - 8 * head) // (8 * space.n_pes) & -16
    return Lists(block.view(torch.int64), head, room)


class Chunks(NamedTuple):
    """How tokens travel: how many chunks, tokens of one, bytes from token to token in a slot."""

    chunks: int
    rows: int
    pitch: int


def chunks_of(space: Workspace, most: int, nbytes: int) -> tuple[Slots, Chunks]:
    """``most`` tokens of ``nbytes`` bytes from each member, in chunks enough for all programs."""
    pitch = nbytes + 15 & -16
    room = slots(space, pitch)
    rows = max(1, min(room.nbytes // pitch, -(-most // programs())))
    return room, Chunks(-(-most // rows), rows, pitch)
