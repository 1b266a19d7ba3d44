# SPDX-License-Identifier: BSD-3-Clause
"""Whole programs as users of Iris write them, with the import changed; arrays are NumPy's or torch's."""

from __future__ import annotations

import os

import numpy as np
import pytest
import triton
import triton.language as tl
from iris_values import dtype_of, matrices, on_heap, torch, values

from pyshmem.interop import iris
from pyshmem.interop.iris import DeviceContext

NEAR = os.environ.get("PYSHMEM_P2P", "1") != "0"
DTYPES = ("int8", "bfloat16") if torch else ("int8", "float16")


@pytest.fixture(scope="module")
def ctx(job):
    return iris.iris(1 << 26)


# -- operations of tiles, by functions and by the context's methods ---------------------------------


@triton.jit
def through_context(
    context, data, results, counts, here: tl.constexpr, ranks: tl.constexpr, B: tl.constexpr
):
    ctx = DeviceContext.initialize(context, here, ranks)
    offs = tl.arange(0, B)
    mask = offs < B - 1
    partner = (here + 1) % ranks
    tile = ctx.load(data + offs, from_rank=partner, mask=mask, cache_modifier=".cg")
    ctx.store(results + here * B + offs, tile, to_rank=partner, mask=mask, cache_modifier=".wt")
    ctx.get(data + offs, results + (ranks + here) * B + offs, from_rank=partner, mask=mask)
    ctx.put(data + offs, results + (2 * ranks + here) * B + offs, to_rank=partner, mask=mask)
    ctx.copy(data + offs, results + (3 * ranks + here) * B + offs, partner, here, mask=mask)
    for there in range(ranks):
        ctx.atomic_add(counts + offs, 3, to_rank=there, mask=mask, sem="relaxed", scope="sys")
        ctx.atomic_sub(counts + offs, 1, to_rank=there, mask=mask)
        ctx.atomic_or(counts + B + offs, 1 << here, there)
        ctx.atomic_xor(counts + 2 * B + offs, 1 << here, there)
        ctx.atomic_and(counts + 3 * B + offs, 6, there)
        ctx.atomic_min(counts + 4 * B + offs, -here, there)
        ctx.atomic_max(counts + 5 * B + offs, here, there)
    old = ctx.atomic_xchg(counts + 6 * B + offs, 9, here)
    ctx.atomic_cas(counts + 6 * B + offs, 9 + old, 8, here, sem="acq_rel", scope="sys")


@pytest.mark.parametrize("dtype", DTYPES)
def test_all_operations_by_the_context_of_a_kernel(ctx, dtype):
    block, ranks, rank = 8, ctx.get_num_ranks(), ctx.get_rank()
    data = ctx.full((block,), rank + 1, dtype=dtype_of(dtype))
    results = ctx.zeros(4 * ranks, block, dtype=dtype_of(dtype))
    counts = ctx.zeros((7, block), dtype=dtype_of("int32"))
    counts[3] = 7
    ctx.barrier()
    context = ctx.get_device_context()
    assert [int(word) for word in context[:2]] == [rank, ranks]
    through_context[(1,)](context, data, results, counts, rank, ranks, block)
    ctx.barrier()
    left, right = (rank - 1) % ranks, (rank + 1) % ranks
    got = values(results)
    for row, expected in (
        (left, (left + 1) % ranks + 1), (ranks + rank, right + 1), (2 * ranks + left, left + 1),
        (3 * ranks + rank, right + 1),
    ):  # fmt: skip
        assert (got[row, : block - 1] == expected).all()
        assert got[row, block - 1] == 0
    bits, rows = 2**ranks - 1, values(counts)
    assert rows[0].tolist() == [2 * ranks] * (block - 1) + [0]
    assert [int(row[0]) for row in rows[1:]] == [bits, bits, 6, 1 - ranks, ranks - 1, 8]
    assert (rows[1:] == rows[1:, :1]).all()


@triton.jit
def all_load(data, results, n, here: tl.constexpr, ranks: tl.constexpr, B: tl.constexpr, bases):
    for block in range(tl.program_id(0), tl.cdiv(n, B), tl.num_programs(0)):
        offs = block * B + tl.arange(0, B)
        mask = offs < n
        total = tl.zeros([B], tl.float32)
        for there in tl.static_range(ranks):
            part = iris.load(data + offs, here, there, bases, mask=mask, other=0, volatile=True)
            total += part.to(tl.float32)
        tl.store(results + offs, total.to(results.dtype.element_ty), mask=mask)


