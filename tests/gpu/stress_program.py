# SPDX-License-Identifier: BSD-3-Clause
"""A round of random operations of all PEs, the same on each, from the seed; and what it must lead to.

A block's work is a row of cells, a thread of it has a lane of WORDS words in each. A cell is done by the
threads, by the warps or by the block, on as many lanes of one cell at some PE; cells and lanes are
dealt out anew for each round, so that no two operations write the same word, but for atomics that
may come in any order. What a round writes the next one reads: there are two areas, in turns.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

WORDS = 16  # of a lane
COUNTERS, BITS, LOCKS = 64, 1024, 4
POOL_WORDS = 1 << 16
MOST_REDUCED = 1500  # elements of a collective

#: What threads, warps and blocks do; the kernel knows them by these numbers.
CODES = (
    "none", "put", "put_nbi", "put_fence_put", "iput", "get", "get_nbi", "iget", "put_signal",
    "put_signal_nbi", "put_signal_add", "quiet", "fence",
    "p", "g", "atomic_fetch", "atomic_set", "atomic_swap", "atomic_compare_swap", "atomic_add",
    "atomic_inc", "atomic_fetch_add", "atomic_fetch_inc", "atomic_xor", "atomic_fetch_xor",
    "atomic_or", "atomic_fetch_or", "atomic_and", "atomic_fetch_and",
    "lock",
    "team_sync", "broadcast", "fcollect", "alltoall", "sum_reduce", "float_reduce", "max_reduce",
    "sum_inscan", "sum_exscan", "barrier_all",
)  # fmt: skip
CODE = {name: number for number, name in enumerate(CODES)}
BYTES = ("put", "put_nbi", "put_fence_put", "put_signal", "put_signal_nbi", "put_signal_add")
SIGNALS = ("put_signal", "put_signal_nbi", "put_signal_add")
GETS = ("get", "get_nbi")
PRIVATE = ("atomic_set", "atomic_swap", "atomic_compare_swap")
COUNTED = ("atomic_add", "atomic_inc", "atomic_fetch_add", "atomic_fetch_inc")
BITWISE = ("xor", "or", "and")
SHARED = (*BYTES, "iput", *GETS, "iget", "quiet", "fence")
THREAD_CODES = np.array(
    [CODE[c] for c in SHARED] + [CODE["p"]] * 2 + list(range(CODE["g"], CODE["lock"]))
)
GROUP_CODES = np.array([CODE[c] for c in SHARED])
COLLECTIVES = np.arange(CODE["team_sync"], CODE["barrier_all"])

THREAD, WARP, GROUP, TEAM = range(4)  # who does a cell


class Shape(NamedTuple):
    """Of the grid, and how many cells each block has a round."""

    n_pes: int
    blocks: int
    threads: int
    steps: int

    @property
    def cells(self) -> int:
        return self.blocks * self.steps

    @property
    def lanes(self) -> int:
        return self.cells * self.threads

    @property
    def nbytes(self) -> int:
        """Of an area."""
        return self.lanes * WORDS * 8


class Round(NamedTuple):
    """Arrays [PE, cell, thread], with what does not count left 0; ``scope`` is [PE, cell].

    ``dest`` and ``source`` are bytes, or elements where operations move elements, from the beginning of
    an area, of the pool or of what atomics share. ``value`` has strides for iput and iget.
    """

    number: int
    scope: np.ndarray
    code: np.ndarray
    pe: np.ndarray
    dest: np.ndarray
    source: np.ndarray
    nelems: np.ndarray
    value: np.ndarray
    lane: np.ndarray  # the target's first lane, from the beginning of an area

    def among(self, *names: str) -> tuple[np.ndarray, ...]:
        """Where one of these operations is."""
        return np.nonzero(np.isin(self.code, [CODE[name] for name in names]))


def pools(seed: int, n_pes: int) -> np.ndarray:
    """What every PE sends from: words, [PE, POOL_WORDS]."""
    rng = np.random.default_rng([seed, 1])
    return rng.integers(-(2**62), 2**62, (n_pes, POOL_WORDS))


def floats(seed: int, n_pes: int) -> np.ndarray:
    """Whole numbers, whose sums are exact in any order."""
    rng = np.random.default_rng([seed, 2])
    return rng.integers(-1000, 1000, (n_pes, POOL_WORDS)).astype(np.float32)


def sub_team(n_pes: int) -> list[int]:
    """Backwards, and without PE 0 where that leaves two."""
    return list(range(n_pes - 1, 0 if n_pes > 2 else -1, -1))


def _scopes(rng: np.random.Generator, shape: Shape) -> np.ndarray:
    scope = rng.choice([THREAD, WARP, GROUP], (shape.n_pes, shape.cells), p=[0.6, 0.25, 0.15])
    teams = rng.random(shape.steps) < 0.5  # of the first two blocks, on all PEs
    for block in range(min(2, shape.blocks)):
        at = block * shape.steps + np.nonzero(teams)[0]
        scope[:, at] = TEAM
    return scope


def _deal(rng: np.random.Generator, shape: Shape, scope: np.ndarray) -> np.ndarray:
    """The cell, numbered over all PEs, at which each lane's operation is aimed."""
    flat = scope.reshape(-1)
    target = rng.permutation(flat.size)[:, None].repeat(shape.threads, axis=1)
    threads, warps = flat == THREAD, flat == WARP
    target[threads] = rng.permuted(target[threads], axis=0)
    leaders = rng.permuted(target[warps][:, ::32], axis=0)
    target[warps] = leaders.repeat(32, axis=1)[:, : shape.threads]
    return target.reshape(*scope.shape, shape.threads)


