# SPDX-License-Identifier: BSD-3-Clause
"""Whole programs as users of Triton-distributed write them, with the import changed."""

from __future__ import annotations

import os

import numpy as np
import pytest
import triton.language as tl
from dist_values import tensor, torch, values

import pyshmem.interop.triton_dist as triton_dist
import pyshmem.interop.triton_dist.language as dl
from pyshmem.interop.triton_dist import utils
from pyshmem.interop.triton_dist.language.extra import libshmem_device
from pyshmem.interop.triton_dist.language.extra.language_extra import __syncthreads

NEAR = os.environ.get("PYSHMEM_P2P", "1") != "0"
near_only = pytest.mark.skipif(not NEAR, reason="a pointer of a peer is all that such kernels have")
DTYPES = ("int8", "bfloat16") if torch else ("int8", "float16")


@pytest.fixture(scope="module")
def group(job):
    yield utils.initialize_distributed()
    utils.finalize_distributed()


# -- notify and wait --------------------------------------------------------------------------------


@triton_dist.jit
def queue_kernel(
    rank: tl.constexpr, num_ranks: tl.constexpr, source, dest, num_inputs: int, queue, signal,
    SIZE: tl.constexpr, B: tl.constexpr, PRODUCERS: tl.constexpr, CONSUMERS: tl.constexpr,
):  # fmt: skip
    pid, offs = tl.program_id(0), tl.arange(0, B)
    if pid < PRODUCERS:
        peer = (rank + 1) % num_ranks
        for i in range(pid, num_inputs, PRODUCERS):
            place, turn = i % SIZE, i // SIZE
            token = dl.wait(
                dl.symm_at(signal, peer) + place, 1, "sys", "acquire", waitValue=turn * 2
            )
            source = dl.consume_token(source, token)
            data = tl.load(source + i * B + offs)
            tl.store(dl.symm_at(queue, peer) + place * B + offs, data)
            __syncthreads()
            dl.notify(
                signal + place, peer, signal=turn * 2 + 1, sig_op="set", comm_scope="intra_node"
            )
    elif pid < PRODUCERS + CONSUMERS:
        for i in range(pid - PRODUCERS, num_inputs, CONSUMERS):
            place, turn = i % SIZE, i // SIZE
            token = dl.wait(signal + place, 1, "sys", "acquire", waitValue=turn * 2 + 1)
            queue = dl.consume_token(queue, token)
            tl.store(dest + i * B + offs, tl.load(queue + place * B + offs))
            __syncthreads()
            dl.notify(signal + place, rank, signal=turn * 2 + 2, sig_op="set", comm_scope="gpu")


@near_only
def test_a_queue_of_producers_and_consumers(group):
    rank, ranks, inputs, block = group.rank(), group.size(), 7, 16
    source = tensor(np.arange(inputs * block, dtype=np.float32) + 1000 * rank)
    dest = tensor(np.zeros(inputs * block, np.float32))
    queue, signal = tensor(np.full(3 * block, -1, np.float32)), tensor(np.zeros(3, np.int64))
    for _ in range(2):
        if torch:
            signal.fill_(0)
        else:
            signal.array[...] = 0
        utils.nvshmem_barrier_all_on_stream()
        queue_kernel[(4,)](rank, ranks, source, dest, inputs, queue, signal, 3, block, 2, 2)
        left = (rank - 1) % ranks
        assert (values(dest) == np.arange(inputs * block) + 1000 * left).all()
        utils.nvshmem_barrier_all_on_stream()


@triton_dist.jit
def all_gather_push(symm, counts, n, B: tl.constexpr):
    """A program a peer stores the own part there, and counts."""
    me, ranks = dl.rank(), dl.num_ranks()
    peer = (me + tl.program_id(0)) % ranks
    for first in range(0, n, B):
        offs = first + tl.arange(0, B)
        tile = tl.load(symm + me * n + offs, mask=offs < n)
        tl.store(dl.symm_at(symm, peer) + me * n + offs, tile, mask=offs < n)
    dl.notify(counts, peer, signal=1, sig_op="add", comm_scope="intra_node")
    if tl.program_id(0) == 0:
        dl.wait(counts, 1, "sys", "acquire", waitValue=ranks)


@near_only
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("block", [4, 32])
def test_all_gather_by_stores(group, dtype, block):
    n, ranks, rank = 20, group.size(), group.rank()
    given = np.zeros((ranks, n), np.float32)
    given[rank] = rank + 1
    symm, counts = tensor(given, dtype), tensor(np.zeros(1, np.int32))
    all_gather_push[(ranks,)](symm, counts, n, B=block)
    assert (values(symm) == np.arange(1, ranks + 1)[:, None]).all()
    assert values(counts).tolist() == [ranks]


