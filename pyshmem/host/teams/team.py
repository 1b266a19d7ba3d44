# SPDX-License-Identifier: BSD-3-Clause
"""Teams: ordered sets of PEs that collectives and contexts are about.

Making a team is collective over the parent: all its PEs make the same call, and those that are in no
new team get None. A failure is one on all of them, but for arguments of wrong types, which are
TypeErrors where they are given. A team ends by ``destroy`` or with the job. One
that is dropped is a ResourceWarning; it ends, once all its PEs have dropped it, in the next split of
a team that holds them, or in ``drain``.
"""

from __future__ import annotations

import warnings
import weakref
from collections.abc import Iterable
from types import TracebackType
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, SupportsIndex, cast

from ..._core import errors, other_names
from ..._core.arrays.checks import StreamLike, place, stream_handle
from ..._core.arrays.peer_views import view_of_peer
from ..._core.arrays.types import AnyArray
from ..._core.dtypes import integer, pe_number
from ..._core.library import check, ffi, lib, owned
from ..job import runtime
from ..job.handles import Handle, kernels_refuse
from ..job.runtime import current
from ..kernels.stream_kernels import run
from .arguments import TeamConfig, listed_pes, options_of, refuse_team

if TYPE_CHECKING:
    from .contexts import Context


#: Stands for TEAM_WORLD, which is made below, as the default of an argument.
_WORLD_LATER = cast("Team", None)


class Channel(Handle):
    """What one group of a grid, or one stream, uses a team by while others use it, too.

    Kernels take ``pyshmem.device.as_argument(channel)`` as the team of a collective, collectives with
    ``stream=`` take the channel as ``team=``. Made by
    ``Team.channels``; it ends with its team. Extension.

    Attributes:
        team: the team; PE numbers are its own.
        index: its number among the team's channels; 0 is what the team itself stands for.
    """

    __slots__ = ("_row", "index", "team")
    _numba_type_ = kernels_refuse

    def __init__(self, team: Team, index: int, row: Team) -> None:
        self.team, self.index, self._row = team, index, row

    @property
    def handle(self) -> int:
        """What the library knows the channel by: a team of the same PEs."""
        return self._row.handle

    def n_pes(self) -> int:
        """The number of PEs in the team."""
        return self.team.n_pes()

    def sync(self, *, stream: StreamLike = None) -> None:
        """``Team.sync`` by this channel."""
        self._row.sync(stream=stream)

    def __repr__(self) -> str:
        return f"<pyshmem channel {self.index} of {self.team!r}>"


