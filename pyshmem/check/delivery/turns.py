# SPDX-License-Identifier: BSD-3-Clause
"""Turns: between its calls of the library one PE runs at a time, and the seed says which is next.

All PEs map one file. Who has the turn alone writes there, but for a PE's own row when it comes back from
a collective. The turn goes on by a store of ``_TURN`` behind all others, and who waits polls it: on
hosts with weaker order than x86 a fence stands on both sides.
"""

from __future__ import annotations

import hashlib
import itertools
import mmap
import os
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from ..._core.library import lib
from ..files import HEADER, MEETING, MEETINGS, OWN, ROW

# Words of the file: whose turn it is, how many there were, whether turns were given up, the seed, the
# job of this process by number, turns in which nothing changed.
_TURN, _STEP, _FREE, _SEED, _JOB, _CALM = range(6)
# Words of a PE's row: the job it is in, what it does, from which turn on something of it has to arrive,
# the collective that it is in and its members, how it polled last, whether something has to arrive now.
_OF_JOB, _STATE, _DUE, _KEY, _COUNT, _POLLED, _URGENT = range(7)
_AWAY, _READY, _MEETS, _INSIDE = range(4)
NEVER = 1 << 62
#: How a PE has looked for a change and found none: in a call that returns, or that waits.
TESTED, WAITED = 1, 2
_MOST_CALM = 20_000  # turns without a change, behind which the PEs wait by themselves, and time out
PATIENCE = 30.0  # seconds that a PE may be elsewhere with its turn


