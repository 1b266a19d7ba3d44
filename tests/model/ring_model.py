# SPDX-License-Identifier: BSD-3-Clause
"""Every order in which senders and the proxy can take the steps of ``host_proxy/ring.h``.

A ring of two slots with two words each; senders run short programs of ``ask``, ``tell`` and
``quiet``, and of ``ask?`` and ``tell?``, which may give up wherever they wait. Stores to slots reach
the host one by one, in any order but that of one place. Requests complete in any order, credit is
published at any time, and there are only as many phases as the protocol needs: two. ``explore``
visits all states and says what is wrong in the first bad one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import NamedTuple

SLOTS = 2
WORDS = 2
EMPTY = ((-1, 0),) * WORDS
#: What may be left out of the protocol, to see that it is missed.
GUARDS = frozenset(
    {
        *("credit", "busy", "phase", "quiet waits for slots", "quiet waits for copies"),
        *("asked again", "skip", "later laps", "grace", "wipe", "left"),
    }
)

Program = tuple[str, ...]


class Violation(Exception):
    """The protocol's promise that does not hold, in words."""


class Sender(NamedTuple):
    at: str = "next"
    step: int = 0  # of its program
    ticket: int = -1
    need: int = 0  # of its quiet
    told: tuple[int, ...] = ()


class State(NamedTuple):
    senders: tuple[Sender, ...]
    ticket: int = 0
    shadow: int = 0  # device.consumed
    busy: tuple[int, ...] = (0,) * SLOTS  # 1: in use; negative: the tag of a reply given up
    pending: int = 0
    acked_shadow: int = 0
    stores: frozenset[tuple[int, int, int]] = (
        frozenset()
    )  # ticket, word, reply wanted: on their way
    slots: tuple[tuple[tuple[int, int], ...], ...] = (EMPTY,) * SLOTS
    consumed: int = 0
    asked: int = 0
    acked: int = 0
    cells: tuple[int, ...] = (0,) * SLOTS  # tags
    skipped: tuple[int, ...] = (0,) * SLOTS  # 1 + the last ticket that was given up
    head: int = 0
    flights: frozenset[tuple[int, int]] = frozenset()  # ticket, reply wanted: taken, not complete
    target: int = 0
    marked: frozenset[int] = frozenset()


def put(values: tuple, index: int, value: object) -> tuple:
    return (*values[:index], value, *values[index + 1 :])


def incomplete(state: State, ticket: int) -> bool:
    return ticket >= state.head or any(ticket == flight for flight, _ in state.flights)


