# SPDX-License-Identifier: BSD-3-Clause
"""GEMM + all-scatter, fused and specialised: some programs compute, the others scatter.

You learn: roles by program_id, and a lock a tile between them.
Run: python -m pyshmem run -n 4 examples/16_triton_gemm_specialised.py
Output: GEMM + all-scatter, specialised: ok
"""

import numpy as np

import pyshmem
import pyshmem.triton as shmem
import triton
import triton.language as tl


@triton.jit
def tile_of_c(a, b, m, n, K, N, B: tl.constexpr):
    """A tile of A @ B, whose columns are the PE's own N; rows and columns from m and n on."""
    rows, columns, acc = m + tl.arange(0, B), n + tl.arange(0, B), tl.zeros([B, B], tl.float32)
    for k in range(0, K, B):
        ks = k + tl.arange(0, B)
        left = tl.load(a + rows[:, None] * K + ks[None, :])
        acc += tl.dot(left, tl.load(b + ks[:, None] * N + columns[None, :]))
    return acc


@triton.jit
def scatter_tile(c, tile, m, n, N, ctx, B: tl.constexpr):
    """To every PE, at the caller's columns."""
    me, n_pes = shmem.my_pe(ctx), shmem.n_pes(ctx)
    place = (m + tl.arange(0, B))[:, None] * (N * n_pes) + (me * N + n + tl.arange(0, B))[None, :]
    for k in range(n_pes):
        shmem.store(c + place, tile, (me + k) % n_pes, ctx)


@triton.jit
def gemm_scatter(c, own, locks, a, b, K, N, tiles, scatterers, ctx, B: tl.constexpr):
    computing = tl.num_programs(0) - scatterers
    program = tl.program_id(0)
    if program < computing:
        for tile in range(program, tiles, computing):
            m, n = tile // (N // B) * B, tile % (N // B) * B
            place = (m + tl.arange(0, B))[:, None] * N + (n + tl.arange(0, B))[None, :]
            tl.store(own + place, tile_of_c(a, b, m, n, K, N, B))
            shmem.signal_op(locks + tile, 1, shmem.SIGNAL_SET, shmem.my_pe(ctx), ctx)
    else:
        for tile in range(program - computing, tiles, scatterers):
            m, n = tile // (N // B) * B, tile % (N // B) * B
            shmem.signal_wait_until(locks + tile, shmem.CMP_EQ, 1, ctx)
            place = (m + tl.arange(0, B))[:, None] * N + (n + tl.arange(0, B))[None, :]
            scatter_tile(c, tl.load(own + place), m, n, N, ctx, B)


with pyshmem.init() as job:
    M, K, N, B = 32, 32, 32, 16  # N columns of each PE
    rng = np.random.default_rng(1)
    left, right = rng.integers(0, 4, (M, K)), rng.integers(0, 4, (K, N * job.n_pes))
    mine = slice(N * job.my_pe, N * (job.my_pe + 1))
    a = shmem.wrap(pyshmem.array(left.astype("f4"), heap="device"))
    b = shmem.wrap(pyshmem.array(np.ascontiguousarray(right[:, mine], "f4"), heap="device"))
    c = shmem.wrap(pyshmem.zeros((M, N * job.n_pes), dtype="f4", heap="device"))
    ctx, tiles = shmem.context(), (M // B) * (N // B)
    own = shmem.wrap(pyshmem.zeros((M, N), dtype="f4", heap="device"))
    locks = shmem.wrap(pyshmem.zeros(tiles, dtype=np.int64, heap="device"))
    gemm_scatter[(5,)](c, own, locks, a, b, K, N, tiles, 2, ctx, B=B)
    pyshmem.to_numpy(c.array)  # waits for the kernels
    pyshmem.barrier_all()
    assert (pyshmem.to_numpy(c.array) == left @ right).all()
    if job.my_pe == 0:
        print("GEMM + all-scatter, specialised: ok", flush=True)
