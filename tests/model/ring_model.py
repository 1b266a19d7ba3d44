# SPDX-License-Identifier: BSD-3-Clause
"""Every order in which senders and the proxy can take the steps of ``host_proxy/ring.h``.

A ring of two slots with two words each; senders run short programs of ``ask``, ``tell`` and
``quiet``, and of ``ask?`` and ``tell?``, which may give up wherever they wait. Stores of senders arrive
one by one, at any time and in any order: those to the host's memory overtake those to the GPU's and the
other way round. Only those of one sender to one word keep theirs, and a sender that loads the word sees
them. An atomic whose value is waited for is done at once. The proxy's stores are the host's, in order,
and so at once too. Requests complete in any order, credit is published at any time, and there are only
as many phases as the protocol needs: two. ``explore`` visits all states and says what is wrong in the
first bad one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from state_search import explore

SLOTS = 2
WORDS = 2
EMPTY = ((-1, 0),) * WORDS
#: What may be left out of the protocol, to see that it is missed.
GUARDS = frozenset(
    {
        *("credit", "busy", "phase", "quiet waits for slots", "quiet waits for copies"),
        *("asked again", "skip", "later laps", "grace", "wipe", "left"),
        *("claim", "read before free"),  # else a store that may be late; a load that may be
    }
)
#: Words that only rise, by an atomic that has no value to wait for; the others are stored.
RAISED = frozenset({"pending", "acked_shadow", "skipped"})

Program = tuple[str, ...]


class Violation(Exception):
    """The protocol's promise that does not hold, in words."""


class Sender(NamedTuple):
    at: str = "next"
    step: int = 0  # of its program
    ticket: int = -1
    need: int = 0  # of its quiet
    told: tuple[int, ...] = ()
    number: int = 0