class Ring:
    """Steps of a ring whose senders run ``programs``, with only some of the ``GUARDS``."""

    def __init__(self, programs: tuple[Program, ...], guards: frozenset[str] = GUARDS) -> None:
        self.programs = programs
        self.guards = guards
        self.phases = 2 if "phase" in guards else 1

    def phase(self, ticket: int) -> int:
        return 0 if ticket < 0 else ticket // SLOTS % self.phases + 1

    def begin(self, s: State, me: Sender, verb: str) -> Iterator[tuple[State, Sender]]:
        if verb != "quiet":
            yield s._replace(ticket=s.ticket + 1), me._replace(at="credit", ticket=s.ticket)
        elif s.pending <= s.acked_shadow:
            yield s, self.settled(s, me)
        else:
            yield s, me._replace(at="store asked", need=s.pending)

    def settled(self, s: State, me: Sender) -> Sender:
        for ticket in me.told:
            if incomplete(s, ticket):
                raise Violation(f"quiet returned before request {ticket} was complete")
        return Sender(step=me.step + 1)

    def give_up(self, s: State, me: Sender) -> Iterator[tuple[State, Sender]]:
        """The end of a wait that takes too long."""
        place, done = me.ticket % SLOTS, Sender(step=me.step + 1, told=me.told)
        if me.at in ("credit", "busy"):
            last = max(s.skipped[place], me.ticket + 1) if "skip" in self.guards else 0
            yield s._replace(skipped=put(s.skipped, place, last)), done
        elif me.at == "read":
            tag = -(me.ticket + 1) if "left" in self.guards else 0
            yield s._replace(busy=put(s.busy, place, tag)), done

    def sender(self, s: State, me: Sender, verb: str) -> Iterator[tuple[State, Sender]]:
        """What this sender can do next; nothing while it waits."""
        cell = me.ticket % SLOTS
        wants = int(verb.startswith("ask"))
        if verb.endswith("?"):
            yield from self.give_up(s, me)
        if me.at == "next":
            yield from self.begin(s, me, verb)
        elif me.at == "credit":
            go = me._replace(at="busy" if wants else "store")
            if me.ticket < s.shadow + SLOTS or "credit" not in self.guards:
                yield s, go
            elif s.consumed > s.shadow:
                yield s._replace(shadow=s.consumed), me
        elif me.at == "busy":
            left = s.busy[cell] < 0 and s.cells[cell] == -s.busy[cell]
            if left or not s.busy[cell] or "busy" not in self.guards:
                yield s._replace(busy=put(s.busy, cell, 1)), me._replace(at="store")
        elif me.at == "store":
            new = frozenset((me.ticket, word, wants) for word in range(WORDS))
            yield s._replace(stores=s.stores | new), me._replace(at="read" if wants else "pend")
        elif me.at == "read":
            if s.cells[cell] == me.ticket + 1:
                yield s, me._replace(at="free")
        elif me.at == "free":
            done = Sender(step=me.step + 1, told=me.told)
            yield s._replace(busy=put(s.busy, cell, 0)), done
        elif me.at == "pend":
            done = Sender(step=me.step + 1, told=(*me.told, me.ticket))
            yield s._replace(pending=max(s.pending, me.ticket + 1)), done
        elif me.at == "store asked":
            yield s._replace(asked=me.need), me._replace(at="await")
        elif s.acked >= me.need:  # at "await"
            yield s._replace(acked_shadow=max(s.acked_shadow, s.acked)), self.settled(s, me)
        elif s.asked < me.need and "asked again" in self.guards:
            yield s._replace(asked=me.need), me

    def bus(self, s: State) -> Iterator[State]:
        """One store reaches its slot: the oldest of those to its place."""
        for ticket, word, wants in s.stores:
            place = ticket % SLOTS
            older = (t for t, w, _ in s.stores if w == word and t % SLOTS == place and t < ticket)
            if next(older, None) is None:
                slot = put(s.slots[place], word, (ticket, wants))
                yield s._replace(
                    slots=put(s.slots, place, slot), stores=s.stores - {(ticket, word, wants)}
                )

    def given_up(self, s: State) -> bool:
        """Whether the proxy goes on behind its next ticket, whose request has not come."""
        last = s.skipped[s.head % SLOTS]
        if last <= s.head + 1 or "later laps" not in self.guards:
            return last == s.head + 1
        # A sender that has credit gives up, or stores its request, while the proxy gives it a while.
        before = any(me.ticket == s.head and me.at != "read" for me in s.senders)
        coming = before or any(ticket == s.head for ticket, _, _ in s.stores)
        return not coming or "grace" not in self.guards

    def proxy(self, s: State) -> Iterator[State]:
        words = s.slots[s.head % SLOTS]
        if all(self.phase(ticket) == self.phase(s.head) for ticket, _ in words):
            if any(ticket != s.head for ticket, _ in words):
                raise Violation(f"request {s.head} was read as words of {[t for t, _ in words]}")
            yield s._replace(head=s.head + 1, flights=s.flights | {words[0]})
        elif self.given_up(s):
            blank = EMPTY if "wipe" in self.guards else words
            yield s._replace(head=s.head + 1, slots=put(s.slots, s.head % SLOTS, blank))
        if s.consumed < s.head:
            yield s._replace(consumed=s.head)
        for ticket, wants in s.flights:
            cells = put(s.cells, ticket % SLOTS, ticket + 1) if wants else s.cells
            yield s._replace(
                flights=s.flights - {(ticket, wants)}, cells=cells, marked=s.marked - {ticket}
            )
        if not s.target and s.asked > s.acked:
            if s.asked <= s.head or "quiet waits for slots" not in self.guards:
                marked = frozenset(ticket for ticket, _ in s.flights)
                yield s._replace(target=s.asked, marked=marked)
        elif s.target and (not s.marked or "quiet waits for copies" not in self.guards):
            yield s._replace(acked=s.target, target=0, marked=frozenset())

    def steps(self, s: State) -> Iterator[State]:
        for i, me in enumerate(s.senders):
            if me.step < len(self.programs[i]):
                for after, moved in self.sender(s, me, self.programs[i][me.step]):
                    yield after._replace(senders=put(after.senders, i, moved))
        yield from self.bus(s)
        yield from self.proxy(s)

    def explore(self) -> int:
        """Number of states; raises ``Violation`` at the first that is wrong."""
        first = State(senders=(Sender(),) * len(self.programs))
        seen, queue = {first}, deque([first])
        while queue:
            state = queue.popleft()
            stuck = True
            for after in self.steps(state):
                stuck = False
                if after not in seen:
                    seen.add(after)
                    queue.append(after)
            if stuck:
                self.check_end(state)
        return len(seen)

    def check_end(self, s: State) -> None:
        for i, me in enumerate(s.senders):
            if me.step < len(self.programs[i]):
                raise Violation(f"sender {i} waits forever at {me.at!r} with ticket {me.ticket}")
        if s.head != s.ticket:
            raise Violation(f"{s.ticket - s.head} requests were never served")