@triton.jit
def all_store(data, results, n, here: tl.constexpr, ranks: tl.constexpr, B: tl.constexpr, bases):
    for block in range(tl.program_id(0), tl.cdiv(n, B), tl.num_programs(0)):
        offs = block * B + tl.arange(0, B)
        tile = tl.load(data + offs, mask=offs < n)
        for there in tl.static_range(ranks):
            iris.store(results + here * n + offs, tile, here, there, bases, mask=offs < n)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("block", [4, 32] if NEAR else [32])
def test_everybody_loads_from_and_stores_to_all(ctx, dtype, block):
    n, ranks, rank = 50, ctx.get_num_ranks(), ctx.get_rank()
    data = ctx.full(n, rank + 1, dtype=dtype_of(dtype), device="cuda")
    total, all_of = ctx.zeros_like(data), ctx.zeros((ranks, n), dtype=dtype_of(dtype))
    bases = ctx.get_heap_bases()
    ctx.barrier()
    all_load[(2,)](data, total, n, rank, ranks, block, bases)
    all_store[(2,)](data, all_of, n, rank, ranks, block, bases)
    ctx.barrier()
    assert (values(total) == ranks * (ranks + 1) / 2).all()
    assert (values(all_of) == np.arange(1, ranks + 1)[:, None]).all()


# -- messages with locks ----------------------------------------------------------------------------


@triton.jit
def send_by_put(
    source, target, flags, n, here: tl.constexpr, there: tl.constexpr, B: tl.constexpr, bases
):
    pid = tl.program_id(0)
    offs = pid * B + tl.arange(0, B)
    iris.put(source + offs, target + offs, here, there, bases, mask=offs < n)
    iris.atomic_xchg(flags + pid, 1, here, there, bases, sem="release", scope="sys")


@triton.jit
def take(buffer, flags, n, here: tl.constexpr, B: tl.constexpr, bases):
    pid = tl.program_id(0)
    offs = pid * B + tl.arange(0, B)
    while tl.atomic_cas(flags + pid, 1, 0, sem="acquire", scope="sys") != 1:
        pass
    tile = iris.load(buffer + offs, here, here, bases, mask=offs < n)
    iris.store(buffer + offs, tile * 2, here, here, bases, mask=offs < n)


def test_messages_by_put_and_a_lock_a_tile(ctx):
    n, block, rank, ranks = 90, 32, ctx.get_rank(), ctx.get_num_ranks()
    source, target = ctx.arange(n, dtype=dtype_of("float32")), ctx.zeros(n)
    flags, grid = ctx.zeros((3,), dtype=dtype_of("int32")), (triton.cdiv(n, block),)
    bases, right = ctx.get_heap_bases(), (rank + 1) % ranks
    for turn in range(1, 3):
        send_by_put[grid](source, target, flags, n, rank, right, block, bases)
        take[grid](target, flags, n, rank, block, bases)
        ctx.barrier()
        assert (values(target) == 2 * np.arange(n)).all(), turn
        assert (values(flags) == 0).all()
        ctx.barrier()  # before the neighbour sends again


# -- products of matrices ---------------------------------------------------------------------------


@triton.jit
def tile_of(a, b, m, n, K, lda, ldb, B: tl.constexpr):
    acc = tl.zeros([B, B], tl.float32)
    for k in range(0, K, B):
        ks = k + tl.arange(0, B)
        left = tl.load(a + m[:, None] * lda + ks[None, :])
        acc += tl.dot(left, tl.load(b + ks[:, None] * ldb + n[None, :]))
    return acc


