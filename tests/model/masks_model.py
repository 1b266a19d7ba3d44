# SPDX-License-Identifier: BSD-3-Clause
"""Who takes part in steps of experts: ``pyshmem/fused/moe/masked/agreement_kernels.py``, in every order.

Members make the same calls, each a dispatch and a combine. Any of them may be slow anywhere, and any
wait may be over at any time. What a member stores for others is on its way until it is delivered, in any
order; a commit is made, and a signal leaves, once all that was stored before has arrived. Data are the
number of the operation that they are of: who is in has to find that of each other that is in, as long as
it has not read it. ``explore`` visits all states and says what is wrong in the first bad one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from state_search import explore

#: What may be left out of the protocol, to see that it is missed.
GUARDS = frozenset(
    {
        "a commit is behind the data",
        "two halves",
        "two commits",
        "compare and swap",
        "joins go with commits",
        "members join between steps",
        "late ones look again",
        "who is left out next was in",
        "joins stay when one is left out",
        "nothing goes to who is out",
    }
)
IN, OUT, ASKS = "in", "left out", "asks"


class Violation(Exception):
    """The protocol's promise that does not hold, in words."""


class Word(NamedTuple):
    """``MEMBER``, or a commit."""

    number: int = 0
    says: str = IN
    joins: frozenset[int] = frozenset()


class Member(NamedTuple):
    at: str = "begins"
    calls: int = 0
    combines: bool = False
    number: int = 0  # of its operation
    absent: frozenset[int] = frozenset()
    joins: frozenset[int] = frozenset()
    waits: frozenset[int] = frozenset()
    about: int = 0  # whom it asks for, or leaves out
    seen: Word = Word()
    is_out: bool = False


class Store(NamedTuple):
    """On its way from ``source``: data if there is no word."""

    source: int
    dest: int
    number: int
    word: Word | None = None


class State(NamedTuple):
    members: tuple[Member, ...]
    words: tuple[Word, ...]
    views: tuple[tuple[int, frozenset[int]], ...]
    data: tuple[int, ...]  # [dest][half][source]
    commits: tuple[Word, ...]  # [dest][parity][source]
    stores: frozenset[Store] = frozenset()
    masks: tuple[tuple[int, bool, frozenset[int]], ...] = ()  # number, combine, absent


