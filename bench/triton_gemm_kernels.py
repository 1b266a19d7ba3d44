# SPDX-License-Identifier: BSD-3-Clause
"""The kernels of ``triton_gemm.py``: a product, and ways to scatter it to all PEs."""

from __future__ import annotations

import pyshmem.triton as shmem
import triton
import triton.language as tl


@triton.jit
def place_of(tile, M, N, BM: tl.constexpr, BN: tl.constexpr, GROUP: tl.constexpr):
    """Row and column of a tile; tiles of GROUP rows stay together, for the L2 cache."""
    columns, rows = tl.cdiv(N, BN), tl.cdiv(M, BM)
    first = tile // (GROUP * columns) * GROUP
    height = tl.minimum(rows - first, GROUP)
    return (first + tile % (GROUP * columns) % height) * BM, tile % (GROUP * columns) // height * BN


@triton.jit
def compute(a, b, m, n, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rows, columns = (m + tl.arange(0, BM)) % M, (n + tl.arange(0, BN)) % N
    left = a + rows[:, None] * K + tl.arange(0, BK)[None, :]
    right = b + tl.arange(0, BK)[:, None] * N + columns[None, :]
    acc = tl.zeros([BM, BN], tl.float32)
    for _ in range(0, K, BK):
        acc += tl.dot(tl.load(left), tl.load(right))
        left += BK
        right += BK * N
    return acc.to(a.dtype.element_ty)


@triton.jit
def scatter(c, tile, m, n, M, N, ctx, BM: tl.constexpr, BN: tl.constexpr):
    me, n_pes = shmem.my_pe(ctx), shmem.n_pes(ctx)
    rows, columns = (m + tl.arange(0, BM))[:, None], (n + tl.arange(0, BN))[None, :]
    dest = c + rows.to(tl.int64) * (N * n_pes) + me * N + columns
    for k in range(1, n_pes + 1):  # to itself last: the way to the others is longer
        shmem.store(dest, tile, (me + k) % n_pes, ctx, mask=(rows < M) & (columns < N))


@triton.jit(do_not_specialize=["turn"])
def gemm_kernel(
    own, locks, turn, a, b, M, N, K, ctx, LOCKS: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
    BK: tl.constexpr, GROUP: tl.constexpr,
):  # fmt: skip
    m, n = place_of(tl.program_id(0), M, N, BM, BN, GROUP)
    rows, columns = (m + tl.arange(0, BM))[:, None], (n + tl.arange(0, BN))[None, :]
    tile = compute(a, b, m, n, M, N, K, BM, BN, BK)
    tl.store(own + rows.to(tl.int64) * N + columns, tile, mask=(rows < M) & (columns < N))
    if LOCKS:
        shmem.signal_op(locks + tl.program_id(0), turn, shmem.SIGNAL_SET, shmem.my_pe(ctx), ctx)


@triton.jit
def counting_kernel(
    c, counts, a, b, M, N, K, ctx, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
    GROUP: tl.constexpr,
):  # fmt: skip
    """The product in the caller's own columns of C; a word counts the tiles of each group of rows."""
    m, n = place_of(tl.program_id(0), M, N, BM, BN, GROUP)
    me, n_pes = shmem.my_pe(ctx), shmem.n_pes(ctx)
    rows, columns = (m + tl.arange(0, BM))[:, None], (n + tl.arange(0, BN))[None, :]
    tile = compute(a, b, m, n, M, N, K, BM, BN, BK)
    dest = c + rows.to(tl.int64) * (N * n_pes) + me * N + columns
    tl.store(dest, tile, mask=(rows < M) & (columns < N))
    shmem.signal_op(counts + m // (BM * GROUP), 1, shmem.SIGNAL_ADD, me, ctx)


@triton.jit(do_not_specialize=["turn"])
def scatter_kernel(
    c, own, locks, turn, M, N, tiles, ctx, LOCKS: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
    GROUP: tl.constexpr,
):  # fmt: skip
    for tile in range(tl.program_id(0), tiles, tl.num_programs(0)):
        m, n = place_of(tile, M, N, BM, BN, GROUP)
        if LOCKS:
            shmem.signal_wait_until(locks + tile, shmem.CMP_GE, turn, ctx)
        rows, columns = (m + tl.arange(0, BM))[:, None], (n + tl.arange(0, BN))[None, :]
        inside = (rows < M) & (columns < N)
        value = tl.load(own + rows.to(tl.int64) * N + columns, mask=inside)
        scatter(c, value, m, n, M, N, ctx, BM, BN)


@triton.jit
def fused_kernel(
    c, a, b, M, N, K, ctx, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr
):
    m, n = place_of(tl.program_id(0), M, N, BM, BN, GROUP)
    scatter(c, compute(a, b, m, n, M, N, K, BM, BN, BK), m, n, M, N, ctx, BM, BN)


@triton.jit
def descriptor_kernel(
    c, a, b, M, N, K, ctx, N_PES: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
    BK: tl.constexpr, GROUP: tl.constexpr,
):  # fmt: skip
    """Tiles by tensor descriptors, those of a peer's memory too: one leaves while the next is computed.

    The own copy first: before a store of the next tile the program waits until shared memory is read,
    and then only the peers' copies, which take longer, are still on their way.
    """
    me = shmem.my_pe(ctx)
    left = tl.make_tensor_descriptor(a, [M, K], [K, 1], [BM, BK])
    right = tl.make_tensor_descriptor(b, [K, N], [N, 1], [BK, BN])
    dests = ()
    for k in tl.static_range(N_PES):
        columns = shmem.ptr(c, (me + k) % N_PES, ctx) + me * N
        there = tl.make_tensor_descriptor(columns, [M, N], [N * N_PES, 1], [BM, BN])
        dests = dests + (there,)  # noqa: RUF005 (Triton knows no star)
    tiles = tl.cdiv(M, BM) * tl.cdiv(N, BN)
    for tile in tl.range(tl.program_id(0), tiles, tl.num_programs(0), flatten=True):
        m, n = place_of(tile, M, N, BM, BN, GROUP)
        acc = tl.zeros([BM, BN], tl.float32)
        for k in range(0, K, BK):
            acc = tl.dot(left.load([m, k]), right.load([k, n]), acc)
        value = acc.to(a.dtype.element_ty)
        for k in tl.static_range(N_PES):
            dests[k].store([m, n], value)


@triton.jit(do_not_specialize=["turn", "scatterers"])
def specialised_kernel(
    c, own, locks, turn, a, b, M, N, K, tiles, scatterers, ctx, BM: tl.constexpr, BN: tl.constexpr,
    BK: tl.constexpr, GROUP: tl.constexpr,
):  # fmt: skip
    """The first programs scatter, so that they are resident; the others compute."""
    program, computing = tl.program_id(0), tl.num_programs(0) - scatterers
    if program < scatterers:
        for tile in range(program, tiles, scatterers):
            m, n = place_of(tile, M, N, BM, BN, GROUP)
            shmem.signal_wait_until(locks + tile, shmem.CMP_GE, turn, ctx)
            rows, columns = (m + tl.arange(0, BM))[:, None], (n + tl.arange(0, BN))[None, :]
            inside = (rows < M) & (columns < N)
            value = tl.load(own + rows.to(tl.int64) * N + columns, mask=inside)
            scatter(c, value, m, n, M, N, ctx, BM, BN)
    else:
        for tile in range(program - scatterers, tiles, computing):
            m, n = place_of(tile, M, N, BM, BN, GROUP)
            rows, columns = (m + tl.arange(0, BM))[:, None], (n + tl.arange(0, BN))[None, :]
            value = compute(a, b, m, n, M, N, K, BM, BN, BK)
            tl.store(own + rows.to(tl.int64) * N + columns, value, mask=(rows < M) & (columns < N))
            shmem.signal_op(locks + tile, turn, shmem.SIGNAL_SET, shmem.my_pe(ctx), ctx)
