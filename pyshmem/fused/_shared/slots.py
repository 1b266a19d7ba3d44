# SPDX-License-Identifier: BSD-3-Clause
"""Slots: symmetric memory of a fixed size through which rows travel, however many there are.

Half of the programs of a grid send, half receive. Program p of a sender and program p of a receiver
have ``DEPTH`` slots at the receiver, which are filled in turn and numbered from the first call on. A
slot is written again when its receiver has said that it has read it, so nothing here depends on what a
call is, on how large it is, or on time; operations share the slots as long as each receives all that it
sends, which the operations of a team do in one order on all members.

Words of the block, for each program and member: how many slots were sent and taken (the PE's own), then
the numbers of the last full one (set by its sender) and of the last free one (by its receiver).
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import numpy as np
import torch

from ..._core import errors
from ...host.collectives.data_movement import fcollect
from ...host.job import runtime
from ...host.memory import creation
from ...triton.primitives.backend import INTERPRETED
from ...triton.runtime.context import team_number
from .workspace import Workspace

#: Slots for each program and sender; ``slots_kernels`` has the same number.
DEPTH = 2
_USUAL = 2048 if INTERPRETED else 60 << 10  # bytes of a slot, and half of it with many PEs
_MANY_PES = 8
_MOST_PROGRAMS = 128
#: How programs are launched: with that many registers two of them fit on an SM.
LAUNCH = {} if INTERPRETED else {"num_warps": 8, "maxnreg": 128}


def programs() -> int:
    """Programs that send, and as many that receive; the same on all PEs, whose GPUs are alike.

    All of them have to be resident, for they wait for each other: two on an SM.
    """
    if INTERPRETED:
        return 2
    return _programs_on(runtime.current().gpu)


@functools.cache
def _programs_on(gpu: int) -> int:
    there = torch.cuda.get_device_properties(gpu).multi_processor_count
    return _MOST_PROGRAMS if there >= _MOST_PROGRAMS else _MOST_PROGRAMS // 2


class Slots(NamedTuple):
    """What kernels are given: the block, where its data starts, how long a slot is, in int64 words."""

    block: torch.Tensor
    head: int
    words: int

    @property
    def nbytes(self) -> int:
        """Bytes of a slot."""
        return 8 * self.words


def _extent(n_pes: int) -> tuple[int, int]:
    """Bytes before the slots, and how many slots there are."""
    many = programs() * n_pes
    return 4 * many * 8 + 255 & -256, many * DEPTH


def slots(space: Workspace, least: int) -> Slots:
    """The team's slots, of at least ``least`` bytes, which is the same on all PEs.

    The block has room for the PEs of the job: those of other teams make theirs at the same time. One
    that grows starts again with all its words at 0, on all PEs: calls before it went through the block
    that was there.
    """
    head, places = _extent(runtime.n_pes())
    usual = _USUAL if runtime.n_pes() <= _MANY_PES else _USUAL // 2
    wanted = head + places * (max(least, usual) + 255 & -256)
    block = space.block("slots", wanted, zeroed=True)
    head, places = _extent(space.n_pes)
    nbytes = (block.numel() - head) // places & -256
    return Slots(block.view(torch.int64), head // 8, nbytes // 8)


def number_of(space: Workspace) -> int:
    """The team's number in kernels."""
    return team_number(space.team)


def gather_numbers(space: Workspace, *numbers: int) -> Any:
    """What all members give, at most 2 numbers a PE, int64 (members, numbers). Collective, on the host.

    Two arrays are used in turn: who writes one again has had what all members gave to the call in
    between, which they did after they had read it.
    """
    n, count = runtime.n_pes(), len(numbers)
    pair, turn = space.thing(
        "numbers", 0, lambda: ([creation.zeros((n + 1, 2 * n), np.int64) for _ in range(2)], [0])
    )
    turn[0] ^= 1
    array = pair[turn[0]]
    array[0, :count] = numbers
    fcollect(array[1 : space.n_pes + 1], array[0], team=space.team)
    return np.array(array[1 : space.n_pes + 1, :count])


def refuse_many(space: Workspace, routine: str, most: int) -> None:
    """Raises UnsupportedError if the team has more than ``most`` PEs."""
    if space.n_pes > most:
        raise errors.UnsupportedError(
            f"{routine} is for teams of up to {most} PEs; this one has {space.n_pes}"
        )
