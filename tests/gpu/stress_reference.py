# SPDX-License-Identifier: BSD-3-Clause
"""What memory holds after each round of ``stress_program``, by NumPy and one after the other."""

from __future__ import annotations

from typing import Any

import numpy as np
from stress_program import (
    BITS,
    BITWISE,
    BYTES,
    CODE,
    COUNTED,
    COUNTERS,
    GETS,
    LOCKS,
    MOST_REDUCED,
    PRIVATE,
    SIGNALS,
    TEAM,
    WORDS,
    Round,
    Shape,
    sub_team,
)


def copy_pieces(
    dest: np.ndarray, d: np.ndarray, dst: Any, source: np.ndarray, s: np.ndarray, sst: Any, n: Any
) -> None:
    """``dest[d + k * dst] = source[s + k * sst]`` for k below n, for many pieces at a time."""
    for some in np.array_split(np.arange(d.size), max(1, int(n.sum()) >> 24)):
        count = n[some]
        through = np.arange(count.sum())
        to, from_ = (
            _places(begin[some], step if isinstance(step, int) else step[some], count, through)
            for begin, step in ((d, dst), (s, sst))
        )
        dest[to] = source[from_]


def _places(begin: np.ndarray, step: Any, count: np.ndarray, through: np.ndarray) -> np.ndarray:
    """``begin + k * step`` for k below ``count``, of one piece after the other."""
    steps = step if isinstance(step, int) else step.repeat(count)
    return (begin - (np.cumsum(count) - count) * step).repeat(count) + through * steps