class Turns:
    """The turns of a job, as one PE sees them.

    Args:
        fd: the file.
        pe: this PE.
        n_pes: how many there are.
    """

    def __init__(self, fd: int, pe: int, n_pes: int) -> None:
        self._pe, self._n_pes = pe, n_pes
        self._words = np.frombuffer(mmap.mmap(fd, 8 * (HEADER + ROW * n_pes)), np.int64)
        self._rows = self._words[HEADER:].reshape(n_pes, ROW)
        self._row = self._rows[pe]
        ends = OWN + MEETING * np.arange(MEETINGS + 1)
        places = [[row[a:b] for a, b in itertools.pairwise(ends)] for row in self._rows]
        #: Collectives beside the programs, of this PE and of all: key, members, and how far it has come.
        self.meetings, self.all_meetings = places[pe], list(itertools.chain(*places))
        self.arrive: Callable[[bool], bool] = lambda urgent: False

    @property
    def step(self) -> int:
        """How many turns there were."""
        return int(self._words[_STEP])

    @property
    def free(self) -> bool:
        """Whether turns were given up: all PEs run."""
        return bool(self._words[_FREE])

    @property
    def seed(self) -> int:
        """The seed of this job."""
        return int(self._words[_SEED])

    def begin(self, job: int, seed: int) -> None:
        """A job begins, on all PEs; PE 0's seed is that of all. Returns with the turn."""
        self._row[:] = 0
        self._row[[_OF_JOB, _STATE, _DUE]] = job, _READY, NEVER
        if self._pe == 0:
            self.sleep_until(lambda: bool((self._rows[:, _OF_JOB] == job).all()), free_too=True)
            self._words[:HEADER] = 0
            self._words[_SEED], self._words[_JOB] = seed, job
            self._give(self._chosen(list(range(self._n_pes))))
        self.sleep_until(lambda: int(self._words[_JOB]) == job, free_too=True)
        self._await()

    def end(self) -> None:
        """This PE ends its job; the others go on."""
        if self.free:
            return
        self._row[_STATE] = _AWAY
        self._hand_on(True)

    def due(self, turn: int) -> None:
        """The first turn in which something of this PE has to arrive."""
        self._row[_DUE] = turn

    def pass_on(self) -> None:
        """Others may come first. Something was done since the last turn."""
        if not self.free:
            self._hand_on(True)
            self._await()

    def acted(self) -> None:
        """This PE has done something with its turn: who has looked for a change may look again."""
        self._rows[:, _POLLED] = 0

    def poll(self, how: int) -> None:
        """Nothing had changed that this PE looks for."""
        if not self.free:
            self._row[_POLLED] = how
            self._hand_on(False)
            self._await()

    def meet(self, key: int, count: int, call: Callable[[], Any]) -> Any:
        """``call`` is a collective of ``count`` members: all are in it together; nobody else runs."""
        if self.free:
            return call()
        self._row[_KEY], self._row[_COUNT], self._row[_STATE] = key, count, _MEETS
        self._hand_on(True)
        self._await(inside=True)
        try:
            return call()
        finally:
            self._come_back()

    def _come_back(self) -> None:
        lib.ishmemx_leaf_fence()
        self._row[_STATE] = _READY
        if self.free:
            return
        if int(self._words[_TURN]) == self._pe:  # the first of them goes on when all are back
            self.sleep_until(lambda: not (self._rows[:, _STATE] == _INSIDE).any())
            self._hand_on(True)
        self._await()

    # ---- whose turn it is ------------------------------------------------------------------------

    def _hand_on(self, acted: bool) -> None:
        words, rows = self._words, self._rows
        words[_STEP] += 1
        words[_CALM] = 0 if acted else words[_CALM] + 1
        if acted:
            rows[:, _POLLED] = 0
        self._row[_URGENT] = 0
        if words[_CALM] > _MOST_CALM:
            self._give_up()
        else:
            self._choose()

    def _choose(self) -> None:
        rows, state, step = self._rows, self._rows[:, _STATE], self.step
        polled = rows[:, _POLLED]
        met = [pe for pe in np.flatnonzero(state == _MEETS) if self._is_complete(int(pe))]
        due = (state != _AWAY) & (rows[:, _DUE] <= step)
        ready = ((state == _READY) & (polled == 0)) | due
        ready[met] = True
        options = np.flatnonzero(ready)
        if not options.size:  # all wait for what others do: what is on its way has to arrive
            options = np.flatnonzero((state != _AWAY) & (rows[:, _DUE] < NEVER))
            rows[options, _URGENT] = 1
        if not options.size:
            options = np.flatnonzero((state == _READY) & (polled == TESTED))
        if options.size:
            self._go(self._chosen([int(pe) for pe in options]))
        elif (state != _AWAY).any():
            self._give_up()
        else:
            self._words[_TURN] = -1

    def _go(self, pe: int) -> None:
        """The turn is a PE's, or that of all members of the collective that it is in."""
        if self._rows[pe, _STATE] == _MEETS and self._is_complete(pe):
            members = np.flatnonzero(self._of_meeting(pe))
            self._rows[members, _STATE] = _INSIDE
            pe = int(members[0])
        self._give(pe)

    def _of_meeting(self, pe: int) -> Any:
        return (self._rows[:, _STATE] == _MEETS) & (self._rows[:, _KEY] == self._rows[pe, _KEY])

    def _is_complete(self, pe: int) -> bool:
        return int(self._of_meeting(pe).sum()) == int(self._rows[pe, _COUNT])

    def _chosen(self, pes: list[int]) -> int:
        text = f"{self.seed}/{self.step}".encode()
        number = int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little")
        return pes[number % len(pes)]

    def fence(self) -> None:
        """What was stored before is seen before what is stored behind it."""
        lib.ishmemx_leaf_fence()

    def _give(self, pe: int) -> None:
        lib.ishmemx_leaf_fence()
        self._words[_TURN] = pe

    def _give_up(self) -> None:
        """All run: whoever waits for what does not come is told by the library itself."""
        self._words[_FREE] = 1

    # ---- waiting for it --------------------------------------------------------------------------

    def _await(self, inside: bool = False) -> None:
        """Returns with the turn; ``inside``: in the collective, and what is due arrives meanwhile."""
        while True:
            self.sleep_until(self._is_up)
            lib.ishmemx_leaf_fence()
            if self.free or self._row[_STATE] == _INSIDE:
                return
            did = self.arrive(bool(self._row[_URGENT]))
            if not inside:
                if did:
                    self.acted()
                return
            self._hand_on(did)

    def _is_up(self) -> bool:
        words = self._words
        return bool(words[_TURN] == self._pe or words[_FREE] or self._row[_STATE] == _INSIDE)

    def sleep_until(self, done: Callable[[], bool], free_too: bool = False) -> None:
        """Until then, or until turns are given up; ``free_too``: not until that."""
        polls, seen, since = 0, self.step, time.monotonic()
        while not done():
            if self.free and not free_too:
                return
            polls += 1
            if polls < 30:
                os.sched_yield()
                continue
            time.sleep(3e-5 if polls < 2000 else 3e-4)
            if polls % 1000 == 0 and self.step != seen:
                seen, since = self.step, time.monotonic()
            elif polls % 1000 == 0 and time.monotonic() - since > PATIENCE:
                self.lose_patience()

    def lose_patience(self) -> None:
        """Who has the turn waits for what this file knows nothing of: all run from here on."""
        self._give_up()
        print(
            f"pyshmem: deliver: PE {int(self._words[_TURN])} has had its turn for {PATIENCE:g} s "
            "without a call; all PEs run from here on, and the seed does not repeat it",
            file=sys.stderr,
        )