def _leaders(shape: Shape, scope: np.ndarray) -> np.ndarray:
    lane = np.arange(shape.threads)
    return (
        (scope == THREAD)[..., None]
        | ((scope == WARP)[..., None] & (lane % 32 == 0))
        | ((scope >= GROUP)[..., None] & (lane == 0))
    )


def make_round(seed: int, number: int, shape: Shape, now: np.ndarray) -> Round:
    """Round ``number``. ``now`` are the words that it writes, [PE, word], as they are before."""
    rng = np.random.default_rng([seed, 3, number])
    scope = _scopes(rng, shape)
    target = _deal(rng, shape, scope)
    leaders, full = _leaders(shape, scope), target.shape
    lane = np.arange(shape.threads)
    first = np.where(
        scope[..., None] == THREAD, lane, np.where(scope[..., None] == WARP, lane & -32, 0)
    )
    width = np.where(scope == THREAD, 1, np.where(scope == WARP, 32, shape.threads))[..., None]
    width = np.minimum(width, shape.threads - first)
    code = np.where(
        scope[..., None] == THREAD, rng.choice(THREAD_CODES, full), rng.choice(GROUP_CODES, full)
    )
    code[(scope == GROUP) & (rng.random(scope.shape) < 0.05), 0] = CODE["lock"]
    code = np.where(leaders & (scope != TEAM)[..., None], code, 0)
    pe, cell = target // shape.cells, target % shape.cells
    own = np.arange(shape.cells)[None, :, None] * shape.threads + first
    made = Round(number, scope, code, pe, *(np.zeros(full, np.int64) for _ in range(4)),
                 cell * shape.threads + first)  # fmt: skip
    _aim_bytes(rng, made, width * WORDS * 8, own * WORDS * 8)
    _aim_strided(rng, made, width * WORDS, own * WORDS)
    _aim_words(rng, made, now)
    _aim_atomics(rng, made, shape)
    _aim_signals(rng, made)
    _aim_collectives(rng, made, shape)
    return made


def _aim_bytes(rng: np.random.Generator, made: Round, room: np.ndarray, own: np.ndarray) -> None:
    """Any number of bytes, more often few, at any place."""
    for names, gets in ((BYTES, False), (GETS, True)):
        at = made.among(*names)
        space, base = np.broadcast_to(room, made.code.shape)[at], made.lane[at] * WORDS * 8
        n = (space * rng.random(space.size) ** 2).astype(np.int64) + 1
        shift, other = ((rng.random(space.size) * (space - n + 1)).astype(np.int64) for _ in "12")
        made.nelems[at] = n
        made.dest[at] = (np.broadcast_to(own, made.code.shape)[at] if gets else base) + shift
        far = rng.integers(0, POOL_WORDS * 8 - space - 8)
        made.source[at] = base + other if gets else far


