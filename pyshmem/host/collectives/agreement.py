# SPDX-License-Identifier: BSD-3-Clause
"""Members of a team that have to make the same call tell each other what they call."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from ..._core import errors
from ..job import runtime
from ..memory import creation
from ..teams.team import TEAM_WORLD, Team
from .data_movement import fcollect

#: A call with its facts by name, and what stands between two of these.
_CALL = re.compile(r"([\w ]+)\((\w+=.*)\)", re.DOTALL)
_NEXT_NAME = re.compile(r", (?=\w+=)")
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
    """The error of members that said different things.

    Calls of one routine, ``routine(name=value, ...)``, are told by what differs, a name and two values.
    """
    calls = [_CALL.fullmatch(line) for line in said]
    routines = {call[1] if call else "" for call in calls}
    facts = [_NEXT_NAME.split(call[2]) if call else [] for call in calls]
    if len(routines) == 1 and len({len(one) for one in facts}) == 1 and facts[0]:
        other = next((pe for pe, one in enumerate(facts) if one != facts[0]), 0)
        pairs = zip(facts[0], facts[other], strict=True)
        two = zip(*(pair for pair in pairs if pair[0] != pair[1]), strict=True)
        if told := [", ".join(one) for one in two]:
            return errors.MismatchError(
                f"{routines.pop()}: {told[0]} on PE 0 and {told[1]} on PE {other}; all members of the "
                "team give the same"
            )
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