@triton.jit
def gemm_all_scatter(
    a, b, c, M, N, K, here: tl.constexpr, ranks: tl.constexpr, bases, B: tl.constexpr
):
    """The columns of B are split; each tile goes to everybody as it is computed."""
    for tile in range(tl.program_id(0), (M // B) * (N // B), tl.num_programs(0)):
        m, n = tile // (N // B) * B + tl.arange(0, B), tile % (N // B) * B + tl.arange(0, B)
        acc = tile_of(a, b, m, n, K, K, N, B)
        place = c + m[:, None] * (N * ranks) + here * N + n[None, :]
        for there in range(ranks):
            iris.store(place, acc, here, there, bases)


@triton.jit
def gemm_alone(a, b, c, locks, M, N, K, B: tl.constexpr):
    for tile in range(tl.program_id(0), (M // B) * (N // B), tl.num_programs(0)):
        m, n = tile // (N // B) * B + tl.arange(0, B), tile % (N // B) * B + tl.arange(0, B)
        tl.store(c + m[:, None] * N + n[None, :], tile_of(a, b, m, n, K, K, N, B))
        tl.debug_barrier()
        tl.atomic_xchg(locks + tile, 1, sem="release", scope="gpu")


@triton.jit
def scatter_when_ready(
    own, c, locks, M, N, here: tl.constexpr, ranks: tl.constexpr, bases, B: tl.constexpr
):
    for tile in range(tl.program_id(0), (M // B) * (N // B), tl.num_programs(0)):
        while tl.atomic_cas(locks + tile, 1, 0, sem="acquire", scope="gpu") != 1:
            pass
        m, n = tile // (N // B) * B + tl.arange(0, B), tile % (N // B) * B + tl.arange(0, B)
        place = c + m[:, None] * (N * ranks) + here * N + n[None, :]
        for there in range(ranks):
            iris.put(own + m[:, None] * N + n[None, :], place, here, there, bases)


@triton.jit
def gemm_specialised(
    a, b, own, c, locks, M, N, K, here: tl.constexpr, ranks: tl.constexpr, bases,
    COMPUTE: tl.constexpr, B: tl.constexpr,
):  # fmt: skip
    """The first programs compute, the others scatter."""
    pid, tiles = tl.program_id(0), (M // B) * (N // B)
    if pid < COMPUTE:
        for tile in range(pid, tiles, COMPUTE):
            m, n = tile // (N // B) * B + tl.arange(0, B), tile % (N // B) * B + tl.arange(0, B)
            tl.store(own + m[:, None] * N + n[None, :], tile_of(a, b, m, n, K, K, N, B))
            tl.debug_barrier()
            tl.atomic_xchg(locks + tile, 1, sem="release", scope="gpu")
    else:
        for tile in range(pid - COMPUTE, tiles, tl.num_programs(0) - COMPUTE):
            while tl.atomic_cas(locks + tile, 1, 0, sem="acquire", scope="gpu") != 1:
                pass
            m, n = tile // (N // B) * B + tl.arange(0, B), tile % (N // B) * B + tl.arange(0, B)
            value = tl.load(own + m[:, None] * N + n[None, :])
            place = c + m[:, None] * (N * ranks) + here * N + n[None, :]
            for there in range(ranks):
                iris.store(place, value, here, there, bases)


@pytest.mark.skipif(not NEAR, reason="an element a request takes long")
def test_gemm_and_all_scatter_in_four_ways(ctx):
    m, n, k, block, ranks, rank = 32, 32, 16, 16, ctx.num_ranks, ctx.cur_rank
    left, right, product = matrices(ctx, m, n * ranks, k)
    a, b = on_heap(ctx, left), on_heap(ctx, right[:, rank * n :][:, :n].copy())
    bases, tiles = ctx.get_heap_bases(), (m // block) * (n // block)
    own, locks = ctx.zeros(m, n), ctx.zeros(tiles, dtype=dtype_of("int32"))

    def fused(c):
        gemm_all_scatter[(2,)](a, b, c, m, n, k, rank, ranks, bases, B=block)

    def bulk(c):
        gemm_alone[(2,)](a, b, own, locks, m, n, k, B=block)
        ctx.barrier()
        scatter_when_ready[(2,)](own, c, locks, m, n, rank, ranks, bases, B=block)

    def producer_consumer(c):
        gemm_alone[(2,)](a, b, own, locks, m, n, k, B=block)
        scatter_when_ready[(3,)](own, c, locks, m, n, rank, ranks, bases, B=block)

    def specialised(c):
        gemm_specialised[(3,)](a, b, own, c, locks, m, n, k, rank, ranks, bases, COMPUTE=2, B=block)

    for way in (fused, bulk, producer_consumer, specialised):
        c = ctx.zeros((m, n * ranks))
        way(c)
        ctx.barrier()
        assert (values(c) == product).all(), way.__name__


@triton.jit
def gemm_one_shot(
    a, b, part, c, locks, M, N, K, here: tl.constexpr, ranks: tl.constexpr, bases, B: tl.constexpr
):
    """K is split: when all ranks' parts of a tile are there, its owner adds them up for everybody."""
    for tile in range(tl.program_id(0), (M // B) * (N // B), tl.num_programs(0)):
        m, n = tile // (N // B) * B + tl.arange(0, B), tile % (N // B) * B + tl.arange(0, B)
        offs = m[:, None] * N + n[None, :]
        tl.store(part + offs, tile_of(a, b, m, n, K, K, N, B))
        owner = tile % ranks
        iris.atomic_add(locks + tile, 1, here, owner, bases, sem="release", scope="sys")
        if owner == here:
            while tl.atomic_cas(locks + tile, ranks, 0, sem="acquire", scope="sys") != ranks:
                pass
            total = tl.zeros([B, B], tl.float32)
            for there in range(ranks):
                total += iris.load(part + offs, here, there, bases)
            for there in range(ranks):
                iris.store(c + offs, total, here, there, bases)


@pytest.mark.skipif(not NEAR, reason="an element a request takes long")
def test_gemm_and_one_shot_all_reduce(ctx):
    m, n, k, block, ranks, rank = 32, 32, 16, 16, ctx.num_ranks, ctx.cur_rank
    left, right, product = matrices(ctx, m, n, k * ranks)
    a = on_heap(ctx, left[:, rank * k :][:, :k].copy())
    b = on_heap(ctx, right[rank * k :][:k].copy())
    part, c, locks = ctx.zeros(m, n), ctx.zeros(m, n), ctx.zeros(4, dtype=dtype_of("int32"))
    gemm_one_shot[(4,)](
        a, b, part, c, locks, m, n, k, rank, ranks, ctx.get_heap_bases(), B=block
    )  # fmt: skip
    ctx.barrier()
    assert (values(c) == product).all()


@triton.jit
def ring_all_reduce(
    data, out, ring, flags, n, here: tl.constexpr, ranks: tl.constexpr, bases, B: tl.constexpr
):
    """A tile goes around: each rank adds what the one on its left held a step ago."""
    pid = tl.program_id(0)
    offs = pid * B + tl.arange(0, B)
    mask = offs < n
    right: tl.constexpr = (here + 1) % ranks
    tile = tl.load(data + offs, mask=mask)
    total = tile
    for step in range(ranks - 1):
        iris.store(ring + step * n + offs, tile, here, right, bases, mask=mask)
        flag = flags + step * tl.num_programs(0) + pid
        iris.atomic_xchg(flag, 1, here, right, bases, sem="release", scope="sys")
        while tl.atomic_cas(flag, 1, 0, sem="acquire", scope="sys") != 1:
            pass
        tile = tl.load(ring + step * n + offs, mask=mask, volatile=True)
        total += tile
    tl.store(out + offs, total, mask=mask)


def test_ring_all_reduce(ctx):
    n, block, ranks, rank = 70, 32, ctx.num_ranks, ctx.cur_rank
    data, out = ctx.full((n,), float(rank + 1)), ctx.zeros(n)
    ring, flags = ctx.zeros(ranks * n), ctx.zeros(ranks * 3, dtype=dtype_of("int32"))
    ring_all_reduce[(3,)](
        data, out, ring, flags, n, rank, ranks, ctx.get_heap_bases(), B=block
    )  # fmt: skip
    ctx.barrier()
    assert (values(out) == ranks * (ranks + 1) / 2).all()


@triton.jit
def combine_parts(
    parts, sums, out, here: tl.constexpr, ranks: tl.constexpr, bases, D: tl.constexpr
):
    """Flash decode: each rank has softmax's parts of its keys; all combine them by loads."""
    head, offs = tl.program_id(0), tl.arange(0, D)
    most, total, value = -float("inf"), 0.0, tl.zeros([D], tl.float32)
    for there in range(ranks):
        peak = iris.load(sums + 2 * head, here, there, bases)
        weight = iris.load(sums + 2 * head + 1, here, there, bases)
        part = iris.load(parts + head * D + offs, here, there, bases)
        higher = tl.maximum(most, peak)
        old, new = tl.exp(most - higher), tl.exp(peak - higher)
        value, total, most = value * old + part * new, total * old + weight * new, higher
    tl.store(out + head * D + offs, value / total)


def test_parts_of_a_softmax_are_combined(ctx):
    heads, d, keys, ranks, rank = 3, 16, 5, ctx.num_ranks, ctx.cur_rank
    rng = np.random.default_rng(3)
    scores = rng.standard_normal((ranks, heads, keys)).astype(np.float32)
    v = rng.standard_normal((ranks, heads, keys, d)).astype(np.float32)
    peak = scores[rank].max(axis=1)
    weights = np.exp(scores[rank] - peak[:, None])
    parts = on_heap(ctx, (weights[:, :, None] * v[rank]).sum(axis=1).astype(np.float32))
    sums = on_heap(ctx, np.stack([peak, weights.sum(axis=1)], axis=1).astype(np.float32))
    out = ctx.zeros(heads, d)
    combine_parts[(heads,)](parts, sums, out, rank, ranks, ctx.get_heap_bases(), D=d)
    ctx.barrier()
    flat = np.exp(scores).transpose(1, 0, 2).reshape(heads, -1)
    expected = np.einsum("hk,hkd->hd", flat, v.transpose(1, 0, 2, 3).reshape(heads, -1, d))
    assert np.allclose(values(out), expected / flat.sum(axis=1)[:, None], atol=1e-4)
