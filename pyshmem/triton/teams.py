# SPDX-License-Identifier: BSD-3-Clause
"""Who is who: numbers of PEs and teams. A team is the number that ``team_number`` gives on the host."""

import triton
import triton.language as tl

from .primitives.backend import device_function, end_with, fixed, state
from .runtime.constants import (
    FAULT_TEAM,
    MAX_TEAMS,
    MY_PE,
    N_PES,
    TEAM_MY_PE,
    TEAM_N_PES,
    TEAM_PES,
    TEAM_WORDS,
    TEAMS,
    TRANSLATE,
)

__all__ = ["my_pe", "n_pes", "team_my_pe", "team_n_pes", "team_translate_pe"]


@device_function
def my_pe(ctx):
    """Number of the calling PE, int32.

    Example: ``me = shmem.my_pe(ctx)``
    Spec: shmem_my_pe.
    """
    return state(ctx, MY_PE).to(tl.int32)


@device_function
def n_pes(ctx):
    """Number of PEs of the job, int32.

    Example: ``right = (shmem.my_pe(ctx) + 1) % shmem.n_pes(ctx)``
    Spec: shmem_n_pes.
    """
    return state(ctx, N_PES).to(tl.int32)


@device_function
def team_row(team, op: tl.constexpr, ctx):
    """The team's row of the table of teams, a pointer; ends the program if there is no such team."""
    words = state(ctx, TEAMS).to(tl.pointer_type(tl.int64))
    if is_world(team):
        return words
    else:
        slot = tl.cast(team, tl.int64)
        in_table = (slot >= 0) & (slot < MAX_TEAMS)
        # The compiler may load the row's words in front of the fault: it is in the table all the same.
        row = words + tl.where(in_table, slot, 0) * TEAM_WORDS
        if tl.where(in_table, fixed(row + TEAM_N_PES), 0) == 0:
            end_with(FAULT_TEAM, op, slot, 0, ctx)
        return row


@triton.constexpr_function
def is_world(team):
    """Is it known when the kernel is compiled that the team is the world team? Saves loads."""
    team = getattr(team, "value", team)
    return isinstance(team, int) and team == 0


@device_function
def place_in(team, row, ctx):
    """The caller's number in the team, and how many PEs it has, int64."""
    if is_world(team):
        return state(ctx, MY_PE), state(ctx, N_PES)
    else:
        return fixed(row + TEAM_MY_PE), fixed(row + TEAM_N_PES)


@device_function
def world_pe(team, row, member, mask=None):
    """The world numbers of members, int64; -1 where ``mask`` is off."""
    if is_world(team):
        return (
            tl.cast(member, tl.int64) if mask is None else tl.where(mask, member, -1).to(tl.int64)
        )
    else:
        list_of_pes = fixed(row + TEAM_PES).to(tl.pointer_type(tl.int32))
        if mask is None:
            return tl.load(list_of_pes + member).to(tl.int64)
        else:
            return tl.load(list_of_pes + member, mask=mask, other=member * 0 - 1).to(tl.int64)


@device_function
def team_my_pe(team, ctx):
    """Number of the calling PE in the team, int32.

    Example: ``me = shmem.team_my_pe(shmem.TEAM_NODE, ctx)``
    Spec: shmem_team_my_pe.
    """
    return fixed(team_row(team, TRANSLATE, ctx) + TEAM_MY_PE).to(tl.int32)


@device_function
def team_n_pes(team, ctx):
    """Number of PEs of the team, int32.

    Example: ``members = shmem.team_n_pes(shmem.TEAM_NODE, ctx)``
    Spec: shmem_team_n_pes.
    """
    return fixed(team_row(team, TRANSLATE, ctx) + TEAM_N_PES).to(tl.int32)


@device_function
def team_translate_pe(team, pe, dest_team, ctx):
    """The number in ``dest_team`` of the team's PE ``pe``, int32; -1 when it is not a member of both.

    Example: ``first = shmem.team_translate_pe(shmem.TEAM_NODE, 0, shmem.TEAM_WORLD, ctx)``
    Spec: shmem_team_translate_pe.
    """
    row = team_row(team, TRANSLATE, ctx)
    other = team_row(dest_team, TRANSLATE, ctx)
    inside = (pe >= 0) & (pe < fixed(row + TEAM_N_PES))
    world = world_pe(team, row, tl.where(inside, pe, 0))
    found = tl.cast(-1, tl.int32)
    for member in range(fixed(other + TEAM_N_PES).to(tl.int32)):
        found = tl.where(inside & (world_pe(dest_team, other, member) == world), member, found)
    return found
