# SPDX-License-Identifier: BSD-3-Clause
"""What is known to have happened: vector clocks over lanes.

A thread of a program (an *agent*: the host of a PE, a thread of a kernel) has a lane for each kind of
access, and numbers its accesses in each. Of an access one may know three things, which grow from left
to right:

- it was *issued* before (``issued``): by program order, and by what follows from it,
- it reaches its PE before whatever I send there (``fenced``): a fence,
- it is *done*, wherever I look (``done``): quiet, a barrier, or a signal behind it.

Of accesses that are complete when their call returns (``AT_ONCE``), to be issued is to be done.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any, NamedTuple


class Kind(IntEnum):
    """How the accesses of a lane complete."""

    AT_ONCE = (
        0  # when the call returns: reads, stores of a PE to its own memory, atomics that fetch
    )
    DELIVERED = 1  # at another PE, some time: ordered by fence, done by quiet
    SIGNALLED = 2  # the data of put_signal: as DELIVERED, and done for who sees the signal
    BY_QUIET = 3  # here, by quiet: what non-blocking calls read and write on their own PE


#: In the place of a context: of atomic operations that fetch. Who sees one knows it, and nothing else.
ATOMIC = -1
#: The same of loads, where the library's own kernels are followed; and of what they ask the host for,
#: which no fence completes.
LOADED, REQUESTS = -2, "requests"


class Lane(NamedTuple):
    """Accesses of one agent of one kind, to one PE, through one context."""

    agent: int
    pe: int  # of the agent
    kind: Kind
    target: int
    ctx: Any  # a context's number, or what names a request, which no other quiet completes


class Lanes:
    """All lanes, by number."""

    def __init__(self) -> None:
        self.of: list[Lane] = []
        self.issued: list[int] = []  # accesses so far
        self._numbers: dict[Lane, int] = {}

    def from_the_begin(self) -> Lanes:
        """The same lanes by the same numbers, before any access."""
        new = Lanes()
        new.of, new.issued, new._numbers = [*self.of], [0] * len(self.of), dict(self._numbers)
        return new

    def number(self, lane: Lane) -> int:
        """The number of a lane, which is made if it is new."""
        found = self._numbers.get(lane)
        if found is None:
            found = self._numbers[lane] = len(self.of)
            self.of.append(lane)
            self.issued.append(0)
        return found


#: One access: its lane, and its number there.
Event = tuple[int, int]


class Clock:
    """What an agent knows. ``single``: accesses that are done beyond ``done``, by lane.

    An entry of ``single`` is the number of an access, or a pair of it and the address of eight bytes
    of it, where only these are known to be there.
    """

    __slots__ = ("done", "fenced", "issued", "single")

    def __init__(self) -> None:
        self.issued: dict[int, int] = {}
        self.fenced: dict[int, int] = {}
        self.done: dict[int, int] = {}
        self.single: dict[int, set[int | tuple[int, int]]] = {}

    def copy(self) -> Clock:
        new = Clock()
        new.issued, new.fenced, new.done = dict(self.issued), dict(self.fenced), dict(self.done)
        if self.single:
            new.single = {lane: set(known) for lane, known in self.single.items()}
        return new

    def become(self, other: Clock) -> None:
        """Know what ``other`` knows, and nothing else."""
        new = other.copy()
        self.issued, self.fenced, self.done, self.single = (
            new.issued, new.fenced, new.done, new.single,
        )  # fmt: skip

    def join(self, other: Clock, lanes: Lanes) -> None:
        """Know what ``other`` knows, too."""
        for mine, theirs in (
            (self.issued, other.issued),
            (self.fenced, other.fenced),
            (self.done, other.done),
        ):
            if mine is theirs:
                continue
            for lane, number in theirs.items():
                if mine.get(lane, 0) < number:
                    mine[lane] = number
        for lane, known in other.single.items():
            for one in known:
                self.know(lane, one, lanes)
        for lane in [lane for lane in self.single if lane in other.done]:
            self._tidy(lane)

    def know(self, lane: int, one: int | tuple[int, int], lanes: Lanes) -> None:
        """One access is done, or eight bytes of it."""
        number = one if isinstance(one, int) else one[0]
        if number <= self.done.get(lane, 0):
            return
        if lanes.of[lane].kind == Kind.AT_ONCE:
            if lanes.of[lane].ctx == ATOMIC and self.issued.get(lane, 0) < number:
                self.issued[lane] = number
            return  # of others, known by ``issued``
        self.single.setdefault(lane, set()).add(one)
        self._tidy(lane)

    def _tidy(self, lane: int) -> None:
        """What ``single`` has in a row behind ``done`` moves there."""
        known, done = self.single.get(lane), self.done.get(lane, 0)
        if known is None:
            return
        while done + 1 in known:
            done += 1
        if done:
            self.done[lane] = done
            known = {one for one in known if (one if isinstance(one, int) else one[0]) > done}
        if known:
            self.single[lane] = known
        else:
            del self.single[lane]

    def fence(self, lanes: Lanes, pe: int, ctx: int | None) -> None:
        """Of what a PE has sent, and is known here, nothing is passed by what is sent later."""
        for lane, number in self.issued.items():
            of = lanes.of[lane]
            if of.pe == pe and of.kind in _SENT and (ctx is None or of.ctx == ctx):
                self.fenced[lane] = number

    def quiet(
        self, lanes: Lanes, pe: int, ctx: Any, targets: frozenset[int] | None, but: int = -1
    ) -> None:
        """All of that is done; ``targets``: what went to these PEs; ``but``: not this agent's."""
        for lane, number in self.issued.items():
            of = lanes.of[lane]
            if of.pe != pe or of.kind == Kind.AT_ONCE or of.agent == but:
                continue
            if of.ctx != ctx if ctx is not None else not isinstance(of.ctx, int):
                continue
            if targets is None or of.target in targets:
                self.done[lane] = self.fenced[lane] = number
                if lane in self.single:
                    self._tidy(lane)

    def released_to(self, pe: int, lanes: Lanes) -> Clock:
        """What one knows who sees, at ``pe``, what is sent there now."""
        new = self.copy()
        for lane, number in self.fenced.items():
            if lanes.of[lane].target == pe and number > new.done.get(lane, 0):
                new.done[lane] = number
        new.fenced = {}
        return new

    def has(self, event: Event, granule: int, lanes: Lanes, sent: bool) -> bool:
        """Did an access happen before one of this agent's now?

        ``sent``: the new one goes to the same PE, so that a fence is enough. ``granule``: the address of
        eight bytes in question.
        """
        lane, number = event
        if lanes.of[lane].kind == Kind.AT_ONCE:
            return number <= self.issued.get(lane, 0)
        if number <= self.done.get(lane, 0) or (sent and number <= self.fenced.get(lane, 0)):
            return True
        known = self.single.get(lane)
        return known is not None and (number in known or (number, granule) in known)


