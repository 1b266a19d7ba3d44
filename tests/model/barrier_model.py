# SPDX-License-Identifier: BSD-3-Clause
"""Every order in which few PEs can take the steps of ``native/src/agree/arrival.c`` in an epoch.

A PE stores its arrival, which stays in a store buffer until a fence or until it leaves by itself, and
looks at all words twice with a fence between. Who waits may take its arrival back for its signal
handlers, which may raise and take the PE elsewhere: when it has left, nobody has passed, and nobody
passes before it comes back. A PE may be killed while it decides whether it leaves; then the others
give up after some attempts. Every access to a word is a step of its own.
``explore`` visits all states and says what is wrong in the first bad one, with the way there.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import NamedTuple

#: What may be left out, to see that it is missed. "mark": who would leave stores LEAVING,
#: which others that would leave take for an arrival. "count": an arrival says how often its PE has left,
#: and both looks must see the same words. "fence": the one between the looks.
GUARDS = frozenset({"mark", "count", "fence", "give up"})
#: Words; an arrival is ARRIVED + the times that its PE has left.
ABSENT, LEAVING, ARRIVED = 0, 1, 2
#: Where a PE is when the epoch is over for it.
OVER = ("passed", "gone", "killed", "gave up")


class Violation(Exception):
    """The barrier's promise that does not hold, in words, with the steps that lead there."""


class Pe(NamedTuple):
    at: str = "outside"  # first look, second look, waits, leaving, decided, outside, or one of OVER
    k: int = 0  # whose word is read next
    withdrawals: int = 0  # that may still begin
    left: int = 0
    seen: tuple[int, ...] = ()  # at the first look
    buffered: bool = False  # the arrival is not visible to others yet


class State(NamedTuple):
    words: tuple[int, ...]
    pes: tuple[Pe, ...]
    kills: int = 0  # that may still happen


Step = tuple[str, State]


