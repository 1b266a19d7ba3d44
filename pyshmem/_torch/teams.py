# SPDX-License-Identifier: BSD-3-Clause
"""The teams that operators name by numbers, and their staging memory."""

from __future__ import annotations

import numpy as np
import torch

from .._core.library import parse_size
from ..host.job import runtime
from ..host.memory import creation
from ..host.teams.arguments import refuse_team
from ..host.teams.team import TEAM_WORLD, Team
from . import tensors
from .staging import Staging

#: Of operators that communicate. The second keeps a compiler from computing what has constants alone
#: while it compiles, on one PE perhaps, and from leaving a call out.
TAGS = torch.Tag.pt2_compliant_tag, torch.Tag.nondeterministic_seeded


class _Entry:
    """A team and its staging memory on each heap."""

    def __init__(self, team: Team) -> None:
        self.team = team
        self.staging: dict[str, Staging] = {}


_teams: list[_Entry] = [_Entry(TEAM_WORLD)]


def _job_ended() -> None:
    del _teams[1:]
    _teams[0].staging.clear()


runtime.on_finalize(_job_ended)


def register_team(team: Team = TEAM_WORLD, *, staging: int | str = "16M") -> int:
    """The number by which operators know a team, and memory for those that copy. Collective.

    All PEs of the job call it, as for every allocation, each with a team that it is in; those of one
    team come to one number where the calls before were alike.

    Args:
        team: the team; of a process group of backend ``"pyshmem"`` it is ``group.team``.
        staging: bytes, or a text such as ``"16M"``, on the host heap and, with a GPU, on the device heap
            too; 0 for none. Given again, it replaces what the team had.

    Returns:
        The number; 0 for ``TEAM_WORLD``.

    Raises: as ``pyshmem.empty``; TypeError (no team); ValueError (staging is too small).
    Extension.
    """
    if not isinstance(team, Team):
        raise refuse_team(team, "team")
    number = next((i for i, entry in enumerate(_teams) if entry.team is team), len(_teams))
    entry = _teams[number] if number < len(_teams) else _Entry(team)
    nbytes = parse_size(staging)
    on_gpu = runtime.device_name() == "cuda"
    made = {}
    for heap in ("host", "device") if on_gpu and nbytes else ("host",) if nbytes else ():
        made[heap] = Staging(team, tensors.over(creation.empty(nbytes, np.uint8, heap=heap)))
    if made:
        entry.staging = made
    if number == len(_teams):
        if torch.compiler.is_compiling():  # what is appended now is there when the graph has run
            raise RuntimeError(
                "torch.compile cannot make a team known to operators: call "
                "pyshmem.interop.torch.register_team(team, staging=0) once before"
            )
        _teams.append(entry)
    return number


def team_of(number: int) -> Team:
    if not 0 <= number < len(_teams):
        raise ValueError(f"team {number} is none; register_team gives their numbers")
    return _teams[number].team


def staging_of(number: int, tensor: torch.Tensor) -> Staging:
    team_of(number)
    heap = "device" if tensor.is_cuda else "host"
    found = _teams[number].staging.get(heap)
    if found is None:
        raise ValueError(
            f"team {number} has no staging memory on the {heap} heap: before operators that return new "
            "tensors, and before copy=True, all PEs call "
            f"pyshmem.interop.torch.register_team({'team' if number else ''}) once"
        )
    return found
