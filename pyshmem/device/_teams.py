# SPDX-License-Identifier: BSD-3-Clause
"""Teams as kernels know them: rows of a table in device memory, by the number of the team's slot.

The host changes rows between kernels only, as far as a kernel is concerned that may use the team.
"""

from . import _state as words
from ._backend import device_function, fixed32, fixed64, narrow, state
from ._faults import FAULT_TEAM, record_fault
from ._state import DEVICE_TEAM_WORDS, MAX_TEAMS, MY_PE, N_PES, TEAMS

TEAM_WORLD, TEAM_SHARED, TEAM_NODE = 0, 1, 2
_ROW_SHIFT = (8 * DEVICE_TEAM_WORDS).bit_length() - 1


@device_function
def team_row(team: int, op: int) -> int:
    """Address of the team's row; 0, and a fault, when the slot holds no team of this PE."""
    row = state(TEAMS) + 8 * DEVICE_TEAM_WORDS * team
    if team == TEAM_WORLD:
        return row
    if team < 0 or team >= MAX_TEAMS or fixed64(row + 8 * words.DEVICE_TEAM_N_PES) == 0:
        record_fault(FAULT_TEAM, op, -1, team, 0)
        return 0
    return row


@device_function
def meets_in(row: int) -> int:
    """The number of the team's slot + 1: how reports know its collectives."""
    return ((row - state(TEAMS)) >> _ROW_SHIFT) + 1


@device_function
def row_n_pes(row: int) -> int:
    if row == state(TEAMS):  # the world team's numbers are at hand
        return state(N_PES)
    return fixed64(row + 8 * words.DEVICE_TEAM_N_PES)


@device_function
def row_my_pe(row: int) -> int:
    if row == state(TEAMS):
        return state(MY_PE)
    return fixed64(row + 8 * words.DEVICE_TEAM_MY_PE)


def _word(number: int):
    """``f(row)``: that word of the row."""
    return device_function(lambda row: fixed64(row + 8 * number))


row_flags, row_epoch = _word(words.DEVICE_TEAM_FLAGS), _word(words.DEVICE_TEAM_EPOCH)
row_stage = _word(words.DEVICE_TEAM_STAGE)


@device_function
def world_pe(row: int, pe: int) -> int:
    """World number of the team's PE ``pe``; -1 when it has none. An int32, as all PEs are."""
    if pe < 0 or pe >= row_n_pes(row):
        return narrow(-1)
    if row == state(TEAMS):
        return narrow(pe)
    return fixed32(fixed64(row + 8 * words.DEVICE_TEAM_PES) + 4 * pe)


@device_function
def on_context(ctx, pe):
    """The world PE that ``pe`` is on a context; None is the default one, and costs nothing."""
    if ctx is None:
        return pe
    row = team_row(ctx, 0)
    if row == 0:
        return pe * 0 - 1
    return world_pe(row, pe)
