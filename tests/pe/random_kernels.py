# SPDX-License-Identifier: BSD-3-Clause
"""Random kernels beside NumPy: ``random_kernels.py SEED COUNT [FILE]``, on device cpu, sim or cuda.

A kernel is a row of steps on three numbers of each thread: arithmetic, branches, loops, shared memory,
barriers that count, shuffles, votes, atomics. Each step says what it is in a kernel and what it does to
NumPy's arrays of all threads, so the text of the kernel and its result come from one random row. Numbers
are kept below 2^20, where the simulator's integers of Python and a compiler's are the same. On a GPU
kernels are left out that shuffle in warps of fewer than 32 threads: what a lane gets is undefined there.
In the file is a line for each that ran, its seed and a digest of what it wrote, to compare devices by.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import numpy as np
from numba import cuda

import pyshmem.device  # noqa: F401  # the simulator's shuffles and votes
from pyshmem.device.leaf.backend import SIM

ALL, LIMIT, TOTALS = 0xFFFFFFFF, (1 << 20) - 1, 4
SHAPES = (32, 64, 96, 48, 20, (16, 2), (8, 4, 2), 33)
#: v: the numbers of all threads by block and thread; totals: what atomics on global memory change.
Effect = Callable[["State"], None]


class State:
    def __init__(self, given: np.ndarray) -> None:
        self.v = [given.copy(), given * 7 + 3 & LIMIT, np.zeros_like(given)]
        self.totals = np.zeros(TOTALS, np.int64)
        self.lane = np.arange(given.shape[1]) % 32

    def of_warps(
        self, function: Callable[[np.ndarray], np.ndarray], values: np.ndarray
    ) -> np.ndarray:
        """``function`` of the values of each warp, whose last axis is its lanes."""
        parts = [values[:, at : at + 32] for at in range(0, values.shape[1], 32)]
        return np.concatenate([function(part) + np.zeros_like(part) for part in parts], axis=1)


def arithmetic(r: random.Random, a: int, b: int) -> tuple[list[str], Effect]:
    op = r.choice(("+", "*", "^", "&", "|", "-"))

    def effect(state: State) -> None:
        x, y = state.v[a], state.v[b]
        found = {"+": x + y, "*": x * y, "^": x ^ y, "&": x & y, "|": x | y, "-": x - y}[op]
        state.v[a] = found & LIMIT

    return [f"v{a} = (v{a} {op} v{b}) & {LIMIT}"], effect


def branch(r: random.Random, a: int, b: int) -> tuple[list[str], Effect]:
    constant = r.randrange(1000)

    def effect(state: State) -> None:
        x, y = state.v[a], state.v[b]
        state.v[a] = np.where(x % 3 == y % 3, x + constant, abs(x - y)) & LIMIT

    return [
        f"if v{a} % 3 == v{b} % 3:",
        f"    v{a} = (v{a} + {constant}) & {LIMIT}",
        "else:",
        f"    v{a} = abs(v{a} - v{b}) & {LIMIT}",
    ], effect


def loop(r: random.Random, a: int, b: int) -> tuple[list[str], Effect]:
    turns = r.randrange(1, 9)

    def effect(state: State) -> None:
        for k in range(turns):
            state.v[a] = np.where(k < state.v[b] % 7, state.v[a] * 3 + k & LIMIT, state.v[a])

    return [
        f"for k in range({turns}):",
        f"    if k < v{b} % 7:",
        f"        v{a} = (v{a} * 3 + k) & {LIMIT}",
    ], effect


def exchange(r: random.Random, a: int, b: int) -> tuple[list[str], Effect]:
    step = r.randrange(100)

    def effect(state: State) -> None:
        state.v[a] = np.roll(state.v[b], -step, axis=1)

    return [
        f"part[t] = v{b}",
        "cuda.syncthreads()",
        f"v{a} = part[(t + {step}) % n]",
        "cuda.syncthreads()",
    ], effect


def sum_of_block(r: random.Random, a: int, b: int) -> tuple[list[str], Effect]:
    name = r.choice(("add", "max"))

    def effect(state: State) -> None:
        found = state.v[b].sum(1) if name == "add" else state.v[b].max(1)
        state.v[a] = np.zeros_like(state.v[a]) + found[:, None] & LIMIT

    return [
        "if t == 0:",
        "    part[0] = 0",
        "cuda.syncthreads()",
        f"cuda.atomic.{name}(part, 0, v{b})",
        "cuda.syncthreads()",
        f"v{a} = part[0] & {LIMIT}",
        "cuda.syncthreads()",
    ], effect


def count(r: random.Random, a: int, b: int) -> tuple[list[str], Effect]:
    name, least = r.choice(("count", "and", "or")), r.randrange(LIMIT)

    def effect(state: State) -> None:
        holds = state.v[b] >= least
        found = {"count": holds.sum(1), "and": holds.all(1), "or": holds.any(1)}[name]
        state.v[a] = state.v[a] + (found if name == "count" else found != 0)[:, None] & LIMIT

    test = f"cuda.syncthreads_{name}(np.int32(v{b} >= {least}))"
    value = test if name == "count" else f"(1 if {test} else 0)"
    return [f"v{a} = (v{a} + {value}) & {LIMIT}"], effect


def shuffle(r: random.Random, a: int, b: int) -> tuple[list[str], Effect]:
    name, operand = r.choice(("shfl_up", "shfl_down", "shfl_xor", "shfl")), r.randrange(1, 16)

    def of_warp(values: np.ndarray) -> np.ndarray:
        lane, lanes = np.arange(values.shape[1]), values.shape[1]
        source = {
            "shfl_up": lane - operand, "shfl_down": lane + operand, "shfl_xor": lane ^ operand,
            "shfl": np.full(lanes, operand),
        }[name]  # fmt: skip
        found: np.ndarray = values[:, np.where((source >= 0) & (source < lanes), source, lane)]
        return found

    def effect(state: State) -> None:
        state.v[a] = state.of_warps(of_warp, state.v[b])

    return [f"v{a} = cuda.{name}_sync({ALL}, v{b}, {operand})"], effect


def vote(r: random.Random, a: int, b: int) -> tuple[list[str], Effect]:
    name, least = r.choice(("ballot", "any", "all")), r.randrange(LIMIT)

    def of_warp(values: np.ndarray) -> np.ndarray:
        holds = values >= least
        if name == "ballot":
            bits = (holds << np.arange(holds.shape[1])).sum(1)
            return np.asarray(bits & LIMIT)[:, None]
        return (holds.any(1) if name == "any" else holds.all(1))[:, None].astype(np.int64)

    def effect(state: State) -> None:
        state.v[a] = state.v[a] + state.of_warps(of_warp, state.v[b]) & LIMIT

    test = f"cuda.{name}_sync({ALL}, v{b} >= {least})"
    value = f"(np.int64({test}) & {LIMIT})" if name == "ballot" else f"(1 if {test} else 0)"
    return [f"v{a} = (v{a} + {value}) & {LIMIT}"], effect


def total(r: random.Random, a: int, b: int) -> tuple[list[str], Effect]:
    name, at, some = r.choice(("add", "max", "xor")), r.randrange(TOTALS), r.randrange(1, 5)

    def effect(state: State) -> None:
        values = state.v[a][state.v[b] % some == 0]
        old = state.totals[at]
        state.totals[at] = {
            "add": old + values.sum(), "max": max(old, values.max(initial=0)),
            "xor": old ^ np.bitwise_xor.reduce(values, initial=0),
        }[name]  # fmt: skip

    return [f"if v{b} % {some} == 0:", f"    cuda.atomic.{name}(totals, {at}, v{a})"], effect


STEPS = (arithmetic, branch, loop, exchange, sum_of_block, count, shuffle, vote, total)

HEAD = """
@cuda.jit
def kernel(given, out, totals):
    part = cuda.shared.array(128, np.int64)
    t = cuda.threadIdx.x + cuda.blockDim.x * (cuda.threadIdx.y + cuda.blockDim.y * cuda.threadIdx.z)
    n = cuda.blockDim.x * cuda.blockDim.y * cuda.blockDim.z
    v0 = given[cuda.blockIdx.x, t]
    v1 = (v0 * 7 + 3) & {limit}
    v2 = np.int64(0)
    {body}
    out[cuda.blockIdx.x, t, 0] = v0
    out[cuda.blockIdx.x, t, 1] = v1
    out[cuda.blockIdx.x, t, 2] = v2