class Team(Handle):
    """A set of PEs, numbered from 0 within the team.

    A context manager: leaving the block destroys it, unless by an exception.
    """

    __slots__ = ("__weakref__", "_cell", "_channels", "_contexts", "_handle", "_name")
    _numba_type_ = kernels_refuse
    #: ``contexts.Context``, which stands above this file and puts itself here.
    _new_context: ClassVar[type[Context]]

    def __init__(self, cell: Any, name: str) -> None:
        self._name = name
        self._cell = cell  # owns it
        self._handle = int(cell[0])  # ishmemx_team_t, 0: destroyed
        self._contexts: weakref.WeakSet[Context] = weakref.WeakSet()
        self._channels: list[Team] = []  # from channel 1 on

    if not TYPE_CHECKING:  # who would take any name for one that there is

        def __getattr__(self, name: str) -> NoReturn:
            raise other_names.no_attribute("the team", name, other_names.OF_TEAM)

    @property
    def handle(self) -> int:
        """What the library knows the team by."""
        if not self._handle:
            raise ValueError(f"{self._name} was destroyed, or its job was finalized")
        return self._handle

    # ---- looking ---------------------------------------------------------------------------------

    def my_pe(self) -> int:
        """The number of this PE in the team.

        Raises: ValueError (destroyed), NotInitialized.
        Spec: shmem_team_my_pe (OpenSHMEM 1.5).
        """
        current()
        return int(lib.ishmemx_team_my_pe(self.handle))

    def n_pes(self) -> int:
        """The number of PEs of the team.

        Raises: ValueError (destroyed), NotInitialized.
        Spec: shmem_team_n_pes (OpenSHMEM 1.5).
        """
        current()
        return int(lib.ishmemx_team_n_pes(self.handle))

    def translate_pe(self, pe: int, dest_team: Team) -> int:
        """The number in ``dest_team`` of this team's PE ``pe``; -1 when it is not a member.

        Raises: ValueError (pe, destroyed), NotInitialized.
        Spec: shmem_team_translate_pe (OpenSHMEM 1.5).
        """
        n_pes, number = self.n_pes(), pe_number(pe)
        if not 0 <= number < n_pes:
            raise ValueError(f"pe {number} is outside the team of {n_pes} PEs (0..{n_pes - 1})")
        other = team_of(dest_team, "dest_team").handle
        return int(lib.ishmemx_team_translate_pe(self.handle, number, other))

    def get_config(self) -> TeamConfig:
        """What the team was made with, as it is now.

        Raises: ValueError (destroyed), NotInitialized, ShmemError.
        Spec: shmem_team_get_config (OpenSHMEM 1.6).
        """
        current()
        config = ffi.new("ishmemx_team_config_t *")
        check(lib.ishmemx_team_get_config(self.handle, lib.ISHMEMX_TEAM_NUM_CONTEXTS, config))
        return TeamConfig(int(config.num_contexts))

    def pes(self) -> list[int]:
        """The numbers in ``TEAM_WORLD`` of the team's PEs, in team order.

        Raises: ValueError (destroyed), NotInitialized.
        Extension.
        """
        return [int(lib.ishmemx_team_world_pe(self.handle, pe)) for pe in range(self.n_pes())]

    def ptr(self, array: AnyArray, pe: int) -> Any:
        """The copy on the team's PE ``pe`` of a symmetric array, as ``pyshmem.ptr``.

        Raises: ValueError (pe, array, destroyed), NotInitialized.
        Spec: shmem_team_ptr (OpenSHMEM 1.6).
        """
        address, nbytes, _ = place(array, "array", symmetric=True, writable=False)
        peer = ffi.new("uintptr_t *")
        check(lib.ishmemx_team_ptr(self.handle, address, pe_number(pe), peer))
        return view_of_peer(peer[0], nbytes, array)

    # ---- making ----------------------------------------------------------------------------------

    def split_strided(
        self, start: int, stride: int, size: int, *, config: TeamConfig | None = None
    ) -> Team | None:
        """Make the team of this team's PEs ``start``, ``start + stride``, ... Collective.

        Args:
            start: PE of this team that is PE 0 of the new one.
            stride: distance, also negative (the order is reversed), or 0 for a team of one.
            size: number of PEs; none may lie outside this team.
            config: what the new team is made with.

        Returns:
            The team; None on the PEs that are not in it.

        Raises: ValueError (start, stride, size, destroyed), MismatchError, PeerDied, ShmemTimeout,
            NotInitialized, ShmemError.
        Spec: shmem_team_split_strided (OpenSHMEM 1.6).
        """
        team = owned(lib.end_team)
        triplet = pe_number(start, "start"), integer("stride", stride), integer("size", size)
        options = options_of(config)
        check(lib.ishmemx_team_split_strided(self.handle, *triplet, *options, team))
        return made(team, f"{self._name}[{start}:{stride}:{size}]")

    def split_2d(
        self,
        xrange: int,
        *,
        xaxis_config: TeamConfig | None = None,
        yaxis_config: TeamConfig | None = None,
    ) -> tuple[Team, Team]:
        """Make a row and a column team of each PE: ``pe`` is at ``pe % xrange, pe // xrange``.

        Collective.

        Args:
            xrange: PEs in a row; more than the team has is as many as it has. The last row may be
                shorter.
            xaxis_config: what the rows are made with.
            yaxis_config: what the columns are made with.

        Returns:
            The row and the column this PE is in.

        Raises: ValueError (xrange, destroyed), MismatchError, PeerDied, ShmemTimeout,
            NotInitialized, ShmemError.
        Spec: shmem_team_split_2d (OpenSHMEM 1.5).
        """
        row, column = owned(lib.end_team), owned(lib.end_team)
        rows, columns = options_of(xaxis_config), options_of(yaxis_config)
        width = integer("xrange", xrange)
        check(lib.ishmemx_team_split_2d(self.handle, width, *rows, row, *columns, column))
        x, y = made(row, f"row of {self._name}"), made(column, f"column of {self._name}")
        assert x is not None
        assert y is not None
        return x, y

    @staticmethod
    def from_pes(
        pes: Iterable[SupportsIndex], *, parent: Team = _WORLD_LATER,
        config: TeamConfig | None = None,
    ) -> Team | None:  # fmt: skip
        """Make the team of the given PEs, in the given order. Collective over ``parent``.

        Args:
            pes: numbers in ``parent``, each once; equal on all PEs.
            parent: team whose PEs make the call; default ``TEAM_WORLD``. None, as a split returns where
                this PE is no member, is refused.
            config: what the new team is made with.

        Returns:
            The team; None on the PEs that are not in it.

        Raises: TypeError (parent), ValueError (pes, destroyed), MismatchError, PeerDied, ShmemTimeout,
            NotInitialized, ShmemError.
        Extension.
        """
        if not isinstance(parent, Team):
            raise refuse_team(parent, "parent")
        team, listed = owned(lib.end_team), listed_pes(pes)
        numbers = ffi.new("int[]", listed)
        options = options_of(config)
        check(lib.ishmemx_team_split_list(parent.handle, numbers, len(listed), *options, team))
        return made(team, f"{parent._name}{listed}")

    def split(
        self, color: int | None, key: int = 0, *, config: TeamConfig | None = None
    ) -> Team | None:
        """Make a team of the PEs of each colour. Collective.

        Args:
            color: PEs of equal colour, 0 or more, come into one team; None: into none.
            key: order in the new team; equal keys keep the order of this team.
            config: what the new team is made with.

        Returns:
            The team of this PE's colour; None without a colour.

        Raises: ValueError (color, destroyed), PeerDied, ShmemTimeout, NotInitialized, ShmemError.
        Extension.
        """
        number = -1 if color is None else integer("color", color)
        if color is not None and number < 0:
            raise ValueError(f"color is {color}; give 0 or more, or None for no team")
        team, of_key = owned(lib.end_team), integer("key", key)
        check(lib.ishmemx_team_split_color(self.handle, number, of_key, *options_of(config), team))
        return made(team, f"color {color} of {self._name}")

    def channels(self, n: int) -> tuple[Channel, ...]:
        """The team's channels 0 to ``n - 1``. Collective: the team makes those that it has not yet.

        A collective of a kernel takes its team for one group of the PE at a time. Several groups of
        a grid, or several streams, use a channel each: sets of flags and buffers of their own.
        Channel 0 is the team's, which is used where a kernel gets the team itself. Two groups of a PE
        in collectives of one channel at a time are a fault: on a GPU in checking mode, else always.

        Args:
            n: how many, 1 or more; each but channel 0 takes one of the job's 64 places for teams
                and, where kernels reach peers by stores, 512 KiB of device memory set aside for it.

        Raises: ValueError (n, destroyed), MismatchError, PeerDied, ShmemTimeout, NotInitialized,
            ShmemError (no place left).
        Extension.
        """
        n = integer("n", n)
        if n < 1:
            raise ValueError(f"n is {n}; a team has at least channel 0")
        while len(self._channels) < n - 1:
            row = self._new_channel(n)
            row._name = f"{self._name}, channel {len(self._channels) + 1}"
            self._channels.append(row)
        rows = (self, *self._channels[: n - 1])
        return tuple(Channel(self, index, row) for index, row in enumerate(rows))

    def _new_channel(self, n: int) -> Team:
        try:
            row = self.split_strided(0, 1, self.n_pes())
        except errors.HeapExhausted as error:
            has = len(self._channels) + 1
            raise type(error)(
                f"channels: n is {n}, and after {has} of them no place is left: the teams of a job and "
                "their channels, but for channel 0, have 64 places together"
            ) from None
        assert row is not None
        return row

    def create_ctx(self, options: int = 0) -> Context:
        """Make a context whose PE numbers are this team's; the same as ``Context(options, self)``.

        Spec: shmem_team_create_ctx (OpenSHMEM 1.5).
        """
        return self._new_context(options, team=self)

    # ---- using -----------------------------------------------------------------------------------

    def sync(self, *, stream: StreamLike = None) -> None:
        """Wait until all PEs of the team are here. Collective.

        Args:
            stream: stream to do it in the order of; see ``streams``.

        Completes: this PE's and the others' stores to their own memory; no puts, gets or atomics:
            for a barrier, call ``quiet`` of the context before.
        Raises: ValueError (destroyed), PeerDied, ShmemTimeout, NotInitialized, ShmemError.
        Spec: shmem_team_sync (OpenSHMEM 1.5).
        """
        if stream is not None:
            run(lib.ishmemx_sync_on_stream, self.handle, stream_handle(stream))
        else:
            check(lib.ishmemx_team_sync(self.handle))

    def destroy(self) -> None:
        """Give the team back, with its contexts. All its PEs do; a second call does nothing.

        It waits for the others, but arrives in no other collective of the team: one that a PE is in
        or calls meanwhile raises MismatchError there. Interrupted, it can only be called again.

        Raises: ValueError (a predefined team), PeerDied, ShmemTimeout, NotInitialized, ShmemError.
        Spec: shmem_team_destroy (OpenSHMEM 1.5).
        """
        while self._channels and self not in (TEAM_WORLD, TEAM_SHARED, TEAM_NODE):
            self._channels[-1].destroy()
            self._channels.pop()
        check(lib.destroy_team(self._cell))
        self._forget()

    def _forget(self) -> None:
        """The library no longer has the team, nor its contexts."""
        for context in tuple(self._contexts):
            context.forget()
        self._contexts.clear()
        self._channels.clear()
        self._handle = self._cell[0] = 0

    def __del__(self) -> None:  # the cell gives the team back
        if not getattr(self, "_handle", 0) or self._handle in (_PREDEFINED or (self._handle,)):
            return  # the interpreter, on its way out, has taken the tuple away
        if not self._cell[0]:  # a destroy that was interrupted behind that
            return
        warnings.warn(
            f"{self!r} was dropped; destroy it", ResourceWarning, stacklevel=2, source=self
        )

    def __enter__(self) -> Team:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if error is None:  # the other PEs may not come to where all destroy it
            self.destroy()

    def __repr__(self) -> str:
        if not getattr(self, "_handle", 0) or not runtime.initialized():
            return f"<pyshmem team {getattr(self, '_name', 'that is half made')}>"
        return f"<pyshmem team {self._name}: PE {self.my_pe()} of {self.n_pes()}>"


