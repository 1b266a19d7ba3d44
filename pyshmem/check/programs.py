# SPDX-License-Identifier: BSD-3-Clause
"""What the threads of a program of Triton know of each other, where the library's kernels are followed.

A program is one agent. Its threads are as far apart as its barriers say: a release tells of what was
stored before the last barrier, and what a wait has seen is known to all behind the next.
"""

from __future__ import annotations

from .clocks import Clock, Lanes


class Programs:
    """Clocks of programs, by agent; none while only programs of users are followed."""

    def __init__(self, lanes: Lanes) -> None:
        self._lanes = lanes
        self.followed = False
        self.fenced: dict[int, Clock] = {}  # what a store tells of: as of the last fence
        self.seen: dict[int, Clock] = {}  # what some of the threads have seen since the barrier
        self._met: dict[int, Clock] = {}  # as of the last barrier

    def begin(self, agent: int, clock: Clock) -> None:
        """A program begins, and knows what the launch does."""
        if self.followed:
            self._met[agent], self.fenced[agent] = clock.copy(), clock.copy()
            self.seen[agent] = Clock()

    def end(self, agent: int, clock: Clock) -> None:
        """It has ended."""
        if self.followed and agent in self.seen:
            clock.join(self.seen.pop(agent), self._lanes)
            del self._met[agent], self.fenced[agent]

    def barrier(self, agent: int, clock: Clock) -> None:
        """Its threads meet."""
        if agent in self.seen:
            clock.join(self.seen[agent], self._lanes)
            self.seen[agent], self._met[agent] = Clock(), clock.copy()

    def fence(self, agent: int, pe: int, clock: Clock) -> None:
        """What was stored before the last barrier is done."""
        if agent in self._met:
            done = self._met[agent].copy()
            done.quiet(self._lanes, pe, None, None)
            self.fenced[agent] = done
            clock.join(done, self._lanes)