"""


#: By seed, of what the kernel wrote.
digests: dict[int, str] = {}


def check(seed: int) -> str | None:
    """Empty, or the text of a kernel whose result is not NumPy's; None: a GPU's is not defined."""
    r = random.Random(seed)
    shape, blocks = r.choice(SHAPES), r.randrange(1, 5)
    lines: list[str] = []
    effects: list[Effect] = []
    kinds = {}  # of totals: a word is added to, or a greatest one is looked for, not both
    while len(effects) < 12:
        step = r.choice(STEPS)
        text, effect = step(r, *r.sample(range(3), 2))
        if (
            step is total
            and kinds.setdefault(text[1].split(",")[1], text[1].split("(")[0])
            != (text[1].split("(")[0])
        ):
            continue
        lines += text
        effects.append(effect)
    threads = int(np.prod(shape))
    if not SIM and threads % 32 and any("shfl" in line for line in lines):
        return None
    source = HEAD.format(limit=LIMIT, body="\n    ".join(lines))
    names: dict = {"cuda": cuda, "np": np}
    exec(source, names)

    given = np.random.default_rng(seed).integers(0, LIMIT, (blocks, threads))
    out, totals = np.zeros((*given.shape, 3), np.int64), np.zeros(TOTALS, np.int64)
    names["kernel"][blocks, shape](given, out, totals)
    digests[seed] = sha256(out.tobytes() + totals.tobytes()).hexdigest()
    state = State(given)
    for effect in effects:
        effect(state)
    same = (out == np.stack(state.v, axis=2)).all() and (totals == state.totals).all()
    return "" if same else f"seed {seed}, {blocks} blocks of {shape} threads:{source}"


def main() -> None:
    first, how_many = map(int, sys.argv[1:3])
    found = [check(seed) for seed in range(first, first + how_many)]
    wrong, run = list(filter(None, found)), how_many - found.count(None)
    print(*wrong[:3], sep="\n")
    for file in sys.argv[3:]:
        Path(file).write_text("".join(f"{seed} {one}\n" for seed, one in digests.items()))
    print(len(wrong), "of", run, "differ")


if __name__ == "__main__":
    main()