def _aim_strided(rng: np.random.Generator, made: Round, room: np.ndarray, own: np.ndarray) -> None:
    for name in ("iput", "iget"):
        at = made.among(name)
        space, base = np.broadcast_to(room, made.code.shape)[at], made.lane[at] * WORDS
        there, here = rng.integers(1, 4, space.size), rng.integers(1, 4, space.size)
        made.value[at] = there | here << 8  # strides of dest and source
        made.nelems[at] = 1 + (
            rng.random(space.size) * ((space - 1) // np.maximum(there, here))
        ).astype(int)
        mine = np.broadcast_to(own, made.code.shape)[at]
        made.dest[at] = mine if name == "iget" else base
        made.source[at] = base if name == "iget" else rng.integers(0, POOL_WORDS - 4 * space)


def _aim_words(rng: np.random.Generator, made: Round, now: np.ndarray) -> None:
    at = made.among("p", "g", "atomic_fetch", *PRIVATE)
    made.dest[at] = made.lane[at] * WORDS + rng.integers(0, WORDS, at[0].size)
    made.value[at] = rng.integers(-(2**62), 2**62, at[0].size)
    at = made.among("atomic_compare_swap")  # half of them find what they look for
    held = now[made.pe[at], made.dest[at]]
    made.source[at] = held + (rng.random(at[0].size) < 0.5)


def _aim_atomics(rng: np.random.Generator, made: Round, shape: Shape) -> None:
    at = made.among(*COUNTED)
    made.pe[at] = rng.integers(0, shape.n_pes, at[0].size)
    made.dest[at] = rng.integers(0, COUNTERS, at[0].size)
    made.value[at] = rng.integers(1, 2**20, at[0].size)
    at = made.among("atomic_inc", "atomic_fetch_inc")
    made.value[at] = 1
    for place, name in enumerate(BITWISE):
        at = made.among(f"atomic_{name}", f"atomic_fetch_{name}")
        made.pe[at] = rng.integers(0, shape.n_pes, at[0].size)
        made.dest[at] = place * BITS + rng.integers(0, BITS, at[0].size)
        made.value[at] = 1 << rng.integers(0, 31, at[0].size)
    at = made.among("atomic_and", "atomic_fetch_and")
    made.value[at] = 0x7FFFFFFF & ~made.value[at]
    at = made.among("lock")
    made.dest[at] = rng.integers(0, LOCKS, at[0].size)


def _aim_signals(rng: np.random.Generator, made: Round) -> None:
    """Values that no signal has had before."""
    at = made.among(*SIGNALS)
    made.value[at] = (made.number + 1) << 20 | rng.integers(1, 1 << 20, at[0].size)


def _aim_collectives(rng: np.random.Generator, made: Round, shape: Shape) -> None:
    """The same on all PEs; each has a slot of its own in what collectives write."""
    teams = [range(shape.n_pes), sub_team(shape.n_pes)]
    for cell in np.nonzero(made.scope[0] == TEAM)[0]:
        members = teams[cell // shape.steps]
        code = (
            int(rng.choice(COLLECTIVES))
            if rng.random() < 0.95 or cell >= shape.steps
            else CODE["barrier_all"]
        )
        made.code[members, cell, 0] = code
        n = int(MOST_REDUCED * rng.random() ** 2)
        if code == CODE["barrier_all"] or code == CODE["team_sync"]:
            n = 0
        made.nelems[members, cell, 0] = n
        made.source[members, cell, 0] = rng.integers(0, POOL_WORDS - n * shape.n_pes)
        made.dest[members, cell, 0] = cell * MOST_REDUCED * shape.n_pes
        made.value[members, cell, 0] = rng.integers(0, len(members))  # root
