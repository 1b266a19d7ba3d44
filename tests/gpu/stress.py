# SPDX-License-Identifier: BSD-3-Clause
"""Random operations of all PEs' kernels, mixed as they come, against NumPy; fails when they differ.

Run: python -m pyshmem run -n 2 tests/gpu/stress.py --operations 10000000 --seed 7
PYSHMEM_P2P, PYSHMEM_RINGS, PYSHMEM_RING_SLOTS and PYSHMEM_CUTOVER_PUT choose the ways. An operation is a
call by a thread, a warp or a block, a collective one on each PE. The same seed, PEs and shape do the
same again, up to what wins a race. With --seconds it ends after the round in which they have passed, and
tells how far it came.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from typing import Any

import numpy as np
from numba import cuda
from stress_kernel import do_round
from stress_program import (
    BITS,
    BYTES,
    CODE,
    CODES,
    COUNTERS,
    LOCKS,
    MOST_REDUCED,
    PRIVATE,
    TEAM,
    WORDS,
    Round,
    Shape,
    floats,
    make_round,
    pools,
    sub_team,
)
from stress_reference import Memory, fresh_bits

import pyshmem  # before numba
from pyshmem import device as shmem
from pyshmem._core import library
from pyshmem.device import state

WRITERS = (*BYTES, *PRIVATE, "iput", "p")
SCOPES = ("", "_warp", "_work_group", "")


def arguments(on_gpus: bool) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--operations", type=int, default=1_000_000 if on_gpus else 5000)
    parser.add_argument("--seconds", type=float, help="since the start; compiling counts")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--blocks", type=int, default=64 if on_gpus else 3)
    parser.add_argument("--threads", type=int, default=128 if on_gpus else 64)
    parser.add_argument(
        "--steps", type=int, default=16 if on_gpus else 6, help="cells of a block a round"
    )
    parser.add_argument("--heap", choices=("host", "device"), help="by default the one for kernels")
    return parser.parse_args()


def heap_of_kernels(me: int) -> str:
    """The device heap, also where peers are far; with PYSHMEM_P2P=0, where the own is, the host heap."""
    own = library.device_state()[state.DELTA + (me & state.NEAR_MASK)]
    return "host" if own == state.FAR else "device"


class Arrays:
    """The symmetric arrays of a PE, in the order in which the kernel takes them."""

    def __init__(self, shape: Shape, heap: str, pool: np.ndarray, reals: np.ndarray) -> None:
        self.heap = heap
        words, lanes, n_team = (
            shape.nbytes // 8,
            shape.lanes,
            shape.cells * MOST_REDUCED * shape.n_pes,
        )
        self.area = [self.make(words), self.make(words)]
        self.landing, self.pool, self.floats = (
            self.make(words),
            self.make(pool.size),
            self.make(pool.size, "f4"),
        )
        self.signals, self.counters = self.make(lanes, "u8"), self.make(COUNTERS)
        self.bits, self.locks, self.locked = (
            self.make(3 * BITS, "u4"),
            self.make(8 * LOCKS),
            self.make(LOCKS),
        )
        self.ints, self.reals = self.make(n_team), self.make(n_team, "f4")
        self.results = self.make(lanes)
        self.fill(self.pool, pool)
        self.fill(self.floats, reals)

    def make(self, n: int, dtype: str = "i8") -> Any:
        return pyshmem.zeros(n, dtype=dtype, heap=self.heap)

    def fill(self, array: Any, values: np.ndarray) -> None:
        pyshmem.put(array, values, pyshmem.my_pe())


def program_of(r: Round, me: int) -> np.ndarray:
    fields = (r.code, r.pe, r.dest, r.source, r.nelems, r.value, r.lane)
    return np.stack([field[me].reshape(-1) for field in fields], axis=1)


def launch(shape: Shape, arrays: Arrays, r: Round, memory: Memory, teams: np.ndarray) -> np.ndarray:
    """Runs the round on the own GPU; what signals had brought when they were seen."""
    now, before = arrays.area[r.number % 2], arrays.area[1 - r.number % 2]
    arrays.fill(arrays.bits, fresh_bits(1)[0])
    arrays.fill(arrays.results, np.zeros(shape.lanes, np.int64))
    seen = cuda.to_device(np.zeros(shape.lanes, np.int64))
    given = [r.scope[memory.me], program_of(r, memory.me), teams, memory.awaited[:3]]
    given = [cuda.to_device(np.ascontiguousarray(values)) for values in given]
    pyshmem.barrier_all()
    do_round[shape.blocks, shape.threads](
        shape.steps, *given, now.view(np.uint8), now, before.view(np.uint8), before,
        arrays.landing.view(np.uint8), arrays.landing, arrays.pool.view(np.uint8), arrays.pool,
        arrays.floats, arrays.signals, arrays.counters, arrays.bits, arrays.locks, arrays.locked,
        arrays.ints, arrays.reals, arrays.results, seen,
    )  # fmt: skip
    cuda.synchronize()
    pyshmem.barrier_all()
    return seen.copy_to_host()


class Report:
    """Counts, and prints what differs, as far as it is worth reading."""

    def __init__(self, seed: int, me: int) -> None:
        self.seed, self.me, self.mismatches = seed, me, 0
        self.performed: Counter[str] = Counter()

    def differs(
        self, r: Round, what: str, place: int, expected: Any, found: Any, by: str = ""
    ) -> None:
        self.mismatches += 1
        if self.mismatches <= 10:
            print(f"seed {self.seed}, round {r.number}, PE {self.me}: {what}[{place}] is {found}, "
                  f"not {expected}{by}", flush=True)  # fmt: skip

    def compare(self, r: Round, what: str, expected: np.ndarray, found: np.ndarray) -> None:
        for place in np.nonzero(expected != found)[0].tolist():
            by = self.writer(r, place // WORDS) if what == "area" else ""
            if what in ("results", "landing", "signal data"):
                lane = place // WORDS if what == "landing" else place
                by = f" ({CODES[r.code[self.me].reshape(-1)[lane]]} in lane {lane})"
            self.differs(r, what, place, expected[place], found[place], by)

    def writer(self, r: Round, lane: int) -> str:
        """Whose operation is aimed there."""
        near = (r.pe == self.me) & (r.lane <= lane) & (lane < r.lane + r.code.shape[2])
        entries = np.nonzero(near & np.isin(r.code, [CODE[name] for name in WRITERS]))
        nearest = max(zip(*entries, strict=True), key=lambda at: r.lane[at], default=None)
        if nearest is None:
            return ""
        scope = SCOPES[r.scope[nearest[:2]]]
        pe, cell, thread = nearest
        return f" ({CODES[r.code[nearest]]}{scope} of PE {pe}, cell {cell}, thread {thread})"

    def count(self, r: Round) -> None:
        for scope, suffix in enumerate(SCOPES):
            codes = r.code[r.scope == scope]
            end = "_work_group" if scope == TEAM else suffix
            for code, n in enumerate(np.bincount(codes.reshape(-1), minlength=len(CODES))[1:], 1):
                self.performed[CODES[code] + end] += int(n)
                if CODES[code].startswith("put_signal"):
                    self.performed["signal_wait_until"] += int(n)
                if CODES[code] == "put_fence_put":  # three
                    self.performed["fence" + end] += int(n)
                    self.performed["put" + end] += int(n)

    def print(self, rounds: int, seconds: float, mismatches: int) -> None:
        total = self.performed.total()
        for name, n in sorted(self.performed.items()):
            if n:
                print(f"{name:32}{n:12}")
        print(f"{'rounds':32}{rounds:12}\n{'operations':32}{total:12}\n{'mismatches':32}"
              f"{mismatches:12}\n{'seconds':32}{seconds:12.1f}\n"
              f"{'operations a second':32}{total / seconds:12.0f}", flush=True)  # fmt: skip


def check(report: Report, r: Round, memory: Memory, arrays: Arrays, seen: np.ndarray) -> None:
    own, me, numpy = memory.me, memory.me, pyshmem.to_numpy
    results = numpy(arrays.results)
    report.compare(r, "area", memory.now[own], numpy(arrays.area[r.number % 2]))
    report.compare(r, "landing", memory.landing, numpy(arrays.landing))
    report.compare(r, "signals", memory.signals[own], numpy(arrays.signals))
    report.compare(r, "signal data", memory.awaited[3], seen)
    report.compare(r, "counters", memory.counters[own], numpy(arrays.counters))
    report.compare(r, "bits", memory.bits[own], numpy(arrays.bits))
    report.compare(r, "collectives", memory.team_ints, numpy(arrays.ints))
    report.compare(r, "float reductions", memory.team_floats, numpy(arrays.reals))
    report.compare(r, "results", np.where(memory.exact, memory.results, results), results)
    everyone = np.zeros((memory.shape.n_pes, results.size), np.int64)
    for pe in range(memory.shape.n_pes):
        pyshmem.get(everyone[pe], arrays.results, pe)
    pyshmem.barrier_all()  # everybody has read them
    for pe, cell, thread in memory.wrong_orders(r, everyone):
        if pe == me:
            place = cell * memory.shape.threads + thread
            report.differs(r, CODES[r.code[pe, cell, thread]], place, "possible", results[place])
    mine = (np.arange(LOCKS) + 1) % memory.shape.n_pes == me
    report.compare(r, "locked counters", np.where(mine, memory.locked, 0), numpy(arrays.locked))


def time_is_up(votes: pyshmem.SymmetricArray, begin: float, seconds: float | None) -> bool:
    """Whether ``seconds`` have passed since ``begin`` on any PE: the same on all."""
    if seconds is None:
        return False
    votes[0] = time.monotonic() - begin >= seconds
    pyshmem.max_reduce(votes, votes)
    return bool(votes[0])


def main() -> int:
    with pyshmem.init() as job:
        begin = time.monotonic()
        on_gpus = job.device == "cuda"
        chosen = arguments(on_gpus)
        shape = Shape(job.n_pes, chosen.blocks, chosen.threads, chosen.steps)
        heap = chosen.heap or heap_of_kernels(job.my_pe)
        pool, reals = pools(chosen.seed, job.n_pes), floats(chosen.seed, job.n_pes)
        arrays = Arrays(shape, heap, pool[job.my_pe], reals[job.my_pe])
        memory, report = Memory(shape, job.my_pe, pool, reals), Report(chosen.seed, job.my_pe)
        team = pyshmem.Team.from_pes(sub_team(job.n_pes))
        teams = np.zeros(shape.blocks, np.int64)
        teams[1:2] = 0 if team is None else shmem.as_argument(team)
        number, is_over, votes = 0, False, pyshmem.zeros(1, dtype=np.int64)
        while report.performed.total() < chosen.operations and not is_over:
            r = make_round(chosen.seed, number, shape, memory.area[number % 2])
            memory.play(r)
            check(report, r, memory, arrays, launch(shape, arrays, r, memory, teams))
            report.count(r)
            number += 1
            is_over = time_is_up(votes, begin, chosen.seconds)
        mismatches = pyshmem.full(1, report.mismatches, dtype=np.int64)
        pyshmem.sum_reduce(mismatches, mismatches)
        if job.my_pe == 0:
            report.print(number, time.monotonic() - begin, int(mismatches[0]))
        return int(mismatches[0] > 0)


if __name__ == "__main__":
    sys.exit(main())
