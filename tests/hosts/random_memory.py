# SPDX-License-Identifier: BSD-3-Clause
"""Memory that comes and goes: a device heap that grows and is trimmed, registered arrays of NumPy.

They come among those of random_operations.py. Every PE draws the same from the seed, so each knows
what all copies of an array have.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import pyshmem

A_ROUND = 12  # of these operations
MOST_KEPT = 14
FIRST_WORDS = 8 << 20  # of the first array, for which the heap has to grow
LEAST_BITS, MOST_BITS = 7, 20  # words of an array, as a power of 2

Draws = np.random.Generator


@dataclass
class Kept:
    """An array of each of ``pes``: ``value`` everywhere, but for what was written since."""

    array: Any
    value: int
    pes: list[int]
    held: pyshmem.Registration | None = None
    written: dict[int, list[tuple[int, np.ndarray]]] = field(default_factory=dict)

    def expected(self, pe: int, begin: int, end: int) -> np.ndarray:
        found = np.full(end - begin, self.value, np.int64)
        for at, values in self.written.get(pe, ()):
            low, high = max(at, begin), min(at + values.size, end)
            if low < high:
                found[low - begin : high - begin] = values[low - at : high - at]
        return found


class Memory:
    """Of this PE. ``pools`` are what all PEs have to put, a row each."""

    def __init__(self, seed: int, me: int, pools: np.ndarray, near: pyshmem.Team) -> None:
        self.seed, self.me, self.pools, self.near = seed, me, pools, near
        self.near_pes = [near.translate_pe(pe, pyshmem.TEAM_WORLD) for pe in range(near.n_pes())]
        self.kept: list[Kept] = []
        self.most = self.least = pyshmem.heap_info("device").memory
        self.counts = dict.fromkeys(_DOES, 0)
        self.add(FIRST_WORDS, 38)

    def play(self, number: int, areas: list[Any]) -> int:
        """Operations behind round ``number``; ``areas`` may move. Returns how many there were."""
        draws = np.random.default_rng([self.seed, 4, number])
        for name in draws.choice(list(_DOES), A_ROUND, p=_SHARES):
            if len(self.kept) >= MOST_KEPT and name in ("make", "register"):
                name = "drop"
            elif not self.kept and name in ("write", "read", "drop"):
                name = "make"
            self.counts[name] += 1
            _DOES[name](self, draws)
            memory = pyshmem.heap_info("device").memory
            self.most, self.least = max(self.most, memory), min(self.least, memory)
        if draws.random() < 0.3:
            self.move(areas)
        return A_ROUND * self.pools.shape[0]

    def move(self, areas: list[Any]) -> None:
        """The arrays of the other operations go where the heap has grown, or was trimmed before."""
        for k, old in enumerate(areas):
            areas[k] = pyshmem.empty(old.size, np.int64, heap="device")
            areas[k][:] = old
            pyshmem.free(old)
        pyshmem.barrier_all()

    def make(self, draws: Draws) -> None:
        words, value = int(2 ** draws.uniform(LEAST_BITS, MOST_BITS)), int(draws.integers(1 << 40))
        self.add(words, value)

    def add(self, words: int, value: int) -> None:
        array = pyshmem.full(words, value, dtype=np.int64, heap="device")
        self.kept.append(Kept(array, value, list(range(self.pools.shape[0]))))

    def register(self, draws: Draws) -> None:
        words, value = int(2 ** draws.uniform(LEAST_BITS, MOST_BITS)), int(draws.integers(1 << 40))
        array = np.full(words, value, np.int64)
        held = pyshmem.register(array, team=self.near)
        self.kept.append(Kept(array, value, self.near_pes, held))

    def drawn(self, draws: Draws) -> tuple[Kept, dict[int, int], int, int]:
        """One that is kept, to whom each of its PEs turns, and a part of it."""
        one = self.kept[int(draws.integers(len(self.kept)))]
        order = draws.permutation(self.pools.shape[0]).tolist()
        first, share = draws.random(2)
        turned = [pe for pe in order if pe in one.pes]
        n = 1 + int(share * min(one.array.size, self.pools.shape[1]) * 0.9)
        return one, dict(zip(one.pes, turned, strict=True)), int(first * (one.array.size - n)), n

    def write(self, draws: Draws) -> None:
        one, to, at, n = self.drawn(draws)
        how = int(draws.integers(3))
        dest, source = one.array[at : at + n], self.pools[self.me, :n]
        if how == 0:
            pyshmem.put(dest, source, to[self.me])
        elif how == 1:
            pyshmem.put_nbi(dest, source, to[self.me])
        else:
            n = 1
            pyshmem.p(dest[:1], int(source[0]), to[self.me])
        pyshmem.barrier_all()
        for pe, other in to.items():
            one.written.setdefault(other, []).append((at, self.pools[pe, :n].copy()))
        self.look(one, self.me, dest, at)
        pyshmem.sync_all()

    def read(self, draws: Draws) -> None:
        one, to, at, n = self.drawn(draws)
        call = pyshmem.get if draws.random() < 0.5 else pyshmem.get_nbi
        found = np.zeros(n, np.int64)
        call(found, one.array[at : at + n], to[self.me])
        pyshmem.quiet()
        self.look(one, to[self.me], found, at)
        pyshmem.sync_all()

    def look(self, one: Kept, pe: int, found: np.ndarray, at: int) -> None:
        expected = one.expected(pe, at, at + found.size)
        if not np.array_equal(found, expected):
            wrong = np.nonzero(found != expected)[0]
            where = "registered" if one.held else "of the heap"
            raise AssertionError(
                f"seed {self.seed}, an array {where} of {one.array.size} words, PE {pe}'s from {at} on: "
                f"{wrong.size} of {found.size} differ, the first is {wrong[0]}"
            )

    def drop(self, draws: Draws) -> None:
        one = self.kept.pop(int(draws.integers(len(self.kept))))
        self.look(one, self.me, one.array, 0)
        if one.held:
            one.held.unregister()
        else:
            pyshmem.free(one.array)

    def trim(self, draws: Draws) -> None:
        pyshmem.heap_trim("device")
        for one in self.kept:
            self.look(one, self.me, one.array, 0)
        pyshmem.sync_all()

    def end(self) -> str:
        """All goes; says what there was."""
        draws = np.random.default_rng(self.seed)
        while self.kept:
            self.drop(draws)
        assert self.most > self.least, "the heap has not grown"
        told = ", ".join(f"{name} {count}" for name, count in self.counts.items())
        return f"{self.least >> 20} to {self.most >> 20} MiB, {told}"


_DOES: dict[str, Callable[[Memory, Draws], Any]] = {
    "make": Memory.make,
    "register": Memory.register,
    "write": Memory.write,
    "read": Memory.read,
    "drop": Memory.drop,
    "trim": Memory.trim,
}
_SHARES = (0.18, 0.12, 0.28, 0.2, 0.15, 0.07)
