# SPDX-License-Identifier: BSD-3-Clause
"""Teams as kernels know them: rows of a table in device memory, by the number of the team's slot.

The host changes rows between kernels only, as far as a kernel is concerned that may use the team.
"""

from .. import state as words
from ..faults import FAULT_CHANNEL, FAULT_TEAM, record_fault
from ..leaf.backend import claim, device_function, fixed32, fixed64, narrow, rare, state, write64
from ..state import CHECK, DEVICE_TEAM_WORDS, MAX_TEAMS, MY_PE, N_PES, P2P, TEAMS

TEAM_WORLD, TEAM_SHARED, TEAM_NODE = 0, 1, 2
_ROW_SHIFT = (8 * DEVICE_TEAM_WORDS).bit_length() - 1
_EPOCHS = 8 * DEVICE_TEAM_WORDS * MAX_TEAMS
_CLAIMS = _EPOCHS + 8 * MAX_TEAMS
ALL_PES = MAX_TEAMS << _ROW_SHIFT  # from the first row to that of no team, which only has a claim


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
def team_number(row: int) -> int:
    """The number of the team's slot + 1: how reports know its collectives."""
    return ((row - state(TEAMS)) >> _ROW_SHIFT) + 1


def _word(number: int):
    """``f(row)``: that word of the row."""
    return device_function(lambda row: fixed64(row + 8 * number))


row_flags = _word(words.DEVICE_TEAM_FLAGS)
row_stage, _row_pes = _word(words.DEVICE_TEAM_STAGE), _word(words.DEVICE_TEAM_PES)
row_ll, row_ll_slot = _word(words.DEVICE_TEAM_LL), _word(words.DEVICE_TEAM_LL_SLOT)
_row_p2p = _word(words.DEVICE_TEAM_NEAR)


@device_function
def row_is_p2p(row: int) -> bool:
    """Do all members reach each other by loads and stores? One answer on all of them."""
    return state(P2P) != 0 or _row_p2p(row) > 0


@device_function
def syncs_in_rounds(row: int) -> bool:
    """Of a team with far members: are there too many of them for a flag each?"""
    return _row_p2p(row) == words.TEAM_OF_ROUNDS


def _number(at_hand: int, number: int):
    """``f(row)``: the same, but the world team's is a word of the state block."""
    word = _word(number)
    return device_function(lambda row: state(at_hand) if row == state(TEAMS) else word(row))


row_n_pes = _number(N_PES, words.DEVICE_TEAM_N_PES)
row_my_pe = _number(MY_PE, words.DEVICE_TEAM_MY_PE)


@device_function
def member_pe(row: int, member: int) -> int:
    """World number of a member, an int32, as all PEs are."""
    return narrow(member) if row == state(TEAMS) else fixed32(_row_pes(row) + 4 * member)


@device_function
def world_pe(row: int, pe: int) -> int:
    """The same for what may be no member: -1 then."""
    return member_pe(row, pe) if pe >= 0 and pe < row_n_pes(row) else narrow(-1)


@device_function
def on_context(ctx, pe):
    """The world PE that ``pe`` is on a context; None is the default one, and costs nothing."""
    if ctx is None:
        return pe
    row = team_row(ctx, 0)
    if row == 0:
        return narrow(-1)
    return world_pe(row, pe)


@device_function
def row_epoch(row: int) -> int:
    """Address of the number of the team's last round, which its own PE counts.

    By arithmetic: the load of an address would stand before the load of the number, on every call's way.
    """
    return state(TEAMS) + _EPOCHS + ((row - state(TEAMS)) >> (_ROW_SHIFT - 3))


@rare
def _claim(row: int, op: int) -> int:
    word = state(TEAMS) + _CLAIMS + ((row - state(TEAMS)) >> (_ROW_SHIFT - 3))
    if op < 0:
        write64(word, 0)
    elif claim(word, 1) != 0:
        record_fault(FAULT_CHANNEL, op, -1, team_number(row) - 1, 0)
    return 0


@device_function
def claim_row(row: int, op: int) -> None:
    """In checking mode a group's leader says that it is in a collective, and looks who else is.

    ``op`` -1: the leader of a group whose lanes are all done says so.
    """
    if state(CHECK) != 0:
        _claim(row, op)
