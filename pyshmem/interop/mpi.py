# SPDX-License-Identifier: BSD-3-Clause
"""Programs that use MPI too: teams from communicators, and communicators from teams.

``pyshmem.init(comm=comm)`` joins the processes of a communicator into a job.

Extension.
"""

from __future__ import annotations

from typing import Any

from ..host.job import runtime
from ..host.job.communicator import rank_and_size
from ..host.teams.team import TEAM_WORLD, Team


def team_from_comm(comm: Any, parent: Team = TEAM_WORLD) -> Team | None:
    """Make the team of a communicator's processes, in the order of their ranks.

    Collective over ``parent`` and over ``comm``: PEs of ``parent`` outside ``comm`` pass
    ``MPI.COMM_NULL`` or None.

    Args:
        comm: communicator of mpi4py whose processes are PEs of ``parent``. PEs may pass different
            ones, which then give different teams.
        parent: team whose PEs make the call.

    Returns:
        The team; None on the PEs that gave no communicator.

    Raises: TypeError (not a communicator), ValueError (parent), NotInitialized, ShmemError.
    Extension.
    """
    runtime.current()
    if comm is None or not comm:
        return parent.split(None, 0)
    rank, _ = rank_and_size(comm)
    leader = comm.bcast(parent.my_pe() if rank == 0 else None)
    return parent.split(leader, rank)


def comm_from_team(team: Team | None, comm: Any = None) -> Any:
    """Make the communicator of a team's PEs, ranked in team order. Collective over ``comm``.

    Args:
        team: team of this PE; None on processes that belong to none. Processes may pass
            different teams, which then give different communicators.
        comm: communicator that holds the PEs of the teams; default ``MPI.COMM_WORLD``.

    Returns:
        A communicator of mpi4py, to be freed by the caller; None where ``team`` is None.

    Raises: NotInitialized, ImportError (no mpi4py).
    Extension.
    """
    from mpi4py import MPI

    runtime.current()
    everybody = MPI.COMM_WORLD if comm is None else comm
    if team is None:
        everybody.Split(MPI.UNDEFINED, 0)
        return None
    return everybody.Split(team.translate_pe(0, TEAM_WORLD), team.my_pe())
