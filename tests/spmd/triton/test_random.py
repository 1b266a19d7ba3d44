# SPDX-License-Identifier: BSD-3-Clause
"""Random mixes of operations, against a plain replay of what every PE did."""

from __future__ import annotations

import os

import numpy as np
import pytest
import triton
import triton.language as tl

import pyshmem
import pyshmem.triton as shmem

WIDTH, STEPS, TILE = 32, 20, 8
KINDS = (
    "store", "put", "add", "or", "xor", "min", "max", "xchg", "cas", "load", "get", "chunk", "fetch",
    "sub",
)  # fmt: skip


@triton.jit
def mix(words, source, log, table, steps, ctx, WIDTH: tl.constexpr, TILE: tl.constexpr):
    """A PE changes its own row of words on any PE, so that the order of its steps is all there is."""
    row = words + shmem.my_pe(ctx) * WIDTH
    lanes = tl.arange(0, TILE)
    for step in range(steps):
        kind, pe = tl.load(table + 5 * step), tl.load(table + 5 * step + 1).to(tl.int32)
        at, value = tl.load(table + 5 * step + 2), tl.load(table + 5 * step + 3)
        inside = lanes < tl.load(table + 5 * step + 4)
        place, result = row + at + lanes, log + step * TILE + lanes
        if kind == 0:
            shmem.store(place, value + lanes, pe, ctx, mask=inside)
        elif kind == 1:
            shmem.put(place, source + at + lanes, pe, ctx, mask=inside)
        elif kind == 2:
            tl.store(result, shmem.atomic_add(place, value, pe, ctx, mask=inside), mask=inside)
        elif kind == 3:
            tl.store(result, shmem.atomic_or(place, value, pe, ctx, mask=inside), mask=inside)
        elif kind == 4:
            tl.store(result, shmem.atomic_xor(place, value, pe, ctx, mask=inside), mask=inside)
        elif kind == 5:
            tl.store(result, shmem.atomic_min(place, value, pe, ctx, mask=inside), mask=inside)
        elif kind == 6:
            tl.store(result, shmem.atomic_max(place, value, pe, ctx, mask=inside), mask=inside)
        elif kind == 7:
            tl.store(result, shmem.atomic_xchg(place, value, pe, ctx, mask=inside), mask=inside)
        elif kind == 8:
            tl.store(log + step * TILE, shmem.atomic_cas(row + at, 0, value, pe, ctx))
        elif kind == 9:
            tl.store(result, shmem.load(place, pe, ctx, mask=inside, other=0), mask=inside)
        elif kind == 10:
            shmem.get(result, place, pe, ctx, mask=inside)
        elif kind == 11:
            shmem.put_chunk(row + at, source + at, TILE, pe, ctx)
        elif kind == 12:
            tl.store(log + step * TILE, shmem.load(row + at, pe, ctx))
        else:
            tl.store(result, shmem.atomic_sub(place, value, pe, ctx, mask=inside), mask=inside)
        shmem.quiet(ctx)  # one step behind the other


def replay(words, source, steps):
    """What a PE's row is on all PEs, and the log, after its steps."""
    log = np.zeros((len(steps), TILE), np.int64)
    for step, (kind, pe, at, value, count) in enumerate(steps):
        name, part = KINDS[kind], slice(at, at + count)
        old = words[pe, part].copy()
        change = {
            "add": old + value, "sub": old - value, "or": old | value, "xor": old ^ value,
            "min": np.minimum(old, value), "max": np.maximum(old, value),
            "xchg": np.full_like(old, value),
        }  # fmt: skip
        if name == "store":
            words[pe, part] = value + np.arange(count)
        elif name == "put":
            words[pe, part] = source[part]
        elif name in change:
            log[step, :count], words[pe, part] = old, change[name]
        elif name == "cas":
            log[step, 0] = words[pe, at]
            words[pe, at] = value if words[pe, at] == 0 else words[pe, at]
        elif name in ("load", "get"):
            log[step, :count] = old
        elif name == "chunk":
            words[pe, at : at + TILE] = source[at : at + TILE]
        else:
            log[step, 0] = words[pe, at]
    return log


NEAR = os.environ.get("PYSHMEM_P2P", "1") != "0"
#: As many as there is time for; TRITON_MIXES=1000 takes minutes.
MIXES = int(os.environ.get("TRITON_MIXES") or (8 if NEAR else 6))


@pytest.mark.parametrize("seed", range(MIXES))
def test_a_mix_does_what_its_steps_do_in_turn(job, place, show, ctx, seed):
    n = job.n_pes
    rng = np.random.default_rng(seed)
    limits = (len(KINDS), n, WIDTH - TILE, 1000, TILE)
    tables = np.stack([rng.integers(0, limit, (n, STEPS)) for limit in limits], axis=2)
    tables[:, :, 4] += 1
    sources = rng.integers(0, 1000, (n, WIDTH))
    words, log = place(np.zeros((n, WIDTH), np.int64)), place(np.zeros((STEPS, TILE), np.int64))
    source, table = place(sources[job.my_pe]), place(tables[job.my_pe])
    pyshmem.barrier_all()
    mix[(1,)](words, source, log, table, STEPS, ctx, WIDTH=WIDTH, TILE=TILE)
    got = show(log)
    pyshmem.barrier_all()
    rows = np.zeros((n, n, WIDTH), np.int64)  # by owner, by PE
    logs = [replay(rows[owner], sources[owner], tables[owner].tolist()) for owner in range(n)]
    assert (got == logs[job.my_pe]).all()
    assert (show(words) == rows[:, job.my_pe]).all()