@triton_dist.jit
def one_shot_all_reduce(symm, out, flags, n, B: tl.constexpr):
    me, ranks = dl.rank(), dl.num_ranks()
    pid = tl.program_id(0)
    for peer in range(ranks):
        dl.notify(flags + pid * ranks + me, peer, signal=1, sig_op="set")
    token = dl.wait(flags + pid * ranks, ranks, "sys", "acquire")
    symm = dl.consume_token(symm, token)
    offs = pid * B + tl.arange(0, B)
    total = tl.zeros([B], tl.float32)
    for peer in range(ranks):
        total += tl.load(dl.symm_at(symm, peer) + offs, mask=offs < n, other=0).to(tl.float32)
    tl.store(out + offs, total.to(out.dtype.element_ty), mask=offs < n)


@near_only
@pytest.mark.parametrize("dtype", DTYPES)
def test_one_shot_all_reduce(group, dtype):
    n, ranks, rank = 40, group.size(), group.rank()
    symm, out = tensor(np.full(n, rank + 1, np.float32), dtype), tensor(np.zeros(n, np.float32))
    flags = tensor(np.zeros(3 * ranks, np.int64))
    one_shot_all_reduce[(3,)](symm, out, flags, n, B=16)
    assert (values(out) == ranks * (ranks + 1) / 2).all()
    utils.nvshmem_barrier_all_on_stream()


# -- libshmem_device --------------------------------------------------------------------------------


@triton_dist.jit
def put_signal_gather(symm, signal, nelems, size, target, rank, ranks, BLOCKS: tl.constexpr):
    pid = tl.program_id(axis=0)
    if pid < BLOCKS:
        peer = (rank + pid + 1) % ranks
        libshmem_device.putmem_signal_block(
            symm + rank * nelems, symm + rank * nelems, nelems * size, signal + rank, target,
            libshmem_device.NVSHMEM_SIGNAL_SET, peer,
        )  # fmt: skip
    libshmem_device.signal_wait_until(signal + pid, libshmem_device.NVSHMEM_CMP_EQ, target)


def test_all_gather_by_puts_with_signals(group):
    n, ranks, rank = 12, group.size(), group.rank()
    given = np.zeros((ranks, n), np.float32)
    given[rank] = rank + 1
    symm, signal = tensor(given), tensor(np.zeros(ranks, np.int64))
    put_signal_gather[(ranks,)](symm, signal, n, 4, 1, rank, ranks, BLOCKS=ranks)
    assert (values(symm) == np.arange(1, ranks + 1)[:, None]).all()


@triton_dist.jit
def all_names(words, data, got, parts, spread, n, RANKS: tl.constexpr):
    """One of each kind, by names of all scopes."""
    me, ranks = libshmem_device.my_pe(), libshmem_device.n_pes()
    right = (me + 1) % ranks
    libshmem_device.int_p(words + me, me + 1, right)
    libshmem_device.putmem_nbi_warp(data + n, data, 4 * n, right)
    libshmem_device.quiet()
    libshmem_device.barrier_all()
    libshmem_device.getmem_nbi_block(got, data, 4 * n, right)
    libshmem_device.getmem_wave(got + n, data + n, 4 * n, right)
    libshmem_device.fence()
    libshmem_device.fcollect(libshmem_device.NVSHMEM_TEAM_WORLD, parts, data, n)
    libshmem_device.broadcast_warp(libshmem_device.NVSHMEM_TEAM_WORLD, spread, data, n, ranks - 1)
    libshmem_device.broadcastmem(libshmem_device.NVSHMEMX_TEAM_NODE, spread + n, data, 4 * n, 0)
    world = libshmem_device.NVSHMEM_TEAM_WORLD
    tl.store(words + RANKS, libshmem_device.team_my_pe(world))
    tl.store(words + RANKS + 1, libshmem_device.team_n_pes(world))
    tl.store(words + RANKS + 2, libshmem_device.team_translate_pe(world, right, world))
    libshmem_device.sync_all()
    libshmem_device.barrier(world)
    libshmem_device.team_sync_block(world)


