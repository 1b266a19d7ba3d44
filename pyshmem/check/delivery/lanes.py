# SPDX-License-Identifier: BSD-3-Clause
"""Threads beside the program's: those of streams and of torch's process groups.

Each operation of theirs has a gate before it. The program's thread opens it at some turn, as late as it
may, and stands still until the operation is done, gives way, or waits for what others do: of all threads
of all PEs one runs. What waits goes on when that is there. Members of a collective are let go together,
by the one that comes last, which has the turn.
"""

from __future__ import annotations

import contextlib
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

from .turns import NEVER, PATIENCE, Turns

#: What a PE's place for a meeting holds: nothing, who has come, who may begin, who is done.
_NONE, _CAME, _GO, _DONE = range(4)
_LOOKS = 0.02  # seconds between two looks whether turns were given up
_here = threading.local()


def running() -> bool:
    """Does this thread do an operation, with its PE's turn?"""
    return current() is not None


def current() -> Lane | None:
    """The lane whose operation this thread does."""
    found: Lane | None = getattr(_here, "lane", None)
    return None if found is None or found.is_free or found.meets else found


class Lane:
    """Operations in a row, which a thread of their own does.

    Its fields are written by the thread that has the turn: the program's, or this one while it is lent.
    In a meeting the program's threads of all PEs stand still.
    """

    def __init__(self, lanes: Lanes) -> None:
        self._lanes = lanes
        self.pending = 0  # operations that are put and not done
        self.due = NEVER  # the turn from which on the next one may go on
        self._ready: Callable[[], bool] | None = None  # what it waits for
        self._meeting: tuple[int, int] | None = None
        self._place: Any = None  # in the file of turns, of its meeting
        self._acted = False
        self._lent, self._back = threading.Semaphore(0), threading.Semaphore(0)

    @property
    def is_free(self) -> bool:
        """Whether turns were given up: there are no gates any more."""
        return self._lanes.is_free

    @property
    def meets(self) -> bool:
        """Whether it is in a collective, whose members all go on."""
        return self._place is not None

    # ---- in the program's thread -----------------------------------------------------------------

    def put(self, count: int = 1) -> None:
        """Operations are put behind the others."""
        if count and not self.pending:
            self.due = self._lanes.later()
        self.pending += count
        self._lanes.tell()

    def goes_on(self) -> bool:
        """Lend it the turn, unless what it waits for is not there. False: nothing has changed."""
        if self._meeting is not None:
            return self._lanes.meet(self, *self._meeting)
        if self._ready is not None and not self._ready():
            self.due = self._lanes.soon()
            return False
        self._ready = None
        self._lent.release()
        self._lanes.stand_still(self._back)
        return self._acted

    # ---- in its own ------------------------------------------------------------------------------

    def enter(self) -> None:
        """Before an operation: returns when it is lent the turn."""
        self._wait()
        _here.lane = self

    def leave(self) -> None:
        """The operation is done."""
        _here.lane = None
        self.pending -= 1
        self.due = self._lanes.later() if self.pending else NEVER
        self._acted = True
        self._lanes.tell()
        if self._place is None:
            self._back.release()
        else:
            place, self._place, self._meeting = self._place, None, None
            self._lanes.done(place)

    def until(self, ready: Callable[[], bool]) -> None:
        """Returns when it holds."""
        while not ready() and not self.is_free:
            self._ready, self.due = ready, self._lanes.soon()
            self._gives_back(False)

    def gives_way(self, acted: bool) -> None:
        """The program and others come first; ``acted``: something was done since the last time."""
        self.due = self._lanes.soon()
        self._gives_back(acted)

    def meet(self, key: int, count: int) -> None:
        """Returns when ``count`` members are there, in which all of them go on at once."""
        if self.is_free:
            return
        self._meeting, self.due, self._acted = (key, count), self._lanes.soon(), True
        self._lanes.tell()
        self._back.release()
        while not self.is_free:
            if self._place is not None and self._place[2] == _GO:
                break
            time.sleep(1e-4)

    def came(self, place: Any) -> None:
        """It has its place in the file; whoever comes last has it go on."""
        self._place, self.due = place, NEVER
        self._lanes.tell()

    def _gives_back(self, acted: bool) -> None:
        self._acted = acted
        self._lanes.tell()
        self._back.release()
        self._wait()

    def _wait(self) -> None:
        while not self._lent.acquire(timeout=_LOOKS):
            if self.is_free:
                return


