# SPDX-License-Identifier: BSD-3-Clause
"""How tokens and routing tables move: sizes that ``expert_dispatch`` and ``expert_combine`` share."""

from __future__ import annotations

from typing import NamedTuple

import torch

from ...host.job import runtime
from ...triton.primitives.backend import INTERPRETED
from .._shared.slots import Slots, number_of, programs, slots
from .._shared.workspace import Workspace
from .dispatch_kernels import ChunkShape
from .routing_kernels import Call

_SENDERS = 2 if INTERPRETED else 32  # programs that send lists
_BLOCK = 128 if INTERPRETED else 2048  # cells of a list that one of them sends at a time
COLUMNS = 8192  # most elements of a token in registers; of sums half of that


class RoutingTable(NamedTuple):
    """The block of ``routing_kernels``: as int64, where its data starts, and cells of a list."""

    block: torch.Tensor
    head: int
    cells: int


def table_of(space: Workspace, cells: int) -> RoutingTable:
    """The team's table, with lists of more than ``cells`` cells, which is the same on all PEs."""

    def head_of(n_pes: int) -> int:
        return 4 * programs() + _SENDERS * n_pes + 31 & -32

    world = runtime.n_pes()
    wanted = 8 * head_of(world) + 2 * world * 4 * (cells + 16 & -16)
    block = space.block("lists", wanted, zeroed=True)
    head = head_of(space.n_pes)
    room = (block.numel() - 8 * head) // (8 * space.n_pes) & -16
    return RoutingTable(block.view(torch.int64), head, room)


def constants_of(space: Workspace, k: int) -> Call:
    """What kernels of the team's calls are compiled for, with ``k`` experts of a token."""
    return Call(number_of(space), k, programs(), _SENDERS, _BLOCK)


class Chunks(NamedTuple):
    """How tokens move: through which slots, how many chunks, and what one is."""

    slots: Slots
    chunks: int
    shape: ChunkShape


def chunks_of(space: Workspace, most: int, width: int, nbytes: int) -> Chunks:
    """``most`` tokens of each member, ``width`` elements in ``nbytes`` bytes: for all programs."""
    pitch = nbytes + 15 & -16
    room = slots(space, pitch)
    # As few chunks a program as slots let it have, and the same number for all, or who has one more
    # holds all up: no more rows in a chunk than that needs.
    own = -(-most // programs())  # tokens of a program
    turns = -(-own // max(1, room.nbytes // pitch))
    rows = max(1, -(-own // max(1, turns)))
    return Chunks(room, -(-most // rows), ChunkShape(rows, pitch, width))
