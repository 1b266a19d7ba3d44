# SPDX-License-Identifier: BSD-3-Clause
"""What teams are made of: what users give, checked, as the library takes it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple, SupportsIndex

from ..._core.dtypes import integer, pe_number
from ..._core.library import ffi, lib
from ..._core.values import is_integer, shown


class TeamConfig(NamedTuple):
    """What a team is made with.

    Attributes:
        num_contexts: contexts that this PE is going to have on the team at a time; a hint.
    """

    num_contexts: int = 0


def options_of(config: TeamConfig | None) -> tuple[Any, int]:
    """The configuration and its mask."""
    if config is None:
        return ffi.NULL, 0
    if not isinstance(config, TeamConfig):
        raise TypeError(f"config is {config!r} ({type(config).__name__}), not a TeamConfig")
    number = integer("num_contexts", config.num_contexts)
    return ffi.new("ishmemx_team_config_t *", (number,)), lib.ISHMEMX_TEAM_NUM_CONTEXTS


def listed_pes(pes: Iterable[SupportsIndex]) -> list[int]:
    """The numbers of several PEs."""
    try:
        given = list(pes)
    except TypeError:
        one = pes if is_integer(pes) else 0
        raise TypeError(
            f"pes is {pes!r} ({type(pes).__name__}); give several PEs, as [{one}]"
        ) from None
    return [pe_number(pe) for pe in given]


def refuse_team(team: Any, name: str) -> TypeError:
    """The error of what is no team."""
    if team is None:
        return TypeError(
            f"{name} is None, as a split returns where this PE is no member: leave the call to members"
        )
    way = "the whole job is TEAM_WORLD"
    if isinstance(team, (list, tuple, range, set, frozenset)):
        pes = sorted(team) if isinstance(team, (set, frozenset)) else list(team)
        way = f"these PEs make one, all of them in the call: pyshmem.Team.from_pes({shown(pes)})"
    if type(team).__module__.startswith("torch."):  # a process group, or its backend
        way = (
            "pyshmem.interop.torch.from_process_group(group) gives it, group.team of one of pyshmem"
        )
    return TypeError(f"{name} is of type {type(team).__name__}, not a Team; {way}")
