# SPDX-License-Identifier: BSD-3-Clause
"""Who serves messages of other hosts: ``native/src/transport/ucx/worker.c``, in every order of steps.

Waits of a PE make progress while they are awake. A thread in the background does while none is:
else it stays away, asleep on a futex. Before it sleeps on the worker's descriptor it makes progress
until there is nothing left, and arms the descriptor. A wait that begins while it sleeps there takes
the descriptor away. Of all timeouts one is here: the thread comes back by itself where nobody
waits. So a state in which nothing can move although a message has come, or a wait is not over, is
one in which only a timeout would help. ``explore`` visits all states and says what is wrong in the
first bad one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from state_search import explore

#: What may be left out of the protocol, to see that it is missed.
GUARDS = frozenset(
    {
        "the thread looks once it is away",
        "who goes to sleep wakes the thread",
        "the last to go on wakes the thread",
        "asleep is counted first",
        "the futex compares",
        "arming finds what has come",
        "who goes to sleep puts the descriptor back",
    }
)


class Violation(Exception):
    """The protocol's promise that does not hold, in words."""


class Wait(NamedTuple):
    at: str = "computes"
    then: str = ""  # where it goes once the thread has been woken, or need not be
    needs: int = 0  # so many messages


class State(NamedTuple):
    waits: tuple[Wait, ...]
    thread: str = "looks"
    awake: int = 0
    asleep: int = 0
    away: bool = False
    woken: bool = False
    to_come: int = 0
    pending: int = 0  # have come, and were not served
    served: int = 0
    armed: bool = False
    ready: bool = False  # the descriptor
    watched: bool = False  # by the thread's sleep
    on: bool = False  # the thread sleeps there, as far as waits know


class Serving:
    """``needs[i]``: how many messages wait i waits for; as many come as the last needs."""

    def __init__(self, needs: tuple[int, ...], *, guards: frozenset[str] = GUARDS) -> None:
        self.guards = guards
        waits = tuple(Wait(needs=n) for n in needs)
        self.first = State(waits, to_come=max(needs))

    # ---- a wait ----

    def wait_steps(self, state: State, i: int) -> Iterator[State]:
        wait = state.waits[i]

        def to(at: str, then: str = "", **changed: object) -> State:
            waits = (*state.waits[:i], wait._replace(at=at, then=then), *state.waits[i + 1 :])
            return state._replace(waits=waits, **changed)

        if wait.at == "computes":
            yield to("begins", awake=state.awake + 1)
        elif wait.at == "begins":
            yield to("takes it away" if state.on else "awake", on=False)
        elif wait.at == "takes it away":
            yield to("awake", watched=False)
        elif wait.at == "awake":
            if state.pending:
                yield to("awake", pending=state.pending - 1, served=state.served + 1)
            if state.served >= wait.needs:
                yield to("leaves", "over")
            elif "asleep is counted first" in self.guards:
                yield to("leaves", "asleep", asleep=state.asleep + 1)
            else:
                yield to("leaves late", "asleep", awake=state.awake - 1)
        elif wait.at == "leaves":
            last = state.awake == 1
            yield to("may wake" if last else wait.then, wait.then, awake=state.awake - 1)
        elif wait.at == "leaves late":
            at = "may wake" if state.awake == 0 and state.asleep > 0 else wait.then
            yield to(at, wait.then, asleep=state.asleep + 1)
        elif wait.at == "may wake":
            guard = "who goes to sleep" if wait.then == "asleep" else "the last to go on"
            wakes = state.asleep > 0 and f"{guard} wakes the thread" in self.guards
            yield to("wakes" if wakes else wait.then, wait.then)
        elif wait.at == "wakes":
            woken = state.woken or (state.away and state.thread == "sleeps")
            back = "who goes to sleep puts the descriptor back" in self.guards
            yield to("puts it back" if back else wait.then, wait.then, away=False, woken=woken)
        elif wait.at == "puts it back":
            yield to(wait.then, watched=True)
        elif wait.at == "asleep" and state.served >= wait.needs:
            yield to("gets up", asleep=state.asleep - 1)
        elif wait.at == "gets up":
            yield to("begins", awake=state.awake + 1)

    # ---- the thread ----

    def thread_steps(self, state: State) -> Iterator[State]:
        at = state.thread
        if at == "looks":
            yield state._replace(thread="goes away")  # a wait is awake, or was a moment ago
            if state.awake == 0:
                yield state._replace(thread="serves")
        elif at == "serves":
            served = state.served + state.pending
            yield state._replace(thread="arms", pending=0, served=served)
        elif at == "arms":
            if state.pending and "arming finds what has come" in self.guards:
                yield state._replace(thread="looks")
            else:
                yield state._replace(thread="watches", armed=True)
        elif at == "watches":
            yield state._replace(thread="gets on", watched=True)
        elif at == "gets on":
            yield state._replace(thread="is on", on=True)
        elif at == "is on":
            yield state._replace(thread="gets off" if state.awake else "polls")
        elif at == "polls" and ((state.ready and state.watched) or self.nobody_waits(state)):
            yield state._replace(thread="gets off")
        elif at == "gets off":
            yield state._replace(thread="looks", on=False, armed=False, ready=False)
        elif at == "goes away":
            checks = "the thread looks once it is away" in self.guards
            yield state._replace(
                thread="away" if checks else "will sleep", away=True, watched=False
            )
        elif at == "away":
            yield state._replace(thread="will sleep" if state.awake else "looks for sleepers")
        elif at == "looks for sleepers":
            yield state._replace(thread="comes back" if state.asleep else "will sleep")
        elif at == "will sleep":
            sleeps = state.away or "the futex compares" not in self.guards
            yield state._replace(thread="sleeps" if sleeps else "comes back", woken=False)
        elif at == "sleeps" and (state.woken or self.nobody_waits(state)):
            yield state._replace(thread="comes back", woken=False)
        elif at == "comes back":
            yield state._replace(thread="looks", away=False)

    @staticmethod
    def nobody_waits(state: State) -> bool:
        return all(wait.at in ("computes", "over") for wait in state.waits)

    # ---- all ----

    def steps(self, state: State) -> Iterator[State]:
        if state.to_come:
            come = {"to_come": state.to_come - 1, "pending": state.pending + 1}
            yield state._replace(**come, ready=state.ready or state.armed)
        yield from self.thread_steps(state)
        for i in range(len(state.waits)):
            yield from self.wait_steps(state, i)

    def explore(self) -> int:
        """Number of states; raises ``Violation`` at the first that is wrong."""
        return explore(self.first, self.steps, self.check_end)

    def check_end(self, state: State) -> None:
        if state.pending or not self.nobody_waits(state):
            raise Violation(f"nobody serves: {state}")