class Barrier:
    """``withdrawals[pe]``: how often that PE may begin to leave; ``kills``: how many PEs may die."""

    def __init__(
        self, withdrawals: tuple[int, ...], *, kills: int = 0, guards: frozenset[str] = GUARDS
    ) -> None:
        self.n, self.guards = len(withdrawals), guards
        pes = tuple(Pe(withdrawals=n) for n in withdrawals)
        self.first = State((ABSENT,) * self.n, pes, kills)

    def explore(self) -> int:
        """How many states there are."""
        before: dict[State, Step | None] = {self.first: None}
        ways_here: dict[State, list[State]] = {self.first: []}
        new = deque([self.first])
        while new:
            state = new.popleft()
            try:
                for name, after in self.steps(state):
                    if after not in before:
                        before[after] = (name, state)
                        new.append(after)
                    ways_here.setdefault(after, []).append(state)
            except Violation as wrong:
                raise Violation(f"{wrong}\n{self.way(before, state)}") from None
        self.check_nobody_is_kept(ways_here)
        return len(before)

    @staticmethod
    def way(before: dict[State, Step | None], state: State) -> str:
        names = []
        while (step := before[state]) is not None:
            name, state = step
            names.append(name)
        return "\n".join(reversed(names))

    # -- steps -------------------------------------------------------------------------------------

    def steps(self, state: State) -> Iterator[Step]:
        for i, pe in enumerate(state.pes):
            if pe.buffered:
                yield f"PE {i}'s arrival becomes visible", self.flushed(state, i)
            for name, after in self.steps_of(state, i, pe):
                yield f"PE {i} {name}", after

    @staticmethod
    def changed(state: State, i: int, pe: Pe, word: int | None = None) -> State:
        words, pes = list(state.words), list(state.pes)
        pes[i] = pe
        if word is not None:
            words[i] = word
        return State(tuple(words), tuple(pes), state.kills)

    def flushed(self, state: State, i: int) -> State:
        pe = state.pes[i]
        word = self.arrival(pe) if pe.buffered else None
        return self.changed(state, i, pe._replace(buffered=False), word)

    def arrival(self, pe: Pe) -> int:
        return ARRIVED + (pe.left if "count" in self.guards else 0)

    def steps_of(self, state: State, i: int, pe: Pe) -> Iterator[Step]:
        if pe.at == "outside":
            yield (
                "arrives",
                self.changed(state, i, pe._replace(at="first look", k=0, seen=(), buffered=True)),
            )
            if pe.left:
                yield "goes elsewhere", self.changed(state, i, pe._replace(at="gone"))
        elif pe.at.endswith("look"):
            yield self.look(state, i, pe)
        elif pe.at == "waits":
            yield (
                "looks again",
                self.changed(state, i, pe._replace(at="first look", k=0, seen=())),
            )
            if pe.withdrawals:
                yield self.begin_to_leave(state, i, pe)
            if "give up" in self.guards and any(other.at == "killed" for other in state.pes):
                gave_up = pe._replace(at="gave up", buffered=False)
                yield "gives up", self.changed(state, i, gave_up, ABSENT)
        elif pe.at == "leaving":
            yield self.decide(state, i, pe)
        elif pe.at == "decided":
            yield self.leave(state, i, pe)
        if pe.at in ("leaving", "decided") and state.kills:
            killed = self.changed(state, i, pe._replace(at="killed"))
            yield "is killed", killed._replace(kills=state.kills - 1)

    def look(self, state: State, i: int, pe: Pe) -> Step:
        if pe.k == self.n:
            if pe.at == "second look":
                self.check_may_pass(state, i)
                passed = pe._replace(at="passed", k=0, seen=(), withdrawals=0)
                return "passes", self.changed(state, i, passed)
            if "fence" in self.guards:
                state = self.flushed(state, i)
            return "looks once more", self.changed(
                state, i, state.pes[i]._replace(at="second look", k=0)
            )
        word = self.arrival(pe) if pe.k == i and pe.buffered else state.words[pe.k]
        is_there = word >= ARRIVED
        if pe.at == "second look" and "count" in self.guards:
            is_there = word == pe.seen[pe.k]
        if not is_there:
            waits = pe._replace(at="waits", k=0, seen=())
            return f"misses PE {pe.k}", self.changed(state, i, waits)
        seen = (*pe.seen, word) if pe.at == "first look" and "count" in self.guards else pe.seen
        return f"sees PE {pe.k}", self.changed(state, i, pe._replace(k=pe.k + 1, seen=seen))

    def begin_to_leave(self, state: State, i: int, pe: Pe) -> Step:
        leaving = pe._replace(
            at="leaving", k=0, withdrawals=pe.withdrawals - 1, buffered=False
        )  # the exchange is a fence
        return "would leave", self.changed(
            state, i, leaving, LEAVING if "mark" in self.guards else ABSENT
        )

    def decide(self, state: State, i: int, pe: Pe) -> Step:
        if pe.k == i:
            pe = pe._replace(k=pe.k + 1)
        if pe.k == self.n:
            stays = self.changed(state, i, pe._replace(at="waits", k=0), self.arrival(pe))
            return "stays, as all others are there", stays
        if state.words[pe.k] != ABSENT:
            return f"sees PE {pe.k} there", self.changed(state, i, pe._replace(k=pe.k + 1))
        decided = pe._replace(at="decided", k=0)
        return f"sees PE {pe.k} absent", self.changed(state, i, decided)

    def leave(self, state: State, i: int, pe: Pe) -> Step:
        for k, other in enumerate(state.pes):
            if other.at == "passed":
                raise Violation(f"PE {i} leaves a barrier that PE {k} has passed")
        out = pe._replace(at="outside", left=pe.left + 1)
        return "has left", self.changed(state, i, out, ABSENT)

    # -- promises ----------------------------------------------------------------------------------

    @staticmethod
    def check_may_pass(state: State, i: int) -> None:
        for k, other in enumerate(state.pes):
            if other.at in ("outside", "gone"):
                raise Violation(f"PE {i} passes a barrier that PE {k} has left")

    @staticmethod
    def check_nobody_is_kept(ways_here: dict[State, list[State]]) -> None:
        """From every state all can get out, unless a PE has gone elsewhere, which others wait for."""
        good = [state for state in ways_here if all(pe.at in OVER for pe in state.pes)]
        reach_it = set(good)
        while good:
            for state in ways_here[good.pop()]:
                if state not in reach_it:
                    reach_it.add(state)
                    good.append(state)
        for state in ways_here:
            if state not in reach_it and not any(pe.at == "gone" for pe in state.pes):
                raise Violation(f"PEs are kept in the barrier: {state}")
