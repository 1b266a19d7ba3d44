# SPDX-License-Identifier: BSD-3-Clause
"""shmem4py's teams and contexts: handles that can be invalid, and several of one thing."""

from __future__ import annotations

from typing import Any, Self

import pyshmem

from ...host.teams.arguments import TeamConfig
from ...host.teams.contexts import CTX_DEFAULT as _CTX_DEFAULT
from ...host.teams.contexts import Context
from ...host.teams.team import Team as _Team

_PREDEFINED: tuple[Any, ...] = (
    pyshmem.TEAM_WORLD, pyshmem.TEAM_SHARED, pyshmem.TEAM_NODE, _CTX_DEFAULT,
)  # fmt: skip


class _Handle:
    """Of one of pyshmem's objects, or of nothing; equal to the others of the same."""

    _of: Any
    _kind: type = object
    _constants: tuple[Any, ...] = ()  # the module's own handles, which stay valid

    def __init__(self, of: Any = None) -> None:
        if isinstance(of, type(self)):
            of = of._of
        if of is not None and not isinstance(of, self._kind):
            raise TypeError(f"{type(self).__name__} takes one of its kind or None, not {of!r}")
        self._of = of

    def _valid(self) -> Any:
        if self._of is None:
            raise RuntimeError(f"the {type(self).__name__} handle is invalid")
        return self._of

    def __eq__(self, other: object) -> bool:
        return isinstance(other, type(self)) and self._of is other._of

    def __hash__(self) -> int:
        return hash(id(self._of))

    def __bool__(self) -> bool:
        return self._of is not None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.destroy()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._of!r})"

    def destroy(self) -> None:
        """Destroy what it is the handle of, unless that is predefined; the handle is invalid then."""
        if any(self is constant for constant in self._constants):
            return
        if self._of is not None and not any(self._of is one for one in _PREDEFINED):
            self._of.destroy()
        self._of = None


class Team(_Handle):
    """A team: ``Team()`` is an invalid one, ``Team(team)`` another handle of the same."""

    _kind = _Team

    def my_pe(self) -> int:
        """``pyshmem.Team.my_pe``; RuntimeError when the handle is invalid, as all of these."""
        return int(self._valid().my_pe())

    def n_pes(self) -> int:
        """``pyshmem.Team.n_pes``."""
        return int(self._valid().n_pes())

    def get_config(self) -> dict[str, int]:
        """``pyshmem.Team.get_config`` as a dictionary."""
        return dict(self._valid().get_config()._asdict())

    def split_strided(
        self, start: int = 0, stride: int = 1, size: int | None = None,
        config: Any = None, **options: int,
    ) -> Team:  # fmt: skip
        """``pyshmem.Team.split_strided``; by default all that fit, invalid on PEs outside."""
        whole = self._valid()
        if size is None:
            left = whole.n_pes() - start if stride > 0 else start + 1
            size = max(1, -(-left // abs(stride)) if stride else 1)
        made = TeamConfig(**(dict(config or {}) | options))
        return Team(whole.split_strided(start, stride, size, config=made))

    def split_2d(
        self, xrange: int, xaxis_config: Any = None, yaxis_config: Any = None
    ) -> tuple[Team, Team]:
        """``pyshmem.Team.split_2d``."""
        configs = [TeamConfig(**dict(config or {})) for config in (xaxis_config, yaxis_config)]
        row, column = self._valid().split_2d(
            xrange, xaxis_config=configs[0], yaxis_config=configs[1]
        )
        return Team(row), Team(column)

    def translate_pe(self, pe: int | None = None, team: Team | None = None) -> int:
        """The number in ``team``, by default the world, of ``pe``, by default the caller."""
        whole = self._valid()
        into = pyshmem.TEAM_WORLD if team is None else team._valid()
        return int(whole.translate_pe(whole.my_pe() if pe is None else pe, into))

    def create_ctx(self, options: int = 0) -> Ctx:
        """``pyshmem.Team.create_ctx``."""
        return Ctx(self._valid().create_ctx(options))

    def sync(self) -> None:
        """``pyshmem.Team.sync``."""
        self._valid().sync()


class Ctx(_Handle):
    """A context: ``Ctx()`` is an invalid one, ``Ctx(ctx)`` another handle of the same."""

    _kind = Context

    @staticmethod
    def create(options: int = 0, team: Team | None = None) -> Ctx:
        """``pyshmem.Context``."""
        return Ctx(Context(options, pyshmem.TEAM_WORLD if team is None else team._valid()))

    def get_team(self) -> Team:
        """``pyshmem.Context.get_team``."""
        return Team(self._valid().get_team())

    def fence(self) -> None:
        """``pyshmem.Context.fence``."""
        self._valid().fence()

    def quiet(self) -> None:
        """``pyshmem.Context.quiet``."""
        self._valid().quiet()


TEAM_WORLD, TEAM_SHARED = Team(pyshmem.TEAM_WORLD), Team(pyshmem.TEAM_SHARED)
TEAM_INVALID, CTX_DEFAULT, CTX_INVALID = Team(), Ctx(_CTX_DEFAULT), Ctx()
_Handle._constants = (TEAM_WORLD, TEAM_SHARED, TEAM_INVALID, CTX_DEFAULT, CTX_INVALID)


def bare(value: Any) -> Any:
    """What pyshmem's routines take: of a handle its object."""
    return value._valid() if isinstance(value, _Handle) else value
