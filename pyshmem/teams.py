# SPDX-License-Identifier: BSD-3-Clause
"""Teams: ordered sets of PEs that collectives and contexts are about."""

from __future__ import annotations

from ._lib import lib
from .runtime import current


class Team:
    """A set of PEs, numbered from 0 within the team."""

    __slots__ = ("_name", "handle")

    def __init__(self, handle: int, name: str) -> None:
        self.handle = handle  # ishmemx_team_t
        self._name = name

    def my_pe(self) -> int:
        """The number of this PE in the team.

        Raises: NotInitialized.
        Spec: shmem_team_my_pe (OpenSHMEM 1.5).
        """
        return current().my_pe

    def n_pes(self) -> int:
        """The number of PEs of the team.

        Raises: NotInitialized.
        Spec: shmem_team_n_pes (OpenSHMEM 1.5).
        """
        return current().n_pes

    def translate_pe(self, pe: int, dest_team: Team) -> int:
        """The number in ``dest_team`` of this team's PE ``pe``; -1 when it is not a member.

        Raises: ValueError (pe), NotInitialized.
        Spec: shmem_team_translate_pe (OpenSHMEM 1.5).
        """
        n_pes = self.n_pes()
        if not 0 <= pe < n_pes:
            raise ValueError(f"pe {pe} is outside the team of {n_pes} PEs (0..{n_pes - 1})")
        return pe if pe < dest_team.n_pes() else -1

    def __repr__(self) -> str:
        return f"<pyshmem team {self._name}>"


#: All PEs of the job.
TEAM_WORLD: Team = Team(lib.team_world(), "TEAM_WORLD")
