# SPDX-License-Identifier: BSD-3-Clause
"""Members of a team that have to make the same call tell each other what they call."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..._core import errors
from ..job import runtime
from ..memory import creation
from ..teams.team import TEAM_WORLD, Team
from .data_movement import fcollect

_TEXT = 240  # bytes of what a PE says
#: A team's two blocks, used in turn, of a row of its own and one of each member: a member's next call
#: may come while this one reads what the last brought, but not the call after it, which needs its part.
_texts: dict[Any, list[Any]] = {}


def must_agree(text: str, team: Team = TEAM_WORLD) -> None:
    """Raises on all members unless all say the same ``text``. Collective, on the host.

    Raises: MismatchError, with what each member said.
    """
    said = differing(text, team)
    if said:
        raise refuse_difference(said)


def refuse_difference(said: list[str]) -> errors.MismatchError:
    """The error of members that said different things."""
    lines = "; ".join(f"PE {pe}: {line}" for pe, line in enumerate(said))
    return errors.MismatchError(f"members of the team made different calls: {lines}")


def differing(text: str, team: Team) -> list[str]:
    """What each member says, if that is not the same; else nothing. Collective, on the host.

    The first call of a team allocates, which all PEs of the job do together, each in a team of its own,
    and as many bytes whatever its size.
    """
    if team not in _texts:
        # Of one size on all PEs, also where their teams are not.
        _texts[team] = list(creation.zeros((2, runtime.n_pes() + 1, _TEXT), np.uint8))
    _texts[team].reverse()
    own, members = _texts[team][0][0], _texts[team][0][1 : team.n_pes() + 1]
    said = text.encode()[:_TEXT]
    own[:] = 0
    own[: len(said)] = np.frombuffer(said, np.uint8)
    fcollect(members, own, team=team)
    if not (members != own).any():
        return []
    return [bytes(row).rstrip(b"\0").decode(errors="replace") for row in members]


runtime.on_finalize(_texts.clear)
