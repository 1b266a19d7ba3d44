# SPDX-License-Identifier: BSD-3-Clause
"""Every order in which PEs can take the steps of ``native/src/teams/cells.c``.

PEs make the same calls. In a call to ALL each gives a cell and takes that of every other; in a broadcast
the root gives and goes on, and the others take its cell. After a ring full of broadcasts one is done as
those to ALL are. A SYNC is a meeting by other means. In a call that is TOLD each gives a cell, all meet
by other means, and each takes those of the others, which are there by then. To take a cell is to see
its number, then to read it: what is read must be of that call still. The number's release and acquire
make the rest of a cell visible before it, so a cell is given in one step.
``explore`` visits all states and says what is wrong in the first bad one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from state_search import explore

#: What may be left out of the protocol, to see that it is missed.
GUARDS = frozenset({"two cells", "full rings meet", "meetings count the calls before"})
ALL, SYNC, TOLD = -1, -2, -3


class Violation(Exception):
    """The protocol's promise that does not hold, in words."""


class Pe(NamedTuple):
    at: int = 0  # calls made
    entered: bool = False
    waits: tuple[int, ...] = ()  # for the cells of these PEs, in turn
    seen: bool = False  # the number of the first of them
    has_met: bool = False  # in a call that is told
    celled: int = 0
    met: int = 0


class State(NamedTuple):
    pes: tuple[Pe, ...]
    cells: tuple[tuple[int, ...], ...]  # [pe][index]: the call whose data are there


class Calls:
    """``calls[i]``: the root of call i, ALL, SYNC or TOLD."""

    def __init__(
        self, n_pes: int, calls: tuple[int, ...], *, n_cells: int, guards: frozenset[str] = GUARDS
    ) -> None:
        self.n_pes, self.calls, self.guards = n_pes, calls, guards
        self.n_cells = n_cells if "two cells" in guards else 1

    def meets(self, pe: Pe, root: int) -> bool:
        full = pe.celled + 1 - pe.met >= self.n_cells and "full rings meet" in self.guards
        return root == ALL or (full and root != TOLD)

    def enter(self, state: State, n: int) -> State:
        pe, root = state.pes[n], self.calls[state.pes[n].at]
        if root == SYNC:
            return self.put(state, n, pe._replace(entered=True))
        others = tuple(other for other in range(self.n_pes) if other != n)
        waits = others if self.meets(pe, root) else () if root in (n, TOLD) else (root,)
        if root in (n, TOLD) or self.meets(pe, root):
            row = list(state.cells[n])
            row[(pe.celled + 1) % self.n_cells] = pe.celled + 1
            cells = (*state.cells[:n], tuple(row), *state.cells[n + 1 :])
            state = state._replace(cells=cells)
        return self.put(state, n, pe._replace(entered=True, waits=waits))

    @staticmethod
    def put(state: State, n: int, pe: Pe) -> State:
        return state._replace(pes=(*state.pes[:n], pe, *state.pes[n + 1 :]))

    def take(self, state: State, n: int) -> State:
        pe = state.pes[n]
        number = pe.celled + 1
        there = state.cells[pe.waits[0]][number % self.n_cells]
        if not pe.seen:
            return self.put(state, n, pe._replace(seen=there >= number))
        if there != number:
            raise Violation(f"PE {n} read data of call {there} for that of call {number}")
        return self.put(state, n, pe._replace(seen=False, waits=pe.waits[1:]))

    @staticmethod
    def all_are_in(state: State, at: int) -> bool:
        return all(other.at > at or (other.at == at and other.entered) for other in state.pes)

    def leave(self, state: State, n: int) -> State:
        pe, root = state.pes[n], self.calls[state.pes[n].at]
        if root in (SYNC, TOLD) and not pe.has_met and not self.all_are_in(state, pe.at):
            return state
        if root == TOLD and not pe.has_met:
            others = tuple(other for other in range(self.n_pes) if other != n)
            return self.put(state, n, pe._replace(has_met=True, waits=others))
        if root == SYNC:
            return self.put(state, n, Pe(pe.at + 1, celled=pe.celled, met=pe.celled))
        met, number = pe.met, pe.celled + 1
        if self.meets(pe, root) or root == TOLD:
            met = number - ("meetings count the calls before" in self.guards)
        return self.put(state, n, Pe(pe.at + 1, celled=number, met=met))

    def steps(self, state: State) -> Iterator[State]:
        for n, pe in enumerate(state.pes):
            if pe.at == len(self.calls):
                continue
            step = self.leave if not pe.waits else self.take
            after = (step if pe.entered else self.enter)(state, n)
            if after != state:
                yield after

    def explore(self) -> int:
        """Number of states; raises ``Violation`` at the first that is wrong."""
        first = State((Pe(),) * self.n_pes, ((0,) * self.n_cells,) * self.n_pes)
        return explore(first, self.steps, self.check_end)

    def check_end(self, state: State) -> None:
        if any(pe.at < len(self.calls) for pe in state.pes):
            raise Violation("PEs wait forever")