class Lanes:
    """The lanes of a PE.

    Args:
        turns: the job's.
        chance: of this PE.
        tell: says in which turn the next thing is due.
    """

    def __init__(self, turns: Turns, chance: random.Random, tell: Callable[[], None]) -> None:
        self._turns, self._random, self.tell = turns, chance, tell
        self._all: dict[Any, Lane] = {}
        self._captured: Counter[int] = Counter()  # operations, by stream
        self._graphs: dict[int, int] = {}
        self.in_kernel = False  # is one under way, of whatever stream?

    @property
    def is_free(self) -> bool:
        """Whether turns were given up: all threads run."""
        return self._turns.free

    @property
    def due(self) -> int:
        """The turn in which the next one may go on."""
        return min((lane.due for lane in self._all.values() if lane.pending), default=NEVER)

    def of(self, key: Any) -> Lane:
        """The lane of a stream, by its handle, or of whatever else has one."""
        return self._all.setdefault(key, Lane(self))

    def pending(self, *keys: Any) -> int:
        """Operations of some that are not done; of all streams, which have numbers as keys."""
        some = keys or tuple(key for key in self._all if isinstance(key, int))
        return sum(self._all[key].pending for key in some if key in self._all)

    def go_on(self, urgent: bool) -> bool:
        """Those that are due go on; ``urgent``: others do, too. False: nothing has changed."""
        lanes = [lane for lane in self._all.values() if lane.pending]
        self._random.shuffle(lanes)
        step, did = self._turns.step, False
        for lane in lanes:
            if lane.due <= step or (urgent and not did and lane.due < NEVER):
                did |= lane.goes_on()
        if lanes:
            self.tell()
        return did

    def later(self) -> int:
        """A turn for the next operation: at once, soon, or when somebody waits for it."""
        chance = self._random.random()
        late = self._random.randrange(1, 10) if chance < 0.7 else self._random.randrange(200, 800)
        return self._turns.step + (0 if chance < 0.3 else late)

    def soon(self) -> int:
        """A turn at which to look again."""
        return self._turns.step + self._random.randrange(1, 6)

    def stand_still(self, back: threading.Semaphore) -> None:
        """Until the turn comes back."""
        since = time.monotonic()
        while not back.acquire(timeout=_LOOKS):
            if self.is_free:
                return
            if time.monotonic() - since > PATIENCE:
                self._turns.lose_patience()

    # ---- kernels ---------------------------------------------------------------------------------

    @contextlib.contextmanager
    def kernel(self, wait: Callable[[Callable[[], bool]], None]) -> Iterator[None]:
        """One at a time, as everywhere in the simulator; ``wait``: of the program's thread."""
        lane = current()
        (wait if lane is None else lane.until)(lambda: not self.in_kernel)
        self.in_kernel = True
        try:
            yield
        finally:
            self.in_kernel = False

    # ---- graphs ----------------------------------------------------------------------------------

    def captures(self, handle: int) -> None:
        """An operation is captured."""
        self._captured[handle] += 1

    def captured(self, handle: int, graph: int) -> None:
        """A capture has ended."""
        self._graphs[graph] = self._captured.pop(handle, 0)

    def replays(self, graph: int, handle: int) -> None:
        """A graph's operations are put on a stream."""
        self.of(handle).put(self._graphs.get(graph, 0))

    # ---- meetings --------------------------------------------------------------------------------

    def meet(self, lane: Lane, key: int, count: int) -> bool:
        """A lane comes to a meeting. The last one has all go on, and returns when they are done."""
        mine = next((place for place in self._turns.meetings if place[2] == _NONE), None)
        if mine is None:
            lane.due = self.soon()
            return False
        mine[:] = key, count, _CAME
        lane.came(mine)
        members = [p for p in self._turns.all_meetings if p[0] == key and p[2] == _CAME]
        if len(members) == count:
            self._turns.fence()
            for place in members:
                place[2] = _GO
            self._turns.sleep_until(lambda: all(place[2] == _DONE for place in members))
            for place in members:
                place[:] = 0
        return True

    def done(self, place: Any) -> None:
        """A member of a meeting has done its part."""
        self._turns.fence()
        place[2] = _DONE