def test_functions_of_shmem_by_names_of_all_scopes(group):
    n, ranks, rank = 6, group.size(), group.rank()
    left, right = (rank - 1) % ranks, (rank + 1) % ranks
    words = tensor(np.zeros(ranks + 3, np.int32))
    data = tensor(np.concatenate([np.arange(n) + 10 * rank, np.zeros(n)]).astype(np.float32))
    got, spread = tensor(np.zeros(2 * n, np.float32)), tensor(np.zeros(2 * n, np.float32))
    parts = tensor(np.zeros(ranks * n, np.float32))
    all_names[(1,)](words, data, got, parts, spread, n, RANKS=ranks)
    own = [np.arange(n) + 10 * pe for pe in range(ranks)]
    expected = np.zeros(ranks + 3)
    expected[left], expected[ranks:] = left + 1, (rank, ranks, right)
    assert values(words).tolist() == expected.tolist()
    assert (values(data) == np.concatenate([own[rank], own[left]])).all()
    assert (values(got) == np.concatenate([own[right], own[rank]])).all()
    assert (values(parts) == np.concatenate(own)).all()
    assert (values(spread) == np.concatenate([own[-1], own[0]])).all()


@triton_dist.jit
def broadcast_from(data, root):
    libshmem_device.broadcast(libshmem_device.NVSHMEM_TEAM_WORLD, data, data, 1, root)


def test_a_broadcast_from_no_member_is_a_fault(group, fault):
    data = tensor(np.zeros(1, np.float32))
    for root in (-1, group.size()):
        message = fault(lambda root=root: broadcast_from[(1,)](data, root))
        assert f"pe {root} is not one of the {group.size()} PEs" in message


@triton_dist.jit
def spread_bools(all_of, data, n):
    libshmem_device.fcollect(libshmem_device.NVSHMEM_TEAM_WORLD, all_of, data, n)
    libshmem_device.broadcast(libshmem_device.NVSHMEM_TEAM_WORLD, data, data, n, 0)


def test_bools_are_spread(group, place, show):
    n, ranks, rank = 4, group.size(), group.rank()
    data, all_of = place(np.arange(n) % 3 == rank), place(np.zeros(n * ranks, bool))
    spread_bools[(1,)](all_of, data, n)
    assert (show(data) == (np.arange(n) % 3 == 0)).all()
    assert (show(all_of).reshape(ranks, n) == (np.arange(n) % 3 == np.arange(ranks)[:, None])).all()


@triton_dist.jit
def all_to_all(sent, received, splits, signal, CAPACITY: tl.constexpr, H: tl.constexpr):
    """Rows of tokens to each rank, and how many: a program a peer."""
    me, ranks = dl.rank(), dl.num_ranks()
    peer = tl.program_id(0)
    rows = tl.load(splits + peer)
    libshmem_device.putmem_nbi_block(
        received + me * CAPACITY * H, sent + peer * CAPACITY * H, rows * H * 4, peer
    )
    libshmem_device.fence()
    libshmem_device.signal_op(signal + me, rows + 1, libshmem_device.NVSHMEM_SIGNAL_SET, peer)
    came = libshmem_device.signal_wait_until(signal + peer, libshmem_device.NVSHMEM_CMP_GE, 1)
    tl.store(splits + ranks + peer, (came - 1).to(tl.int32))


def test_low_latency_all_to_all(group):
    capacity, h, ranks, rank = 3, 4, group.size(), group.rank()
    counts = np.array([(rank + pe) % capacity + 1 for pe in range(ranks)], np.int32)
    rows = np.full((ranks, capacity, h), rank + 1) + 10 * np.arange(ranks)[:, None, None]
    sent = tensor(rows.astype(np.float32))
    received = tensor(np.zeros((ranks, capacity, h), np.float32))
    splits = tensor(np.concatenate([counts, np.zeros(ranks, np.int32)]))
    signal = tensor(np.zeros(ranks, np.int64))
    all_to_all[(ranks,)](sent, received, splits, signal, CAPACITY=capacity, H=h)
    got = values(received)
    for pe in range(ranks):
        rows = (rank + pe) % capacity + 1
        assert values(splits)[ranks + pe] == rows
        assert (got[pe, :rows] == pe + 1 + 10 * rank).all()
        assert (got[pe, rows:] == 0).all()


# -- products of matrices ---------------------------------------------------------------------------


@triton_dist.jit
def gemm_tile(a, b, m, n, K, N, B: tl.constexpr):
    acc = tl.zeros([B, B], tl.float32)
    for k in range(0, K, B):
        ks = k + tl.arange(0, B)
        left = tl.load(a + m[:, None] * K + ks[None, :])
        acc += tl.dot(left, tl.load(b + ks[:, None] * N + n[None, :]))
    return acc


