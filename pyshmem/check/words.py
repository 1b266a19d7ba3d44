# SPDX-License-Identifier: BSD-3-Clause
"""Words that are waited for: what was written to each, in order, and whom a wait has heard."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, NamedTuple

from .clocks import Clock, Event, Lanes

#: CMP_EQ and so on, by number.
COMPARISONS: tuple[Callable[[Any, Any], bool], ...] = (
    operator.eq, operator.ne, operator.gt, operator.ge, operator.lt, operator.le,
)  # fmt: skip
_MOST = 512  # changes of a word that are kept one by one


class Change(NamedTuple):
    """A word was written: how, with what value, and what its writer released with it."""

    op: str  # set, add, or other
    after: int | None  # the value then, as far as it is known
    released: Clock
    known: tuple[tuple[int, Any], ...]  # what is done for who sees it, as of Clock.single; it first
    at: int
    plain: Any = None  # the access, of one that is not atomic and no signal


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


class Word:
    """The changes of one word, the oldest first."""

    __slots__ = ("_old", "begun", "changes", "value")

    def __init__(self, value: int | None) -> None:
        self.value = value  # after the last change
        self.changes: list[Change] = []
        #: By agent: atomic operations that have begun, and of which nothing says yet that they are done.
        self.begun: dict[int, list[Begun]] = {}
        self._old: Clock | None = None  # what those released that are no longer kept

    def change(
        self,
        op: str,
        value: int | None,
        released: Clock,
        known: tuple[Any, ...],
        at: int,
        plain: Any = None,
    ) -> None:
        """Note a change: ``op`` is set, add or other."""
        if op == "set":
            self.value = value
        elif op == "add" and self.value is not None and value is not None:
            self.value += value
        else:
            self.value = None
        self.changes.append(Change(op, self.value, released, known, at, plain))

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
        self, clock: Clock, wait: Wait | None, seen: int | None, lanes: Lanes
    ) -> list[Change]:
        """Who waited, or fetched the value ``seen``, knows from here on what the writer released.

        Returns what it has heard.
        """
        if self._old is not None:
            clock.join(self._old, lanes)
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
        return heard

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


def _may_be_seen(op: str, value: int | None, wait: Wait | None, seen: int | None) -> bool:
    """Can what was waited for, or fetched, be the work of an operation that has begun?"""
    if op not in ("set", "compare") or value is None:
        return True
    want = seen if wait is None else wait.seen
    if want is not None:
        return want == value
    return wait is None or COMPARISONS[wait.cmp](value, wait.value)


def _knows(clock: Clock, change: Change, lanes: Lanes) -> bool:
    lane, one = change.known[0]
    number = one if isinstance(one, int) else one[0]
    granule = 0 if isinstance(one, int) else one[1]
    return clock.has((lane, number), granule, lanes, sent=False)


def _hear(clock: Clock, change: Change, lanes: Lanes) -> None:
    clock.join(change.released, lanes)
    for lane, one in change.known:
        clock.know(lane, one, lanes)
