# SPDX-License-Identifier: BSD-3-Clause
"""Words that are waited for: what was written to each, in order, and whom a wait has heard.

A wait for a sum, or for a value that several have set, may have been ended by any of them: it has heard
what it had to hear however they came. What was set or added by an operation that others have read back,
and what satisfied the wait before, goes by the order of the run.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from itertools import combinations
from typing import Any, NamedTuple

from .clocks import ATOMIC, Clock, Event, Lanes

#: CMP_EQ and so on, by number.
COMPARISONS: tuple[Callable[[Any, Any], bool], ...] = (
    operator.eq, operator.ne, operator.gt, operator.ge, operator.lt, operator.le,
)  # fmt: skip
_EQ, _NE, _GT, _GE, _LT, _LE = range(6)
_MOST = 512  # changes of a word that are kept one by one
_MOST_WAITS = 256  # of a word, that are compared with what comes later
_MOST_SUMMED = 10  # different numbers of which all sums are tried


class Change(NamedTuple):
    """A word was written: how, with what value, and what its writer released with it."""

    op: str  # set, add, or other
    after: int | None  # the value then, as far as it is known
    released: Clock
    known: tuple[tuple[int, Any], ...]  # what is done for who sees it, as of Clock.single; it first
    at: int
    plain: Any = None  # the access, of one that is not atomic and no signal
    given: int | None = None  # what was set or added

    def fetches(self, lanes: Lanes) -> bool:
        """Has the operation read what it changed, so that it knows its place?"""
        return bool(lanes.of[self.known[0][0]].ctx == ATOMIC)


class Begun(NamedTuple):
    """An atomic operation whose result is not recorded yet; others may have seen what it does."""

    op: str
    value: int | None
    released: Clock
    event: Event | None  # its access; None: it may turn out to write nothing


class Wait(NamedTuple):
    """A wait or a test that has succeeded."""

    cmp: int
    value: int
    before: int | None  # the word's value at the call; None: it did not satisfy
    seen: int | None  # what the routine has returned


def wanted(wait: Wait | None, seen: int | None) -> tuple[int, int]:
    """What a wait has found to hold of its word, or who fetched what was ``seen``: a comparison."""
    if wait is not None and wait.seen is None:
        return wait.cmp, wait.value
    return _EQ, (seen if wait is None else wait.seen) or 0


class Ended(NamedTuple):
    """A wait that has ended, by what it has heard; a change that comes later might have ended it."""

    agent: int
    event: Event  # of the wait
    heard: list[Change]  # who knows all of them comes behind
    op: str  # set or add: of what it has waited for
    cmp: int
    want: int


class Word:
    """The changes of one word, the oldest first."""

    __slots__ = ("_first", "_old", "begun", "changes", "value", "waits")

    def __init__(self, value: int | None) -> None:
        self.value = self._first = value  # after the last change, and before the first
        self.changes: list[Change] = []
        #: By agent: atomic operations that have begun, and of which nothing says yet that they are done.
        self.begun: dict[int, list[Begun]] = {}
        self._old: Clock | None = None  # what those released that are no longer kept
        self.waits: list[Ended] = []

    def change(
        self,
        op: str,
        value: int | None,
        released: Clock,
        known: tuple[Any, ...],
        at: int,
        plain: Any = None,
    ) -> Change:
        """Note a change: ``op`` is set, add or other."""
        if op == "set":
            self.value = value
        elif op == "add" and self.value is not None and value is not None:
            self.value += value
        else:
            self.value = None
        self.changes.append(Change(op, self.value, released, known, at, plain, value))
        return self.changes[-1]

    def ended(self, agent: int) -> Begun | None:
        """The first operation of an agent that has begun: its result is known now."""
        several = self.begun.get(agent)
        first = several.pop(0) if several else None
        if several == []:
            del self.begun[agent]
        return first

    def forget_old(self, lanes: Lanes) -> None:
        """Of very many changes the first half is kept as one."""
        if len(self.changes) <= _MOST:
            return
        old = self._old or Clock()
        for change in self.changes[: _MOST // 2]:
            _hear(old, change, lanes)
        self._old = old
        del self.changes[: _MOST // 2]

    def heard_by(
        self,
        clock: Clock,
        wait: Wait | None,
        seen: int | None,
        lanes: Lanes,
        later: Iterable[Change] = (),
    ) -> tuple[list[Change], bool]:
        """Who waited, or fetched the value ``seen``, knows from here on what the writer released.

        ``later``: changes that came after the wait, and might have come before it. Returns what it has
        heard, and whether that goes by the values alone, so that what comes later matters.
        """
        if self._old is not None:
            clock.join(self._old, lanes)
        needed = self._needed(clock, wait, seen, lanes, later)
        if needed is not None:
            if needed.clock is not None:
                clock.join(needed.clock, lanes)
            for change in needed.all:
                _hear(clock, change, lanes)
            return needed.may_be, True
        for one in (one for several in self.begun.values() for one in several):
            if _may_be_seen(one.op, one.value, wait, seen):
                clock.join(one.released, lanes)
                if one.event is not None:
                    clock.know(*one.event, lanes)
        latest = range(len(self.changes) - 1, -1, -1)
        first = next((n for n in latest if _knows(clock, self.changes[n], lanes)), -1)
        last = self._last_heard(first, wait, seen)
        heard = self.changes[self._first_of_run(last) : last + 1]
        for change in heard:
            _hear(clock, change, lanes)
        return heard, False

    def remember(self, wait: Ended) -> None:
        """A wait that has ended by values alone."""
        self.waits.append(wait)
        del self.waits[:-_MOST_WAITS]

    def might_have_ended(
        self, change: Change, clock: Clock, agent: int, lanes: Lanes
    ) -> list[Event]:
        """The waits that are over, and that a change which an agent makes now might have ended."""
        if change.given is None:
            return []
        return [
            one.event
            for one in self.waits
            if one.agent != agent
            and one.op == change.op
            and (one.op == "add" or COMPARISONS[one.cmp](change.given, one.want))
            and not clock.has(one.event, 0, lanes, sent=False)
            and not all(_knows(change.released, heard, lanes, sent=True) for heard in one.heard)
        ]

    def _needed(
        self,
        clock: Clock,
        wait: Wait | None,
        seen: int | None,
        lanes: Lanes,
        later: Iterable[Change],
    ) -> _Needed | None:
        """What the wait has heard in whatever order the changes came; None: only the run can say."""
        if wait is None and seen is None:
            return None
        last = len(self.changes) - 1
        while last >= 0 and self.changes[last].op == "add":
            last -= 1
        begun = [one for several in self.begun.values() for one in several]
        if last < len(self.changes) - 1 or any(one.op == "add" for one in begun):
            if wait is None and begun:
                return None
            return self._needed_sum(clock, last, wait, seen, lanes, [*begun, *later])
        return None if wait is None or begun else self._needed_set(clock, wait, lanes, later)

    def _needed_set(
        self, clock: Clock, wait: Wait, lanes: Lanes, later: Iterable[Change]
    ) -> _Needed | None:
        """Of a value that was set: what is common to all who may have set one that ends the wait."""
        changes, known = self.changes, len(self.changes) - 1
        while known >= 0 and not _knows(clock, changes[known], lanes):
            known -= 1
        unknown = changes[known + 1 :]
        base = self._before(known + 1)
        if base is None or any(c.op != "set" or c.after is None for c in unknown):
            return None
        cmp, want = wanted(wait, None)
        ends = COMPARISONS[cmp]
        if ends(base, want) or any(change.fetches(lanes) for change in unknown):
            return None
        may_be = [change for change in unknown if ends(change.after, want)]
        if not may_be:
            return None
        return _in_any_order([(change, 1) for change in (*may_be, *later)], 1, lanes)

    def _before(self, n: int) -> int | None:
        """The value before a change."""
        if n:
            return self.changes[n - 1].after
        if self._old is None:
            return self._first
        first = self.changes[0]
        if first.op != "add" or first.after is None or first.given is None:
            return None
        return first.after - first.given

    def _needed_sum(
        self,
        clock: Clock,
        last: int,
        wait: Wait | None,
        seen: int | None,
        lanes: Lanes,
        more: list[Any],
    ) -> _Needed | None:
        """Of a sum, behind number ``last``: those without whom it could not have been reached."""
        base, tail = self._before(last + 1), self.changes[last + 1 :]
        if last >= 0 and not _knows(clock, self.changes[last], lanes):
            return None
        unknown: list[Change] = []
        for change in tail:
            if base is None or change.given is None:
                return None
            if _knows(clock, change, lanes):
                base += change.given
            elif wait is None and change.fetches(lanes):
                return None  # each knows its place
            else:
                unknown.append(change)
        begun = {one.event for one in more if isinstance(one, Begun)}
        for one in more:
            if isinstance(one, Change) and one.known[0] in begun:
                continue  # it had begun, and so is there already
            if isinstance(one, Begun):
                if one.op != "add" or one.value is None or one.event is None:
                    return None
                one = Change("add", None, one.released, (one.event,), 0, None, one.value)
            unknown.append(one)
        return None if base is None else _of_sum(unknown, base, wait, seen, lanes)

    def _last_heard(self, first: int, wait: Wait | None, seen: int | None) -> int:
        """The change that ended a wait which already knew of number ``first``."""
        changes, end = self.changes, len(self.changes) - 1
        if any(change.after is None for change in changes[max(first, 0) :]):
            return end
        if wait is not None and wait.before is None:  # a later one it was
            want = wait.seen
            for n in range(first + 1, len(changes)):
                after = changes[n].after
                if (
                    (after == want)
                    if want is not None
                    else COMPARISONS[wait.cmp](after, wait.value)
                ):
                    return n
            return end
        value = seen if wait is None else wait.before if wait.seen is None else wait.seen
        same = [n for n in range(max(first, 0), len(changes)) if changes[n].after == value]
        if not same:
            return end
        if wait is None or wait.seen is not None:
            return same[-1]
        # Of a counter, the wait promises no more than that its comparison holds.
        if all(change.op == "add" for change in changes[max(first, 0) + 1 : same[-1] + 1]):
            for n in range(max(first, 0), same[-1] + 1):
                if COMPARISONS[wait.cmp](changes[n].after, wait.value):
                    return n
        return same[-1]

    def _first_of_run(self, last: int) -> int:
        """Who sees a sum has heard all who added to it."""
        n = last
        while n > 0 and self.changes[n].op != "set":
            n -= 1
        return max(n, 0)


class _Needed(NamedTuple):
    """What a wait has heard: of some changes all, of all together what is in each way to end it."""

    all: list[Change]
    clock: Clock | None
    may_be: list[Change]


def _of_sum(
    changes: list[Change], base: int, wait: Wait | None, seen: int | None, lanes: Lanes
) -> _Needed | None:
    """What is needed of ``changes``, which are added to ``base``; None: only the run can say."""
    cmp, want = wanted(wait, seen)
    if not any(change.given for change in changes):
        return None
    sign = 1 if max(change.given or 0 for change in changes) > 0 else -1
    weights = [(change, sign * (change.given or 0)) for change in changes if change.given]
    if any(one < 0 for _, one in weights):
        return None  # up and down: many ways to one value
    if COMPARISONS[cmp](base, want):
        return _Needed([], None, [])  # by what is known to be there
    need = 1 if cmp == _NE else sign * (want - base) + (cmp in (_GT, _LT))
    if need <= 0:
        return None
    if cmp == _EQ:
        weights = [(change, one) for change, one in weights if one <= need]
    if sum(one for _, one in weights) < need:
        return None
    if cmp == _EQ and len({one for _, one in weights}) > 1:
        return _of_exact_sum(weights, need, lanes)
    return _in_any_order(weights, need, lanes)


def _of_exact_sum(weights: list[tuple[Change, int]], need: int, lanes: Lanes) -> _Needed | None:
    """Of different numbers that have to add up to one: what is common to all ways to do so."""
    changes = [change for change, _ in weights]
    if sum(one for _, one in weights) == need:
        return _Needed(changes, None, changes)
    if len(weights) > _MOST_SUMMED:
        return None
    ways = []
    for count in range(1, len(weights) + 1):
        for some in combinations(weights, count):
            if sum(one for _, one in some) == need:
                together, known = Clock(), tuple(one for change, _ in some for one in change.known)
                for change, _ in some:
                    together.join(change.released, lanes)
                ways.append((Change("add", None, together, known, 0), 1))
    return _in_any_order(ways, 1, lanes) if ways else None


def _in_any_order(weights: list[tuple[Change, int]], need: int, lanes: Lanes) -> _Needed:
    """What is known of ``need`` of the weight, whichever come first.

    Of each lane it is the highest number without which, and all above, there is not enough.
    """
    changes = [change for change, _ in weights]
    total = sum(weight for _, weight in weights)
    if total - min(weight for _, weight in weights) < need:
        return _Needed(changes, None, changes)
    common = Clock()
    for name in ("issued", "done"):
        of_lane: dict[int, list[tuple[int, int]]] = {}
        for change, weight in weights:
            for lane, number in getattr(change.released, name).items():
                of_lane.setdefault(lane, []).append((number, weight))
        found = getattr(common, name)
        for lane, numbers in of_lane.items():
            without = total - sum(weight for _, weight in numbers)
            for number, weight in sorted(numbers):
                if without >= need:
                    break
                found[lane], without = number, without + weight
    for event in {event for change in changes for event in _single(change)}:
        if sum(weight for change, weight in weights if not _tells(change, event, lanes)) < need:
            common.know(*event, lanes)
    return _Needed([], common, changes)


def _single(change: Change) -> set[tuple[int, Any]]:
    """Accesses that are done for who hears of a change, one by one."""
    single = change.released.single.items()
    return {*change.known, *((lane, one) for lane, several in single for one in several)}


def _tells(change: Change, event: tuple[int, Any], lanes: Lanes) -> bool:
    lane, one = event
    number, granule = (one, 0) if isinstance(one, int) else one
    known = event in change.known or (lane, number) in change.known
    return known or change.released.has((lane, number), granule, lanes, sent=False)


def _may_be_seen(op: str, value: int | None, wait: Wait | None, seen: int | None) -> bool:
    """Can what was waited for, or fetched, be the work of an operation that has begun?"""
    if op not in ("set", "compare") or value is None:
        return True
    want = seen if wait is None else wait.seen
    if want is not None:
        return want == value
    return wait is None or COMPARISONS[wait.cmp](value, wait.value)


def _knows(clock: Clock, change: Change, lanes: Lanes, sent: bool = False) -> bool:
    lane, one = change.known[0]
    number = one if isinstance(one, int) else one[0]
    granule = 0 if isinstance(one, int) else one[1]
    return clock.has((lane, number), granule, lanes, sent)


def _hear(clock: Clock, change: Change, lanes: Lanes) -> None:
    clock.join(change.released, lanes)
    for lane, one in change.known:
        clock.know(lane, one, lanes)
