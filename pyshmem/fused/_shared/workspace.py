# SPDX-License-Identifier: BSD-3-Clause
"""Symmetric memory of the operations of a team, and what its members agree on.

Blocks have names and grow by doubling. A block that was outgrown stays as long as the job runs, for
graphs that were captured with it go on using it; together such blocks are no larger than the last.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

import numpy as np
import torch

from ..._core import errors, library
from ..._torch.staging import capturing
from ..._torch.tensors import over
from ...host.collectives.agreement import differing, must_agree, refuse_difference
from ...host.job import runtime
from ...host.memory import creation
from ...host.teams.arguments import refuse_team
from ...host.teams.team import Team
from .powers import power_of_2

_MOST_PLANS = 1024
_MOST_AGREED = 1 << 14  # kinds of calls


@contextlib.contextmanager
def _by_operation() -> Iterator[None]:
    """While within, errors and reports name the operation that the program called.

    Not what that makes: the program knows of no ``zeros``. It is looked for once for each memory.
    """
    fused = sys.modules[__package__.rpartition(".")[0]]
    frame: FrameType | None = sys._getframe()
    while frame and not (
        frame.f_code.co_name in fused.__all__
        and frame.f_globals["__name__"].startswith(fused.__name__)
    ):
        frame = frame.f_back
    if frame is None:
        yield
        return
    library.lib.ishmemx_name_waits(f"fused.{frame.f_code.co_name}".encode())
    try:
        yield
    finally:
        library.lib.ishmemx_name_waits(library.ffi.NULL)


class Workspace:
    """What the fused operations of one team keep on the heaps.

    All PEs of the job take part when a block is made or grows, for allocations are collective over
    all: with teams, each PE in its own.

    Attributes:
        team: the team.
        me, n_pes: the caller's number in the team, and how many members it has.
        owed: what a call that was interrupted on the host still owes to the other members, if anything.
    """

    def __init__(self, team: Team) -> None:
        self.team = team
        self.me, self.n_pes = team.my_pe(), team.n_pes()
        self._blocks: dict[str, torch.Tensor] = {}
        self._objects: dict[str, tuple[Any, Any]] = {}
        self._outgrown: list[Any] = []
        self._plans: dict[Any, tuple[int, Any]] = {}
        self._version = 0
        self.owed: Callable[[], Any] | None = None
        #: What members have compared. Alike on all members of programs that call alike, so that they
        #: compare, and forget, at the same calls.
        self._agreed: set[Any] = set()
        #: In checking mode, where there are others.
        self.checking = runtime.current().checks and runtime.n_pes() > 1
        self._n_compared = library.setting_number("CHECK_FIRST") if runtime.n_pes() > 1 else 0
        self._n_agreed = 0

    @property
    def checks(self) -> bool:
        """Whether members compare this call, known or not: in checking mode, and the first calls.

        Alike on all members: each call that has something to compare counts, on all of them.
        """
        return self.checking or self._n_agreed < self._n_compared

    def block(self, name: str, nbytes: int, *, zeroed: bool = False) -> torch.Tensor:
        """At least ``nbytes`` bytes on the device heap, at one place on all PEs; uint8.

        A block keeps its contents from call to call until it grows; ``zeroed`` ones then start again
        with zeros. Growing is collective, so ``nbytes`` is the same on all PEs.

        Raises: RuntimeError (it would grow inside a capture), HeapExhausted.
        """
        found = self._blocks.get(name)
        if found is not None and found.numel() >= nbytes:
            return found
        self._refuse_capture(name, nbytes, 0 if found is None else found.numel())
        if found is not None:
            self._outgrown.append(found)
        rounded = power_of_2(nbytes, 256)
        make = creation.zeros if zeroed else creation.empty
        # Later calls may be outside of the mode, and write to it.
        with torch.inference_mode(False), _by_operation():
            self._blocks[name] = over(make(rounded, np.uint8, heap="device"))
        self._version += 1
        return self._blocks[name]

    def thing(self, name: str, key: Any, make: Callable[[], Any]) -> Any:
        """What ``make`` made, collectively, when it was first asked for with this ``key``.

        For channels and other things that have symmetric memory; another key makes another one.
        """
        kept = self._objects.get(name)
        if kept is not None and kept[0] == key:
            return kept[1]
        self._refuse_capture(name, None, None)
        if kept is not None:
            self._outgrown.append(kept[1])
        with _by_operation():
            self._objects[name] = key, make()
        self._version += 1
        return self._objects[name][1]

    def plan(self, key: Any, make: Callable[[], Any]) -> Any:
        """What ``make`` gave for ``key``, as long as no block has grown since: how a call is launched.

        ``make`` follows from ``key`` and the workspace alone, so members that ask at different times
        have the same.
        """
        known = self._plans.get(key)
        if known is not None and known[0] == self._version:
            return known[1]
        with torch.inference_mode(False):  # later calls may be outside, and use its views
            made = make()
        if len(self._plans) >= _MOST_PLANS:
            self._plans.clear()
        self._plans[key] = self._version, made
        return made

    def known(self, key: Any) -> Any:
        """The plan of ``key``, where there is one and members need not compare calls; else None."""
        found = self._plans.get(key)
        if found is None or found[0] != self._version or self.checks:
            return None
        return found[1]

    def _refuse_capture(self, name: str, wanted: int | None, there: int | None) -> None:
        if capturing():
            sizes = "" if wanted is None else f" ({wanted} bytes, there are {there})"
            raise RuntimeError(
                f"the workspace {name!r} would have to grow{sizes}, which a captured stream cannot: "
                "make one such call, of the largest size, before the capture"
            )

    def agree(
        self, routine: str, /, *, rows: int | None = None, once: bool = False, **facts: Any
    ) -> None:
        """Raises on all members unless all call ``routine`` with the same facts.

        Members compare the first calls, later the first one with these facts, and in checking mode each.
        So facts are what is alike on all members, whatever else a call depends on: else some would wait
        for others in vain. One that was compared costs a look into a set.

        Args:
            routine, facts: texts, numbers, tuples of numbers, dtypes; facts by the names that the
                error gives them, the same of all calls of a routine.
            rows: how many rows the caller's ``x`` has, where that counts for the other members too.
            once: compare the first one with these facts alone, in checking mode too: members need not
                make equally many calls, and none waits for one that is stopped.

        Raises: MismatchError.
        """
        known, checks = (routine, rows, *facts.values()), self.checks and not once
        self._n_agreed += not once
        if not checks and (known in self._agreed or self.n_pes == 1):
            return
        named = (f"{name}={str(fact).removeprefix('torch.')}" for name, fact in facts.items())
        call = f"{routine}({', '.join(named)})"
        text = call if rows is None else f"{rows} rows: {call}"
        with _by_operation():
            said = differing(text, self.team)
        if not said:
            if len(self._agreed) >= _MOST_AGREED:
                self._agreed.clear()
            self._agreed.add(known)
            return
        counts, calls = zip(*(line.partition(" rows: ")[::2] for line in said), strict=True)
        if rows is None or len(set(calls)) > 1:
            raise refuse_difference([call or line for call, line in zip(calls, said, strict=True)])
        given = [int(count) for count in counts]
        other = next(pe for pe, count in enumerate(given) if count != given[0])
        raise errors.MismatchError(
            f"{routine}: x has {given[0]} rows on PE 0 and {given[other]} on PE {other}; give "
            f"rows={given} on all"
        )

    def agree_on_rows(self, routine: str, rows: tuple[int, ...], /, **facts: Any) -> None:
        """``agree`` of an operation that gathers ``rows`` of each member.

        As many of each may be since a member takes its own number for everybody's: the error says so.
        """
        if len(set(rows)) == 1:
            self.agree(routine, rows=rows[0], **facts)
        else:
            self.agree(routine, x_rows=rows, **facts)

    def make_up(self) -> None:
        """Do what is owed, before anything else is done with the team."""
        owed, self.owed = self.owed, None
        if owed is not None:
            with contextlib.suppress(ValueError):  # it was that call's, which nobody waits for
                owed()

    def must_agree(self, text: str) -> None:
        """Raises on all members unless all say the same ``text``. Collective, on the host.

        Raises: MismatchError.
        """
        must_agree(text, self.team)


_workspaces: dict[Any, Workspace] = {}


def workspace(team: Team) -> Workspace:
    """That of a team; made by the first call, on all its members.

    Raises: NotInitialized, TypeError (no team), UnsupportedError (the job has no device heap).
    """
    if not isinstance(team, Team):
        raise refuse_team(team, "team")
    runtime.current()
    found = _workspaces.get(team)
    if found is None:
        if runtime.device_name() == "none":
            raise errors.UnsupportedError(
                "the job has no device heap: fused operations need device 'cuda' or 'sim'"
            )
        _let_go_of_destroyed_teams()
        found = _workspaces[team] = Workspace(team)
    team.handle  # noqa: B018  (raises where the team is destroyed, which plans do not see)
    if found.owed is not None:
        found.make_up()
    return found


def _let_go_of_destroyed_teams() -> None:
    """What was kept for them goes back to the heap, in a collective call when all PEs have let go of it.

    Streams may still store words for peers there, so each PE waits for its own ones first.
    """
    gone = [team for team in _workspaces if _is_destroyed(team)]
    if not gone or capturing():
        return
    if runtime.device_name() == "cuda":
        torch.cuda.synchronize(runtime.current().gpu)
    for team in gone:
        del _workspaces[team]


def _is_destroyed(team: Team) -> bool:
    try:
        return not team.handle
    except ValueError:
        return True


def device_heap_is_p2p() -> bool:
    """Whether kernels load and store the device heaps of all PEs: for all of a job."""
    if not _p2p:
        _p2p.append(bool(library.device_state()[library.lib.ISHMEMX_STATE_P2P]))
    return _p2p[0]


_p2p: list[bool] = []
runtime.on_finalize(_p2p.clear)
runtime.on_finalize(_workspaces.clear)
