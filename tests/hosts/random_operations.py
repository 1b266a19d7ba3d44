# SPDX-License-Identifier: BSD-3-Clause
"""Random operations of all PEs of a job, compared with a model: ``... SEED OPERATIONS [memory]``.

Every PE makes the same plan from the seed. In a round each operation has a slot of WORDS words at some
PE for itself, so what is there afterwards does not depend on the order; only counters are shared. What
a round writes the next one reads: there are two areas, in turns. With ``memory`` these are on a device
heap that grows, and move; arrays are made, freed and registered, and the heap is trimmed, in between.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import numpy as np
from random_memory import Memory

import pyshmem

WORDS = 16
PER_ROUND = 1000  # operations of a PE
POOL_WORDS = 1 << 15
COUNTERS = 8
MOST_WORDS = 40_000  # of a large one
INTEGERS = ("int32", "int64", "uint32", "uint64")
MOST = 1 << 30

Plain = Any  # a number of NumPy's


class Op(NamedTuple):
    """``at`` is the first word of the slot, ``source`` one of the pool of who does it."""

    kind: str
    pe: int
    at: int
    n: int
    source: int
    value: int
    dtype: str
    ctx: int


@dataclass
class Model:
    """What all PEs have: ``before`` is read in a round, ``after`` written."""

    seed: int
    n_pes: int
    before: np.ndarray = field(init=False)
    after: np.ndarray = field(init=False)
    counters: np.ndarray = field(init=False)
    signals: np.ndarray = field(init=False)
    pools: np.ndarray = field(init=False)

    def __post_init__(self) -> None:
        self.before = np.zeros((self.n_pes, PER_ROUND * WORDS), np.int64)
        self.after = self.before.copy()
        self.counters = np.zeros((self.n_pes, COUNTERS), np.int64)
        self.signals = np.zeros(self.n_pes, np.int64)
        rng = np.random.default_rng([self.seed, 1])
        self.pools = rng.integers(-(2**62), 2**62, (self.n_pes, POOL_WORDS))

    def turn(self) -> None:
        self.before, self.after = self.after, self.before


@dataclass
class Mine:
    """What this PE has."""

    me: int
    area: list[np.ndarray]  # before, after
    pool: np.ndarray
    counters: np.ndarray
    signal: np.ndarray
    ctx: list[pyshmem.Context]
    box: np.ndarray = field(default_factory=lambda: np.zeros(PER_ROUND * WORDS, np.int64))

    def dest(self, op: Op) -> np.ndarray:
        """The slot, in words."""
        return self.area[1][op.at : op.at + WORDS]

    def cell(self, op: Op, which: int = 1) -> np.ndarray:
        """The first number of the slot."""
        return self.area[which][op.at : op.at + 1].view(op.dtype)[:1]

    def source(self, op: Op, more: int = 0) -> np.ndarray:
        return self.pool[op.source + more : op.source + more + op.n]

    def own(self, k: int, n: int = WORDS) -> np.ndarray:
        """Where the answer to operation ``k`` comes."""
        return self.box[k * WORDS : k * WORDS + n]

    def own_cell(self, k: int, op: Op) -> np.ndarray:
        return self.own(k, 1).view(op.dtype)[:1]


# ---- puts: (do, what is in the slot then) -----------------------------------------------------------


def do_put(m: Mine, op: Op, k: int) -> None:
    pyshmem.put(m.dest(op), m.source(op), op.pe, nelems=op.n, ctx=m.ctx[op.ctx])


def do_put_nbi(m: Mine, op: Op, k: int) -> None:
    pyshmem.put_nbi(m.dest(op), m.source(op), op.pe, nelems=op.n, ctx=m.ctx[op.ctx])


def do_put_fence_put(m: Mine, op: Op, k: int) -> None:
    pyshmem.put_nbi(m.dest(op), m.source(op, 1), op.pe, nelems=op.n, ctx=m.ctx[op.ctx])
    pyshmem.fence(m.ctx[op.ctx])
    do_put_nbi(m, op, k)


def do_put_quiet_get(m: Mine, op: Op, k: int) -> None:
    do_put_nbi(m, op, k)
    pyshmem.quiet(m.ctx[op.ctx])
    pyshmem.get(m.own(k, op.n), m.dest(op), op.pe, nelems=op.n)


def do_p(m: Mine, op: Op, k: int) -> None:
    pyshmem.p(m.dest(op), int(m.source(op)[0]), op.pe, ctx=m.ctx[op.ctx])


def do_iput(m: Mine, op: Op, k: int) -> None:
    half = op.n // 2
    pyshmem.iput(m.dest(op), m.source(op), op.pe, dst=2, sst=1, nelems=half, ctx=m.ctx[op.ctx])


def do_put_signal(m: Mine, op: Op, k: int) -> None:
    call = pyshmem.put_signal if op.value & 1 else pyshmem.put_signal_nbi
    add = pyshmem.SIGNAL_ADD
    call(m.dest(op), m.source(op), m.signal, 1, add, op.pe, nelems=op.n, ctx=m.ctx[op.ctx])


def is_put(model: Model, who: int, op: Op) -> np.ndarray:
    given = model.pools[who, op.source : op.source + op.n]
    model.after[op.pe, op.at : op.at + op.n] = given
    return given


def is_quietly_put(model: Model, who: int, op: Op) -> None:
    is_put(model, who, op)


def is_p(model: Model, who: int, op: Op) -> None:
    model.after[op.pe, op.at] = model.pools[who, op.source]


def is_iput(model: Model, who: int, op: Op) -> None:
    half = op.n // 2
    model.after[op.pe, op.at : op.at + 2 * half : 2] = model.pools[who, op.source :][:half]


def is_signalled(model: Model, who: int, op: Op) -> None:
    is_put(model, who, op)
    model.signals[op.pe] += 1


# ---- gets: (do, what comes) -------------------------------------------------------------------------


def do_get(m: Mine, op: Op, k: int) -> None:
    call = pyshmem.get if op.value & 1 else pyshmem.get_nbi
    call(m.own(k, op.n), m.area[0][op.at : op.at + op.n], op.pe, ctx=m.ctx[op.ctx])


def do_iget(m: Mine, op: Op, k: int) -> None:
    half = op.n // 2
    there = m.area[0][op.at : op.at + WORDS]
    pyshmem.iget(m.own(k, half), there, op.pe, dst=1, sst=2, nelems=half, ctx=m.ctx[op.ctx])


def do_g(m: Mine, op: Op, k: int) -> None:
    m.own(k)[0] = pyshmem.g(m.area[0][op.at : op.at + 1], op.pe, ctx=m.ctx[op.ctx])


def is_get(model: Model, who: int, op: Op) -> np.ndarray:
    return model.before[op.pe, op.at : op.at + op.n]


def is_iget(model: Model, who: int, op: Op) -> np.ndarray:
    return model.before[op.pe, op.at : op.at + 2 * (op.n // 2) : 2]


def is_g(model: Model, who: int, op: Op) -> np.ndarray:
    return model.before[op.pe, op.at : op.at + 1]


# ---- atomic operations ------------------------------------------------------------------------------


def changed(op: Op, old: Plain) -> Plain:
    """What the number is after it."""
    value = old.dtype.type(op.value)
    if "compare_swap" in op.kind:
        return value if int(old) == cond_of(op) else old
    name = op.kind.removesuffix("_nbi").removeprefix("atomic_").removeprefix("fetch_")
    return CHANGES[name](old, value)


def cond_of(op: Op) -> int:
    """A slot is often 0, before anything is put to it."""
    return 0 if op.value & 1 else op.value


CHANGES: dict[str, Callable[[Plain, Plain], Plain]] = {
    "fetch": lambda old, value: old,
    "set": lambda old, value: value,
    "swap": lambda old, value: value,
    "add": lambda old, value: old + value,
    "inc": lambda old, value: old + old.dtype.type(1),
    "xor": lambda old, value: old ^ value,
    "or": lambda old, value: old | value,
    "and": lambda old, value: old & value,
}
BARE = ("atomic_inc", "atomic_fetch_inc", "atomic_fetch")
SILENT = tuple(f"atomic_{name}" for name in ("set", "add", "inc", "xor", "or", "and"))
FETCHING = (
    *(f"atomic_fetch_{name}" for name in ("add", "inc", "xor", "or", "and")),
    *("atomic_fetch", "atomic_swap", "atomic_compare_swap"),
)


def do_atomic(m: Mine, op: Op, k: int) -> None:
    name = op.kind.removesuffix("_nbi")
    values = () if name in BARE else (op.value,)
    if name == "atomic_compare_swap":
        values = (cond_of(op), op.value)
    call, ctx = getattr(pyshmem, op.kind), m.ctx[op.ctx]
    if op.kind != name:
        call(m.own_cell(k, op), m.cell(op), *values, op.pe, ctx=ctx)
        return
    found = call(m.cell(op), *values, op.pe, ctx=ctx)
    if name in FETCHING:
        m.own_cell(k, op)[0] = found


def is_atomic(model: Model, who: int, op: Op) -> np.ndarray | None:
    cell = model.after[op.pe, op.at : op.at + 1].view(op.dtype)[:1]
    old = cell.copy()
    with np.errstate(over="ignore"):
        cell[0] = changed(op, old[0])
    return old if op.kind.removesuffix("_nbi") in FETCHING else None


def do_count(m: Mine, op: Op, k: int) -> None:
    m.own(k)[0] = pyshmem.atomic_fetch_add(m.counters[op.n % COUNTERS :], 1, op.pe)


def is_count(model: Model, who: int, op: Op) -> None:
    model.counters[op.pe, op.n % COUNTERS] += 1


def do_order(m: Mine, op: Op, k: int) -> None:
    (pyshmem.fence if op.value & 1 else pyshmem.quiet)(m.ctx[op.ctx])


def is_order(model: Model, who: int, op: Op) -> None:
    """Nothing changes by it."""


Does = Callable[[Mine, Op, int], None]
Is = Callable[[Model, int, Op], "np.ndarray | None"]
KINDS: dict[str, tuple[Does, Is]] = {
    "put": (do_put, is_quietly_put),
    "put_nbi": (do_put_nbi, is_quietly_put),
    "put_fence_put": (do_put_fence_put, is_quietly_put),
    "put_quiet_get": (do_put_quiet_get, is_put),
    "p": (do_p, is_p),
    "iput": (do_iput, is_iput),
    "put_signal": (do_put_signal, is_signalled),
    "get": (do_get, is_get),
    "iget": (do_iget, is_iget),
    "g": (do_g, is_g),
    "count": (do_count, is_count),
    "order": (do_order, is_order),
    **dict.fromkeys((*SILENT, *FETCHING), (do_atomic, is_atomic)),
    **{f"{name}_nbi": (do_atomic, is_atomic) for name in FETCHING},
}


def plan(seed: int, number: int, n_pes: int) -> list[list[Op]]:
    """A round: what each PE does, in its order."""
    rng = np.random.default_rng([seed, 2, number])
    n = n_pes * PER_ROUND
    slot = rng.permutation(n)  # over all PEs
    columns = (
        rng.choice(list(KINDS), n).tolist(),
        (slot // PER_ROUND).tolist(),
        (slot % PER_ROUND * WORDS).tolist(),
        rng.integers(1, WORDS + 1, n).tolist(),
        rng.integers(0, POOL_WORDS - WORDS - 1, n).tolist(),
        rng.integers(0, MOST, n).tolist(),
        rng.choice(INTEGERS, n).tolist(),
        rng.integers(0, 2, n).tolist(),
    )
    ops = list(map(Op, *columns))
    return [ops[pe * PER_ROUND : (pe + 1) * PER_ROUND] for pe in range(n_pes)]


def same(what: str, found: np.ndarray, expected: np.ndarray) -> None:
    if not np.array_equal(found, expected):
        wrong = np.nonzero(found != expected)[0]
        first = wrong[0]
        raise AssertionError(
            f"{what}: {wrong.size} differ, the first is {first}: {found[first]}, not {expected[first]}"
        )


def wait_for_signals(m: Mine, model: Model, ops: list[list[Op]], told: str) -> None:
    """Who has seen the signals sees what came with them."""
    pyshmem.signal_wait_until(m.signal, pyshmem.CMP_EQ, int(model.signals[m.me]))
    for op in (op for done in ops for op in done):
        if op.kind == "put_signal" and op.pe == m.me:
            where = slice(op.at, op.at + op.n)
            same(f"{told}, {op}", m.area[1][where], model.after[m.me, where])


def play(m: Mine, model: Model, seed: int, number: int) -> int:
    """A round; how many operations it had."""
    ops, told = plan(seed, number, model.n_pes), f"seed {seed}, round {number}"
    for k, op in enumerate(ops[m.me]):
        KINDS[op.kind][0](m, op, k)
    answers: list[tuple[int, Op, np.ndarray]] = []
    for who, done in enumerate(ops):
        for k, op in enumerate(done):
            answer = KINDS[op.kind][1](model, who, op)
            if answer is not None and who == m.me:
                answers.append((k, op, answer.copy()))
    wait_for_signals(m, model, ops, told)
    for ctx in m.ctx:
        pyshmem.quiet(ctx)
    for k, op, answer in answers:
        same(f"{told}, operation {k}, {op}", m.own(k).view(answer.dtype)[: answer.size], answer)
    large(model, m.me, seed, number)
    pyshmem.barrier_all()
    same(f"{told}, the area", m.area[1], model.after[m.me])
    same(f"{told}, counters", m.counters, model.counters[m.me])
    pyshmem.sync_all()  # before others count on
    model.turn()
    m.area.reverse()
    return model.n_pes * PER_ROUND


def large(model: Model, me: int, seed: int, number: int) -> None:
    """Many words to one PE, and a collective routine, with arrays that are made for them."""
    rng = np.random.default_rng([seed, 3, number])
    to, n = rng.permutation(model.n_pes), int(rng.integers(1, MOST_WORDS))
    source, root = int(rng.integers(0, 1000)), int(rng.integers(model.n_pes))
    few = min(n, POOL_WORDS - source)
    given = model.pools[:, source : source + few]
    dest, every = pyshmem.zeros(few, np.int64), pyshmem.zeros(few * model.n_pes, np.int64)
    mine = pyshmem.array(given[me])
    told = f"seed {seed}, round {number}, {few} words"
    pyshmem.put_nbi(dest, given[me], int(to[me]))
    pyshmem.barrier_all()
    same(f"{told}, put", dest, given[list(to).index(me)])
    back = np.zeros(few, np.int64)
    pyshmem.get_nbi(back, mine, int(to[me]))
    pyshmem.quiet()
    same(f"{told}, get", back, given[to[me]])
    pyshmem.sync_all()
    pyshmem.sum_reduce(dest, mine)
    same(f"{told}, sum_reduce", dest, given.sum(axis=0))
    pyshmem.fcollect(every, mine)
    same(f"{told}, fcollect", every, given.reshape(-1))
    pyshmem.broadcast(dest, mine, root)
    same(f"{told}, broadcast", dest, given[root])
    for array in (mine, every, dest):
        pyshmem.free(array)


def rounds(seed: int, least: int, job: pyshmem.Job, memory: bool) -> Iterator[int]:
    model = Model(seed, job.n_pes)
    heap: Literal["device", "host"] = "device" if memory else "host"
    areas: list[Any] = [pyshmem.zeros(PER_ROUND * WORDS, np.int64, heap=heap) for _ in range(2)]
    contexts = [pyshmem.CTX_DEFAULT, pyshmem.TEAM_WORLD.create_ctx()]
    counters = pyshmem.zeros(COUNTERS, np.int64)
    pool = model.pools[job.my_pe]
    mine = Mine(job.my_pe, areas, pool, counters, pyshmem.new_signal(), contexts)
    moving = Memory(seed, job.my_pe, model.pools, pyshmem.TEAM_NODE) if memory else None
    total = number = 0
    while total < least:
        total += play(mine, model, seed, number)
        if moving:
            total += moving.play(number, mine.area)
        number += 1
        yield total
    if moving:
        print(f"PE {job.my_pe}: device heap of {moving.end()}")
    contexts[1].destroy()


def main() -> None:
    seed, least, memory = int(sys.argv[1]), int(sys.argv[2]), "memory" in sys.argv[3:]
    if memory:
        os.environ["PYSHMEM_DEVICE_HEAP_GROWS"], os.environ["PYSHMEM_DEVICE_HEAP_SIZE"] = "1", "8M"
    with pyshmem.init(heap_size="32M", device="sim" if memory else "none") as job:
        for total in rounds(seed, least, job, memory):
            done = total
        print(f"PE {job.my_pe} of {job.n_pes}: {done} operations, seed {seed}: as the model has it")


if __name__ == "__main__":
    main()
