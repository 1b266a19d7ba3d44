# SPDX-License-Identifier: BSD-3-Clause
"""Teams from kernels: numbers of PEs. ``team`` is the number of a team's slot, see ``as_argument``."""

from .. import peers
from ..faults import OP
from ..routine import routine
from ..team.rows import row_my_pe, row_n_pes, team_row, world_pe

_TRANSLATE = OP["team_translate_pe"]


@routine
def my_pe():
    """Number of the calling PE, int32.

    Spec: shmem_my_pe.
    """
    return peers.my_pe()


@routine
def n_pes():
    """Number of PEs of the job, int32.

    Spec: shmem_n_pes.
    """
    return peers.n_pes()


@routine
def team_my_pe(team):
    """Number of the calling PE in the team; -1 after a fault.

    Spec: shmem_team_my_pe.
    """
    row = team_row(team, _TRANSLATE)
    return row_my_pe(row) if row != 0 else -1


@routine
def team_n_pes(team):
    """Number of PEs of the team; -1 after a fault.

    Spec: shmem_team_n_pes.
    """
    row = team_row(team, _TRANSLATE)
    return row_n_pes(row) if row != 0 else -1


@routine
def team_translate_pe(team, pe, dest_team):
    """The number in ``dest_team`` of the team's PE ``pe``; -1 when it is not a member, or after a fault.

    Spec: shmem_team_translate_pe.
    """
    row, other = team_row(team, _TRANSLATE), team_row(dest_team, _TRANSLATE)
    if row == 0 or other == 0:
        return -1
    world = world_pe(row, pe)
    member = row_n_pes(other) - 1
    while member >= 0 and (world < 0 or world_pe(other, member) != world):
        member -= 1
    return member