@triton_dist.jit
def ag_gemm(
    gathered, b, c, ready, M, N, K, rank: tl.constexpr, ranks: tl.constexpr, B: tl.constexpr
):
    """Rows of all ranks times b: each tile waits for the rows it needs, the own ones come first."""
    high, wide = M // B, N // B
    for tile in range(tl.program_id(0), high * ranks * wide, tl.num_programs(0)):
        row = (tile // wide + rank * high) % (high * ranks)
        token = dl.wait(ready + row // high, 1, "gpu", "acquire")
        gathered = dl.consume_token(gathered, token)
        m, n = row * B + tl.arange(0, B), tile % wide * B + tl.arange(0, B)
        tl.store(c + m[:, None] * N + n[None, :], gemm_tile(gathered, b, m, n, K, N, B))


@triton_dist.jit
def send_rows(gathered, ready, nelems, rank: tl.constexpr, ranks: tl.constexpr):
    peer = (rank + tl.program_id(0)) % ranks
    mine = gathered + rank * nelems
    libshmem_device.putmem_signal_nbi_block(
        mine, mine, nelems * 4, ready + rank, 1, libshmem_device.NVSHMEM_SIGNAL_SET, peer
    )


@near_only
def test_all_gather_and_gemm(group):
    m, n, k, block, ranks, rank = 16, 32, 16, 16, group.size(), group.rank()
    rng = np.random.default_rng(5)
    rows = rng.integers(-2, 3, (ranks * m, k)).astype(np.float32)
    right = rng.integers(-2, 3, (k, n)).astype(np.float32)
    given = np.zeros_like(rows)
    given[rank * m :][:m] = rows[rank * m :][:m]
    gathered, b = tensor(given), tensor(right)
    c, ready = tensor(np.zeros((ranks * m, n), np.float32)), tensor(np.zeros(ranks, np.int64))
    send_rows[(ranks,)](gathered, ready, m * k, rank, ranks)
    ag_gemm[(2,)](gathered, b, c, ready, m, n, k, rank, ranks, B=block)
    assert (values(c) == rows @ right).all()


@triton_dist.jit
def gemm_rs(
    a, b, parts, out, arrived, M, N, K, rank: tl.constexpr, ranks: tl.constexpr, B: tl.constexpr
):
    """Tiles go to the rank whose rows they are, which adds them up when all have come."""
    high, wide = M // ranks // B, N // B
    for tile in range(tl.program_id(0), high * ranks * wide, tl.num_programs(0)):
        row = (tile // wide + (rank + 1) * high) % (high * ranks)
        m, n = row * B + tl.arange(0, B), tile % wide * B + tl.arange(0, B)
        owner, own_m = row // high, m % (high * B)
        place = dl.symm_at(parts, owner) + rank * (high * B * N)
        tl.store(place + own_m[:, None] * N + n[None, :], gemm_tile(a, b, m, n, K, N, B))
        dl.notify(arrived, owner, signal=1, sig_op="add", comm_scope="intra_node")
    dl.wait(arrived, 1, "sys", "acquire", waitValue=ranks * high * wide)
    for tile in range(tl.program_id(0), high * wide, tl.num_programs(0)):
        m, n = tile // wide * B + tl.arange(0, B), tile % wide * B + tl.arange(0, B)
        total = tl.zeros([B, B], tl.float32)
        for peer in range(ranks):
            total += tl.load(parts + peer * (high * B * N) + m[:, None] * N + n[None, :])
        tl.store(out + m[:, None] * N + n[None, :], total)


@near_only
def test_gemm_and_reduce_scatter(group):
    block, ranks, rank = 16, group.size(), group.rank()
    m, n, k = block * ranks, 32, 16
    rng = np.random.default_rng(6)
    left = rng.integers(-2, 3, (ranks, m, k)).astype(np.float32)
    right = rng.integers(-2, 3, (ranks, k, n)).astype(np.float32)
    a, b = tensor(left[rank]), tensor(right[rank])
    parts = tensor(np.zeros((ranks, block, n), np.float32))
    out, arrived = tensor(np.zeros((block, n), np.float32)), tensor(np.zeros(1, np.int32))
    gemm_rs[(2,)](a, b, parts, out, arrived, m, n, k, rank, ranks, B=block)
    whole = sum(left[pe] @ right[pe] for pe in range(ranks))
    assert (values(out) == whole[rank * block :][:block]).all()
