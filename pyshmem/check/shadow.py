# SPDX-License-Identifier: BSD-3-Clause
"""The shadow of a heap: who has written and read each byte last, in intervals of equal history."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from typing import Any

from .clocks import Event


class Access:
    """One access of an agent, to one or several intervals of one PE's memory."""

    __slots__ = (
        "agent", "at", "atomic", "digest", "direct", "event", "high", "low", "mode", "released",
        "routine", "site", "thread", "value", "where",
    )  # fmt: skip

    def __init__(
        self,
        agent: int,
        event: Event,
        mode: str,
        routine: str,
        site: int,
        place: tuple[Any, int, int],
        at: int,
    ) -> None:
        self.agent, self.event, self.mode, self.routine, self.site = (
            agent, event, mode, routine, site,
        )  # fmt: skip
        self.where, self.low, self.high = place  # (PE, heap), first byte, end
        self.at = at  # time
        self.thread = ""  # of a kernel, with its name
        self.atomic = mode.startswith("atomic")
        self.direct = False  # a load or a store of the PE's own, and no transfer
        self.digest: int | None = None  # of what it writes
        self.value: int | None = None  # of each element that it writes
        self.released: Any = None  # the clock that goes with what it writes

    @property
    def writes(self) -> bool:
        """Does it change memory?"""
        return "write" in self.mode


class Cell:
    """The history of the bytes of an interval."""

    __slots__ = ("atomics", "reads", "write")

    def __init__(
        self,
        write: Access | None,
        reads: tuple[Access, ...] = (),
        atomics: tuple[Access, ...] = (),
    ) -> None:
        self.write = write  # the last one that was not atomic
        self.reads = reads  # since then; the last of each lane
        self.atomics = atomics  # since then; the last of each lane


_EMPTY = Cell(None)


class Shadow:
    """Intervals of a heap, in the order of their addresses. What was never accessed has none."""

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._ends: list[int] = []
        self._cells: list[Cell] = []

    def at(self, address: int) -> Cell:
        """The history of one byte."""
        n = bisect_right(self._starts, address) - 1
        return self._cells[n] if n >= 0 and address < self._ends[n] else _EMPTY

    def split(self, low: int, high: int) -> Iterator[tuple[int, int, int, Cell]]:
        """The intervals of ``low`` to ``high``, made where there are none: number, ends and cell.

        The caller may replace the cell of the number by ``set``, until it asks for the next.
        """
        n = bisect_right(self._starts, low) - 1
        if n >= 0 and low < self._ends[n]:
            if self._starts[n] < low:
                self._cut(n, low)
                n += 1
        else:
            n += 1
        at = low
        while at < high:
            if n == len(self._starts) or self._starts[n] > at:
                end = high if n == len(self._starts) else min(high, self._starts[n])
                self._insert(n, at, end, _EMPTY)
            elif self._ends[n] > high:
                self._cut(n, high)
            yield n, at, self._ends[n], self._cells[n]
            at = self._ends[n]
            n += 1

    def set(self, number: int, cell: Cell) -> None:
        """The new history of an interval that ``split`` gave."""
        self._cells[number] = cell

    def forget(self, low: int, high: int) -> None:
        """The memory is new."""
        for _ in self.split(low, high):
            pass
        first = bisect_left(self._starts, low)
        last = bisect_left(self._starts, high)
        del self._starts[first:last], self._ends[first:last], self._cells[first:last]

    def _insert(self, n: int, low: int, high: int, cell: Cell) -> None:
        self._starts.insert(n, low)
        self._ends.insert(n, high)
        self._cells.insert(n, cell)

    def _cut(self, n: int, at: int) -> None:
        self._insert(n + 1, at, self._ends[n], self._cells[n])
        self._ends[n] = at