_PREDEFINED = (lib.team_world(), lib.team_shared(), lib.team_node())
_made_teams: weakref.WeakSet[Team] = weakref.WeakSet()


def made(cell: Any, name: str) -> Team | None:
    """The team in the cell; None if there is none."""
    if not cell[0]:
        return None
    team = Team(cell, name)
    _made_teams.add(team)
    return team


def team_of(team: Team | Channel | None, name: str = "team") -> Team | Channel:
    """``team``, if it is one.

    Raises: TypeError (another object, or None: this PE is in no such team).
    """
    if isinstance(team, Team | Channel):
        return team
    raise refuse_team(team, name)


def _job_ended() -> None:
    for team in tuple(_made_teams):
        team._forget()
    _made_teams.clear()
    for team in (TEAM_WORLD, TEAM_SHARED, TEAM_NODE):
        team._channels.clear()


#: All PEs of the job.
TEAM_WORLD: Team = Team(ffi.new("uintptr_t *", lib.team_world()), "TEAM_WORLD")
cast(Any, Team.from_pes).__kwdefaults__["parent"] = TEAM_WORLD
#: The PEs whose symmetric heaps this PE can load and store.
TEAM_SHARED: Team = Team(ffi.new("uintptr_t *", lib.team_shared()), "TEAM_SHARED")
#: The PEs on this host. Extension.
TEAM_NODE: Team = Team(ffi.new("uintptr_t *", lib.team_node()), "TEAM_NODE")

runtime.on_finalize(_job_ended)