class Memory:
    """All PEs' areas, signals and shared words, and PE ``me``'s own results.

    ``area`` is [2, PE, word]; ``landing`` what ``me`` got; ``results`` and ``seen`` are of one round,
    with ``exact`` where the former has one possible value.
    """

    def __init__(self, shape: Shape, me: int, pool: np.ndarray, floats: np.ndarray) -> None:
        self.shape, self.me, self.pool, self.floats = shape, me, pool, floats
        n_pes, lanes = shape.n_pes, shape.lanes
        self.area = np.zeros((2, n_pes, lanes * WORDS), np.int64)
        self.landing = np.zeros(lanes * WORDS, np.int64)
        self.signals = np.zeros((n_pes, lanes), np.uint64)
        self.counters = np.zeros((n_pes, COUNTERS), np.int64)
        self.bits = np.zeros((n_pes, 3 * BITS), np.uint32)
        self.locked = np.zeros(LOCKS, np.int64)
        self.team_ints = np.zeros(shape.cells * MOST_REDUCED * n_pes, np.int64)
        self.team_floats = np.zeros(shape.cells * MOST_REDUCED * n_pes, np.float32)

    def play(self, r: Round) -> None:
        """One round; what it writes is ``area[r.number % 2]``."""
        self.now, self.before = self.area[r.number % 2], self.area[1 - r.number % 2]
        self.results, self.exact = (
            np.zeros(r.code[0].size, np.int64),
            np.zeros(r.code[0].size, bool),
        )
        self.old_counters, self.old_bits = self.counters.copy(), fresh_bits(self.shape.n_pes)
        self._words(r)
        self._copies(r)
        self._signals(r)
        self._atomics(r)
        for cell in np.nonzero(r.scope[self.me] == TEAM)[0]:
            self._collective(r, int(cell))

    def _expect(self, at: tuple[np.ndarray, ...], values: np.ndarray) -> None:
        mine = at[0] == self.me
        place = at[1][mine] * self.shape.threads + at[2][mine]
        self.results[place], self.exact[place] = values[mine], True

    def _words(self, r: Round) -> None:
        at = r.among("g", "atomic_fetch")
        self._expect(at, self.before[r.pe[at], r.dest[at]])
        at = r.among("atomic_swap", "atomic_compare_swap")
        self._expect(at, self.now[r.pe[at], r.dest[at]])
        at = r.among("atomic_compare_swap")
        held = r.source[at] == self.now[r.pe[at], r.dest[at]]
        self.now[r.pe[at][held], r.dest[at][held]] = r.value[at][held]
        at = r.among("p", *PRIVATE[:2])
        self.now[r.pe[at], r.dest[at]] = r.value[at]

    def _copies(self, r: Round) -> None:
        nbytes, pool_bytes = self.shape.nbytes, self.pool[0].nbytes
        now, before = self.now.reshape(-1), self.before.reshape(-1)
        at = r.among(*BYTES)
        copy_pieces(now.view(np.uint8), r.pe[at] * nbytes + r.dest[at], 1,
                    self.pool.reshape(-1).view(np.uint8), at[0] * pool_bytes + r.source[at], 1,
                    r.nelems[at])  # fmt: skip
        at = r.among("iput")
        copy_pieces(now, r.pe[at] * nbytes // 8 + r.dest[at], r.value[at] & 255,
                    self.pool.reshape(-1), at[0] * pool_bytes // 8 + r.source[at], r.value[at] >> 8,
                    r.nelems[at])  # fmt: skip
        at = self._mine(r.among(*GETS))
        copy_pieces(self.landing.view(np.uint8), r.dest[at], 1, before.view(np.uint8),
                    r.pe[at] * nbytes + r.source[at], 1, r.nelems[at])  # fmt: skip
        at = self._mine(r.among("iget"))
        copy_pieces(self.landing, r.dest[at], r.value[at] & 255, before,
                    r.pe[at] * nbytes // 8 + r.source[at], r.value[at] >> 8, r.nelems[at])  # fmt: skip

    def _mine(self, at: tuple[np.ndarray, ...]) -> tuple[np.ndarray, ...]:
        mine = at[0] == self.me
        return tuple(index[mine] for index in at)

    def _signals(self, r: Round) -> None:
        """Also whom ``me`` waits for: [lane] value, first and last byte of the data, and its bytes."""
        at = r.among("put_signal", "put_signal_nbi")
        self.signals[r.pe[at], r.lane[at]] = r.value[at]
        at = r.among("put_signal_add")
        self.signals[r.pe[at], r.lane[at]] += r.value[at].astype(np.uint64)
        at = r.among(*SIGNALS)
        mine = r.pe[at] == self.me
        at = tuple(index[mine] for index in at)
        lane, data = r.lane[at], self.now[self.me].view(np.uint8)
        self.awaited = np.zeros((4, self.shape.lanes), np.int64)
        self.awaited[0, lane] = self.signals[self.me, lane].astype(np.int64)
        self.awaited[1, lane] = r.dest[at]
        self.awaited[2, lane] = r.dest[at] + r.nelems[at] - 1
        self.awaited[3, lane] = (
            data[r.dest[at]].astype(int) * 256 + data[r.dest[at] + r.nelems[at] - 1] + 1
        )

    def _atomics(self, r: Round) -> None:
        at = r.among(*COUNTED)
        np.add.at(self.counters, (r.pe[at], r.dest[at]), r.value[at])
        self.bits = fresh_bits(self.shape.n_pes)
        for name in BITWISE:
            at = r.among(f"atomic_{name}", f"atomic_fetch_{name}")
            ufunc = getattr(np, f"bitwise_{name}")
            ufunc.at(self.bits, (r.pe[at], r.dest[at]), r.value[at].astype(np.uint32))
        at = r.among("lock")
        np.add.at(self.locked, r.dest[at], 1)

    def _collective(self, r: Round, cell: int) -> None:
        members = (
            sub_team(self.shape.n_pes) if cell >= self.shape.steps else range(self.shape.n_pes)
        )
        if self.me not in members:
            return
        entry = (self.me, cell, 0)
        name, n, source, root = int(r.code[entry]), r.nelems[entry], r.source[entry], r.value[entry]
        rank = list(members).index(self.me)
        given = [self.pool[pe, source : source + n * len(members)] for pe in members]
        each = [part[:n] for part in given]
        none = np.zeros(0, np.int64)
        whole = {
            CODE["broadcast"]: lambda: each[root],
            CODE["fcollect"]: lambda: np.concatenate(each),
            CODE["alltoall"]: lambda: np.concatenate([g[rank * n : (rank + 1) * n] for g in given]),
            CODE["sum_reduce"]: lambda: np.sum(each, axis=0),
            CODE["max_reduce"]: lambda: np.max(each, axis=0),
            CODE["sum_inscan"]: lambda: np.sum(each[: rank + 1], axis=0),
            CODE["sum_exscan"]: lambda: (
                np.sum(each[:rank], axis=0) if rank else np.zeros(n, np.int64)
            ),
        }.get(name, lambda: none)()
        at = int(r.dest[entry])
        self.team_ints[at : at + whole.size] = whole
        if name == CODE["float_reduce"]:
            total = np.sum([self.floats[pe, source : source + n] for pe in members], axis=0)
            self.team_floats[at : at + n] = total

    def wrong_orders(self, r: Round, results: np.ndarray) -> list[tuple[int, int, int]]:
        """Fetching atomics whose results, [PE, lane], no order of them gives: PE, cell and thread."""
        return [*self._wrong_counts(r, results), *self._wrong_bits(r, results)]

    def _wrong_counts(self, r: Round, results: np.ndarray) -> list[tuple[int, int, int]]:
        """One after the other they find the sums of those before; the others stand in between."""
        at = r.among("atomic_fetch_add", "atomic_fetch_inc")
        found = results.reshape(r.code.shape)[at]
        word = r.pe[at] * COUNTERS + r.dest[at]
        order = np.lexsort((found, word))
        low, high, same = (
            found[order],
            (found + r.value[at])[order],
            word[order][1:] == word[order][:-1],
        )
        bad = np.zeros(order.size, bool)
        bad[1:] |= same & (low[1:] < high[:-1])  # two that found overlapping values
        bad |= low < self.old_counters.reshape(-1)[word[order]]
        bad |= high > self.counters.reshape(-1)[word[order]]
        return list(zip(*(index[order][bad].tolist() for index in at), strict=True))

    def _wrong_bits(self, r: Round, results: np.ndarray) -> list[tuple[int, int, int]]:
        wrong: list[tuple[int, int, int]] = []
        for name in ("or", "and"):
            at = r.among(f"atomic_fetch_{name}")
            found = results.reshape(r.code.shape)[at].astype(np.uint32)
            old, new = self.old_bits[r.pe[at], r.dest[at]], self.bits[r.pe[at], r.dest[at]]
            least, most = (old, new) if name == "or" else (new, old)
            bad = (found & least != least) | (found & ~most != 0)
            wrong += zip(*(index[bad].tolist() for index in at), strict=True)
        return wrong


def fresh_bits(n_pes: int) -> np.ndarray:
    """What every round begins with: nothing to xor and or, everything to and."""
    bits = np.zeros((n_pes, 3 * BITS), np.uint32)
    bits[:, 2 * BITS :] = 0x7FFFFFFF
    return bits