_SENT = (Kind.DELIVERED, Kind.SIGNALLED)


class Programs:
    """Clocks of Triton's programs, by agent.

    ``told``: as of the last fence or release, of which what is relaxed tells. The others are there where
    the library's own kernels are followed.

    A program is one agent. Its threads are as far apart as its barriers say: a release tells of what was
    stored before the last barrier, and what a wait has seen is known to all behind the next. A plain
    store tells of what was stored before the last fence, and of what was loaded before the last barrier:
    a load has its value when it is used.
    """

    def __init__(self, lanes: Lanes) -> None:
        self._lanes = lanes
        self.followed = False
        self.fenced: dict[int, Clock] = {}  # what a store tells of: as of the last fence
        self.seen: dict[int, Clock] = {}  # what some of the threads have seen since the barrier
        self.told: dict[int, Clock] = {}
        self._met: dict[int, Clock] = {}  # as of the last barrier
        #: By program: words that all its threads have loaded, and that one has stored, since then.
        self._words: dict[int, tuple[dict[Any, Any], dict[Any, Any]]] = {}

    def begin(self, agent: int, clock: Clock) -> None:
        """A program begins, and knows what the launch does."""
        self.told[agent] = clock.copy()
        if self.followed:
            self._met[agent], self.fenced[agent] = clock.copy(), clock.copy()
            self.seen[agent] = Clock()
            self._words[agent] = {}, {}

    def end(self, agent: int, clock: Clock) -> None:
        """It has ended."""
        self.told.pop(agent, None)
        if self.followed and agent in self.seen:
            clock.join(self.seen.pop(agent), self._lanes)
            del self._met[agent], self.fenced[agent], self._words[agent]

    def tell(self, agent: int, clock: Clock) -> None:
        """A fence, or a release, of a program."""
        if agent in self.told:
            self.told[agent] = clock.copy()

    def barrier(self, agent: int, clock: Clock) -> None:
        """Its threads meet."""
        if agent in self.seen:
            clock.join(self.seen[agent], self._lanes)
            self.seen[agent], self._met[agent] = Clock(), clock.copy()
            self._words[agent] = {}, {}
            told = self.fenced[agent].issued
            for lane, number in clock.issued.items():
                of = self._lanes.of[lane]
                if of.ctx == LOADED and of.agent == agent:
                    told[lane] = number

    def touch(self, agent: int, word: Any, writes: bool, access: Any) -> Any:
        """A word that is loaded by all threads, or stored by one; None, or what a barrier lacks to.

        A word that is loaded on the line that stores it is loaded for that.
        """
        loaded, stored = self._words.get(agent, ({}, {}))
        other = (loaded if writes else stored).get(word)
        (stored if writes else loaded).setdefault(word, access)
        return None if other is None or other.site == access.site else other

    def in_turn(self, agent: int, event: Event, nbytes: int) -> bool:
        """Come two stores of a program to one place in their order? ``event``: the first.

        One thread stores a word; behind a barrier all threads know the first.
        """
        met = self._met.get(agent)
        return met is not None and (nbytes <= 8 or event[1] <= met.issued.get(event[0], 0))

    def fence(self, agent: int, pe: int, clock: Clock) -> None:
        """What was stored before the last barrier is done."""
        if agent in self._met:
            done = self._met[agent].copy()
            done.quiet(self._lanes, pe, None, None)
            self.fenced[agent] = done
            clock.join(done, self._lanes)

    def settle(self, agent: int, pe: int, clock: Clock) -> None:
        """What was asked for before the last barrier is done: each thread has seen that."""
        if agent in self._met:
            self._met[agent].quiet(self._lanes, pe, REQUESTS, None)
            clock.join(self._met[agent], self._lanes)