class State(NamedTuple):
    senders: tuple[Sender, ...]
    ticket: int = 0
    shadow: int = 0  # device.consumed
    busy: tuple[int, ...] = (0,) * SLOTS  # 1: in use; negative: the tag of a reply given up
    pending: int = 0
    acked_shadow: int = 0
    # On their way to slots: ticket, word, reply wanted.
    stores: frozenset[tuple[int, int, int]] = frozenset()
    # On their way to other words, of each sender: field of this class, place in it, value.
    late: tuple[tuple[tuple[str, int, int], ...], ...] = ()
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
        elif self.sees(s, me, "pending") and self.sees(s, me, "acked_shadow"):
            if s.pending <= s.acked_shadow:
                yield s, self.settled(s, me)
            else:
                yield s, me._replace(at="store asked", need=s.pending)

    def settled(self, s: State, me: Sender) -> Sender:
        for ticket in me.told:
            if incomplete(s, ticket):
                raise Violation(f"quiet returned before request {ticket} was complete")
        return me._replace(at="next", step=me.step + 1, ticket=-1, need=0, told=())

    def store(self, s: State, me: Sender, field: str, value: int, place: int = -1) -> State:
        """The sender's store of a word, or its raise to a value: it arrives some time."""
        stores = sorted((*s.late[me.number], (field, place, value)), key=lambda one: one[:2])
        return s._replace(late=put(s.late, me.number, tuple(stores)))

    def sees(self, s: State, me: Sender, field: str, place: int = -1) -> bool:
        """May the sender load a word, or change it by an atomic? Its own stores come first."""
        return all(one[:2] != (field, place) for one in s.late[me.number])

    def give_up(self, s: State, me: Sender) -> Iterator[tuple[State, Sender]]:
        """The end of a wait that takes too long."""
        place, done = me.ticket % SLOTS, me._replace(at="next", step=me.step + 1, ticket=-1)
        if me.at in ("credit", "busy"):
            skips = "skip" in self.guards
            yield self.store(s, me, "skipped", me.ticket + 1, place) if skips else s, done
        elif me.at == "read":
            tag = -(me.ticket + 1) if "left" in self.guards else 0
            yield self.store(s, me, "busy", tag, place), done

    def take_cell(self, s: State, me: Sender) -> Iterator[tuple[State, Sender]]:
        """The cell's word is claimed by an atomic, or without that guard by a load and a store."""
        cell, go = me.ticket % SLOTS, me._replace(at="store")
        if not self.sees(s, me, "busy", cell):
            return
        left = s.busy[cell] < 0 and s.cells[cell] == -s.busy[cell]
        if left or not s.busy[cell] or "busy" not in self.guards:
            if "claim" in self.guards:
                yield s._replace(busy=put(s.busy, cell, 1)), go
            else:
                yield self.store(s, me, "busy", 1, cell), go

    def read(self, s: State, me: Sender) -> Iterator[tuple[State, Sender]]:
        """The reply, and then the cell is free; without that guard its value may come behind that."""
        cell, done = me.ticket % SLOTS, me._replace(at="next", step=me.step + 1, ticket=-1)
        here = s.cells[cell] == me.ticket + 1
        if me.at == "read" and here and "read before free" in self.guards:
            yield s, me._replace(at="free")
        elif me.at == "free":
            yield self.store(s, me, "busy", 0, cell), done
        elif me.at == "read" and here:
            yield self.store(s, me, "busy", 0, cell), me._replace(at="load")
        elif me.at == "load" and here:
            yield s, done
        elif me.at == "load":
            raise Violation(f"the reply to request {me.ticket} was another's when it was loaded")

    def sender(self, s: State, me: Sender, verb: str) -> Iterator[tuple[State, Sender]]:
        """What this sender can do next; nothing while it waits."""
        wants = int(verb.startswith("ask"))
        if verb.endswith("?"):
            yield from self.give_up(s, me)
        if me.at == "next":
            yield from self.begin(s, me, verb)
        elif me.at == "credit":
            go = me._replace(at="busy" if wants else "store")
            if me.ticket < s.shadow + SLOTS or "credit" not in self.guards:
                yield s, go
            elif s.consumed > s.shadow:  # that the shadow is raised late changes nothing
                yield s._replace(shadow=s.consumed), me
        elif me.at == "busy":
            yield from self.take_cell(s, me)
        elif me.at == "store":
            new = frozenset((me.ticket, word, wants) for word in range(WORDS))
            yield s._replace(stores=s.stores | new), me._replace(at="read" if wants else "pend")
        elif me.at in ("read", "free", "load"):
            yield from self.read(s, me)
        elif me.at == "pend":
            told = (*me.told, me.ticket)
            done = me._replace(at="next", step=me.step + 1, ticket=-1, told=told)
            yield self.store(s, me, "pending", me.ticket + 1), done
        elif me.at == "store asked":
            yield self.store(s, me, "asked", me.need), me._replace(at="await")
        elif s.acked >= me.need:  # at "await"
            yield self.store(s, me, "acked_shadow", s.acked), self.settled(s, me)
        elif s.asked < me.need and "asked again" in self.guards and self.sees(s, me, "asked"):
            yield self.store(s, me, "asked", me.need), me

    def arrivals(self, s: State) -> Iterator[State]:
        """One word of a sender arrives, the oldest of those to its place."""
        for number, late in enumerate(s.late):
            for i, (field, place, value) in enumerate(late):
                if i and late[i - 1][:2] == (field, place):
                    continue
                old = getattr(s, field)
                if field in RAISED:
                    value = max(value, old if place < 0 else old[place])
                new = value if place < 0 else put(old, place, value)
                left = put(s.late, number, (*late[:i], *late[i + 1 :]))
                yield s._replace(late=left, **{field: new})

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
        yield from self.arrivals(s)
        yield from self.bus(s)
        yield from self.proxy(s)

    def explore(self) -> int:
        """Number of states; raises ``Violation`` at the first that is wrong."""
        numbers = range(len(self.programs))
        first = State(
            senders=tuple(Sender(number=number) for number in numbers), late=((),) * len(numbers)
        )
        return explore(first, self.steps, self.check_end)

    def check_end(self, s: State) -> None:
        for i, me in enumerate(s.senders):
            if me.step < len(self.programs[i]):
                raise Violation(f"sender {i} waits forever at {me.at!r} with ticket {me.ticket}")
        if s.head != s.ticket:
            raise Violation(f"{s.ticket - s.head} requests were never served")