class Masks:
    """``n`` members, of which each has ``calls[i]`` steps.

    late: members for which a wait may be over before they have committed; for who has made all its calls
        it may be in any case.
    out: members that are out from the start: of the second operation.
    """

    def __init__(
        self, calls: tuple[int, ...], *, late: frozenset[int] | None = None,
        out: frozenset[int] = frozenset(), guards: frozenset[str] = GUARDS,
    ) -> None:  # fmt: skip
        n = self.n = len(calls)
        self.late = frozenset(range(n)) if late is None else late
        self.guards = guards
        number = 2 if out else 0
        self.first = State(
            tuple(Member(calls=calls[m], is_out=m in out) for m in range(n)),
            tuple(Word(number, OUT if m in out else IN) for m in range(n)),
            tuple((0 if m in out else number, out - {m}) for m in range(n)),
            (0,) * (2 * n * n), (Word(),) * (2 * n * n),
        )  # fmt: skip

    # ---- words ----

    def place(self, dest: int, number: int, source: int, guard: str) -> int:
        half = number % 2 if guard in self.guards else 0
        return (2 * dest + half) * self.n + source

    def put(self, state: State, m: int, **changed: object) -> State:
        return state._replace(members=_with(state.members, m, state.members[m]._replace(**changed)))

    def set_word(self, state: State, m: int, word: Word) -> State:
        return state._replace(words=_with(state.words, m, word))

    def deliver(self, state: State, store: Store) -> State | None:
        earlier = any(
            one.source == store.source and (one.number, one.word is not None) < (store.number, True)
            for one in state.stores
        )
        left = state._replace(stores=state.stores - {store})
        if store.word is None:
            at = self.place(store.dest, store.number, store.source, "two halves")
            return left._replace(data=_with(left.data, at, store.number))
        if earlier and "a commit is behind the data" in self.guards:
            return None
        at = self.place(store.dest, store.number, store.source, "two commits")
        return left._replace(commits=_with(left.commits, at, store.word))

    # ---- a member ----

    def others(self, m: int, absent: frozenset[int]) -> frozenset[int]:
        return frozenset(range(self.n)) - absent - {m}

    def begin(self, state: State, m: int) -> Iterator[State]:
        me, (number, absent) = state.members[m], state.views[m]
        if not me.calls:
            yield self.put(state, m, at="over")
        elif me.is_out or state.words[m].number > number:
            yield self.put(state, m, at="asks", is_out=True)
        else:
            yield self.put(
                state, m, at="sends", number=number + 1, absent=absent, combines=False
            )  # fmt: skip

    def ask(self, state: State, m: int) -> Iterator[State]:
        word = state.words[m]
        if word.says == OUT:
            yield self.set_word(state, m, word._replace(says=ASKS))
        for other in self.others(m, frozenset()):
            number, absent = state.views[other]
            if number >= word.number and m not in absent and word.says == ASKS:
                views = _with(state.views, m, (number, absent))
                yield self.put(state._replace(views=views), m, at="begins", is_out=False)
        given_up = word._replace(says=OUT)
        yield self.alone(self.set_word(state, m, given_up), m)

    def alone(self, state: State, m: int) -> State:
        calls = state.members[m].calls - 1
        return self.put(state, m, at="begins", is_out=True, calls=calls)

    def send(self, state: State, m: int) -> Iterator[State]:
        me = state.members[m]
        to = self.others(m, me.absent)
        if "nothing goes to who is out" not in self.guards:
            to = self.others(m, frozenset())
        stores = state.stores | {Store(m, other, me.number) for other in to}
        yield self.put(state._replace(stores=stores), m, at="looks", joins=frozenset())

    def look(self, state: State, m: int) -> Iterator[State]:
        """Who asks: each absent member is looked at by itself."""
        me = state.members[m]
        joined = me.combines or "members join between steps" not in self.guards
        asking = {p for p in me.absent if joined and state.words[p].says == ASKS}
        yield self.put(state, m, at="commits", joins=frozenset(asking))

    def commit(self, state: State, m: int) -> Iterator[State]:
        me = state.members[m]
        on_their_way = any(one.source == m for one in state.stores)
        if on_their_way and "a commit is behind the data" in self.guards:
            return
        if state.words[m].number >= me.number:
            yield self.alone(state, m)
            return
        said = Word(me.number, IN, me.joins)
        to = self.others(m, me.absent)
        stores = state.stores | {Store(m, other, me.number, said) for other in to}
        after = self.set_word(state._replace(stores=stores), m, said)
        yield self.put(after, m, at="collects", waits=to)

    def come(self, state: State, m: int, other: int, word: Word) -> State:
        """What is decided of another member."""
        me = state.members[m]
        waits = me.waits - {other}
        if word.number == me.number and word.says == IN:
            joins = me.joins | word.joins if "joins go with commits" in self.guards else me.joins
            return self.put(state, m, at="collects", waits=waits, joins=joins)
        return self.put(state, m, at="collects", waits=waits, absent=me.absent | {other})

    def collect(self, state: State, m: int) -> Iterator[State]:
        me = state.members[m]
        if not me.waits:
            yield self.agreed(state, m)
            return
        other = min(me.waits)
        word = state.commits[self.place(m, me.number, other, "two commits")]
        if word.number == me.number:
            yield self.come(state, m, other, word)
        elif other in self.late or state.members[other].at == "over":
            yield self.put(state, m, at="leaves out", about=other, seen=state.words[other])

    def leave_out(self, state: State, m: int) -> Iterator[State]:
        me = state.members[m]
        other, there = me.about, state.words[me.about]
        seen = there if "compare and swap" in self.guards else me.seen
        if seen.number < me.number:
            kept = seen.joins if "joins stay when one is left out" in self.guards else frozenset()
            out = Word(me.number, OUT, kept)
            yield self.come(self.set_word(state, other, out), m, other, out)
        elif seen.number == me.number or "late ones look again" not in self.guards:
            yield self.come(state, m, other, seen)
        elif (
            seen.number == me.number + 1
            and seen.says != IN
            and "who is left out next was in" in self.guards
        ):
            yield self.come(state, m, other, Word(me.number, IN, seen.joins))
        else:
            yield self.put(state, m, at="looks again")

    def look_again(self, state: State, m: int) -> Iterator[State]:
        me = state.members[m]
        word = state.commits[self.place(m, me.number, me.about, "two commits")]
        yield self.come(state, m, me.about, word)

    def agreed(self, state: State, m: int) -> State:
        me = state.members[m]
        mask = me.number, me.combines, me.absent
        for known in state.masks:
            if known[0] == me.number and known != mask:
                raise Violation(f"masks differ: {known}, {mask} of member {m}")
        view = me.number, me.absent - me.joins
        masks = state.masks if mask in state.masks else (*state.masks, mask)
        return self.put(
            state._replace(views=_with(state.views, m, view), masks=masks), m, at="takes",
            waits=self.others(m, me.absent),
        )  # fmt: skip

    def take(self, state: State, m: int) -> Iterator[State]:
        me = state.members[m]
        for other in me.waits:
            found = state.data[self.place(m, me.number, other, "two halves")]
            if found != me.number:
                raise Violation(f"data of member {other}: {found}, not {me.number}")
        if me.combines:
            yield self.put(state, m, at="begins", calls=me.calls - 1)
        else:
            yield self.put(state, m, at="sends", number=me.number + 1, combines=True)

    # ---- all ----

    def steps(self, state: State) -> Iterator[State]:
        for store in state.stores:
            after = self.deliver(state, store)
            if after is not None:
                yield after
        does = {
            "begins": self.begin, "asks": self.ask, "sends": self.send, "looks": self.look,
            "commits": self.commit, "collects": self.collect, "leaves out": self.leave_out,
            "looks again": self.look_again, "takes": self.take,
        }  # fmt: skip
        for m, member in enumerate(state.members):
            if member.at != "over":
                yield from does[member.at](state, m)

    def explore(self) -> int:
        """Number of states; raises ``Violation`` at the first that is wrong."""
        return explore(self.first, self.steps, self.check_end)

    def check_end(self, state: State) -> None:
        if any(member.at != "over" for member in state.members):
            raise Violation(f"a member goes on no more: {state}")


def _with(values: tuple, at: int, value: object) -> tuple:
    return (*values[:at], value, *values[at + 1 :])
