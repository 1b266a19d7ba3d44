# SPDX-License-Identifier: BSD-3-Clause
"""Teams whose members alone make them, without the other PEs of a parent."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable
from typing import Any, SupportsIndex

from ..._core.errors import MismatchError, ShmemError
from ..._core.library import check, ffi, lib, owned
from ..job import runtime
from .arguments import listed_pes
from .team import Team, made

#: Gives the bytes of this member to all members, and returns those of each, in the members' order.
Exchange = Callable[[bytes], list[bytes]]

_OFFER = struct.Struct("<QQ")  # free slots, a digest of the list of members


def team_of_members(pes: Iterable[SupportsIndex], exchange: Exchange) -> Team:
    """Make the team of the given PEs. Collective over these PEs alone.

    Before there is a team its members can talk only by means of their own: a store, a communicator.

    Args:
        pes: numbers in ``TEAM_WORLD``, each once, this PE among them; equal on all members.
        exchange: called twice, with some bytes each time.

    Returns:
        The team, in the order of ``pes``. It ends by ``destroy``, as others do.

    Raises: ValueError (pes), MismatchError (a member gave other PEs, or failed), ShmemError (no slot
        is free at all members), NotInitialized, and what ``exchange`` raises.
    Extension.
    """
    runtime.current()
    listed = listed_pes(pes)
    free = ffi.new("uint64_t *")
    check(lib.ishmemx_team_free_slots(free))
    offers = [_OFFER.unpack(o) for o in exchange(_OFFER.pack(free[0], _digest(listed)))]
    cell, error = owned(lib.end_team), _refusal(listed, offers)
    if error is None:
        error = _begin(listed, offers, cell)
    told = exchange(b"failed" if error else b"made")
    if error is None and b"failed" in told:
        error = MismatchError(f"member {told.index(b'failed')} could not make the team")
    if error is not None:
        check(lib.withdraw_team(cell))
        raise error
    team = made(cell, f"members {listed}")
    assert team is not None
    return team


def _digest(listed: list[int]) -> int:
    digest = 14695981039346656037  # FNV-1a, a number at a time
    for pe in listed:
        digest = (digest ^ (pe & 0xFFFFFFFF)) * 1099511628211 % (1 << 64)
    return digest


def _refusal(listed: list[int], offers: list[tuple[int, ...]]) -> Exception | None:
    if len(offers) != len(listed):
        return ValueError(f"exchange gave {len(offers)} answers for {len(listed)} members")
    for member, (_, digest) in enumerate(offers):
        if digest != _digest(listed):
            return MismatchError(f"member {member} gave other PEs than {listed}")
    return None


def _begin(listed: list[int], offers: list[tuple[int, ...]], cell: Any) -> Exception | None:
    """Begins the team, in the cell; why it could not, if so."""
    slots = ~0
    for free, _ in offers:
        slots &= free
    if not slots:
        return ShmemError(f"PEs {listed} have no place for a team in common; destroy one")
    slot = (slots & -slots).bit_length() - 1
    try:
        check(lib.ishmemx_team_begin(ffi.new("int[]", listed), len(listed), slot, cell))
    except Exception as error:  # told to the others before it is raised
        return error
    return None
