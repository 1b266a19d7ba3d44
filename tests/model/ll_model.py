# SPDX-License-Identifier: BSD-3-Clause
"""Every order in which PEs can take the steps of ``pyshmem/device/team/ll.py``.

PEs make the same calls, each with a group of lanes. In a call a lane stores one unit to every other PE,
waits for that unit of every other, and meets the group's other lanes. In a call of a single unit the
last lane does that alone, and in a MOVED one other lanes have the units than before: so are grids that
change, whose lanes all meet where a kernel ends (``pyshmem/stream_kernels/packets.py``). A unit is one
store, or two halves that arrive and are read one by one. Stores arrive in any order but that of one
place. A call may be a broadcast, whose root alone has data.
``explore`` visits all states and says what is wrong in the first bad one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from state_search import explore

#: What may be left out of the protocol, to see that it is missed.
GUARDS = frozenset({"two halves", "flag of each half", "empty units", "meet"})
#: Calls in which every PE has data: a unit for each lane, a single one, a unit for each other lane.
ALL, SINGLE, MOVED = -1, -2, -3


class Violation(Exception):
    """The protocol's promise that does not hold, in words."""


class Lane(NamedTuple):
    call: int = 1
    stored: bool = False
    waits: tuple[int, ...] = ()  # for units of these PEs, in turn
    read: int = 0  # halves of the unit that have been read


class Place(NamedTuple):
    """Where a half of a unit goes."""

    pe: int
    sender: int
    buffer: int
    unit: int
    half: int


class State(NamedTuple):
    lanes: tuple[tuple[Lane, ...], ...]
    memory: frozenset[tuple[Place, int]] = frozenset()  # the calls whose stores have arrived
    flying: frozenset[tuple[Place, int]] = frozenset()


class Calls:
    """``calls[i]``: the root of call i + 1, ALL, SINGLE or MOVED. ``whole``: units are one access."""

    def __init__(
        self, n_pes: int, calls: tuple[int, ...], *, lanes: int = 1, whole: bool = True,
        guards: frozenset[str] = GUARDS,
    ) -> None:  # fmt: skip
        self.n_pes, self.calls, self.n_lanes, self.guards = n_pes, calls, lanes, guards
        self.halves = 1 if whole else 2

    def senders(self, call: int) -> range | tuple[int, ...]:
        root = self.calls[call - 1]
        everybody = root < 0 or "empty units" in self.guards
        return range(self.n_pes) if everybody else (root,)

    def place(self, pe: int, sender: int, lane: int, call: int, half: int) -> Place:
        buffer = call & 1 if "two halves" in self.guards else 0
        kind = self.calls[call - 1]
        unit = 0 if kind == SINGLE else (lane + (kind == MOVED)) % self.n_lanes
        return Place(pe, sender, buffer, unit, half)

    def store(self, state: State, pe: int, n: int, lane: Lane) -> tuple[State, Lane]:
        """All the lane's stores leave, in no order."""
        call, senders = lane.call, self.senders(lane.call)
        others = [other for other in range(self.n_pes) if other != pe]
        if self.calls[call - 1] == SINGLE and n != self.n_lanes - 1:
            return state, lane._replace(stored=True)
        new = {
            (self.place(other, pe, n, call, half), call)
            for other in (others if pe in senders else ())
            for half in range(self.halves)
        }
        waits = tuple(other for other in others if other in senders)
        return state._replace(flying=state.flying | new), lane._replace(stored=True, waits=waits)

    def look(self, state: State, pe: int, n: int, lane: Lane) -> Lane:
        """One load of the unit that the lane waits for: on, or back to its first half."""
        place = self.place(pe, lane.waits[0], n, lane.call, lane.read)
        seen = max((call for at, call in state.memory if at == place), default=0)
        if lane.read == 0 or "flag of each half" in self.guards:
            if seen != lane.call:
                return lane._replace(read=0)
        elif seen != lane.call:
            raise Violation(f"PE {pe} took data of call {seen} for that of call {lane.call}")
        if lane.read + 1 < self.halves:
            return lane._replace(read=lane.read + 1)
        return lane._replace(waits=lane.waits[1:], read=0)

    def lane_steps(self, state: State, pe: int, n: int) -> Iterator[State]:
        lanes = state.lanes[pe]
        lane = lanes[n]
        if lane.call > len(self.calls):
            return
        if not lane.stored:
            after, moved = self.store(state, pe, n, lane)
        elif lane.waits:
            after, moved = state, self.look(state, pe, n, lane)
        else:
            met = all(self.is_done(other, lane.call) for other in lanes)
            if not met and "meet" in self.guards:
                return
            after, moved = state, Lane(lane.call + 1)
        if moved != lane:
            row = (*lanes[:n], moved, *lanes[n + 1 :])
            yield after._replace(lanes=(*after.lanes[:pe], row, *after.lanes[pe + 1 :]))

    @staticmethod
    def is_done(lane: Lane, call: int) -> bool:
        return lane.call > call or (lane.call == call and lane.stored and not lane.waits)

    def steps(self, state: State) -> Iterator[State]:
        for pe in range(self.n_pes):
            for n in range(self.n_lanes):
                yield from self.lane_steps(state, pe, n)
        for place, call in state.flying:
            if not any(at == place and older < call for at, older in state.flying):
                kept = frozenset(item for item in state.memory if item[0] != place)
                flying = state.flying - {(place, call)}
                yield state._replace(memory=kept | {(place, call)}, flying=flying)

    def explore(self) -> int:
        """Number of states; raises ``Violation`` at the first that is wrong."""
        first = State(((Lane(),) * self.n_lanes,) * self.n_pes)
        return explore(first, self.steps, self.check_end)

    def check_end(self, state: State) -> None:
        for pe, lanes in enumerate(state.lanes):
            for lane in lanes:
                if lane.call <= len(self.calls):
                    raise Violation(f"PE {pe} waits forever in call {lane.call}")
