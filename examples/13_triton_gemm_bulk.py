# SPDX-License-Identifier: BSD-3-Clause
"""GEMM + all-scatter, bulk-synchronous: a kernel computes, then a kernel scatters.

You learn: put of tiles of two dimensions. The first of four patterns; the others follow.
Run: python -m pyshmem run -n 4 examples/13_triton_gemm_bulk.py
Output: GEMM + all-scatter, bulk-synchronous: ok
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
def gemm(own, a, b, K, N, B: tl.constexpr):
    m, n = tl.program_id(0) // (N // B) * B, tl.program_id(0) % (N // B) * B
    place = (m + tl.arange(0, B))[:, None] * N + (n + tl.arange(0, B))[None, :]
    tl.store(own + place, tile_of_c(a, b, m, n, K, N, B))


@triton.jit
def scatter(c, own, N, ctx, B: tl.constexpr):
    m, n = tl.program_id(0) // (N // B) * B, tl.program_id(0) % (N // B) * B
    me, n_pes = shmem.my_pe(ctx), shmem.n_pes(ctx)
    rows, columns = (m + tl.arange(0, B))[:, None], (n + tl.arange(0, B))[None, :]
    for k in range(n_pes):
        dest = c + rows * (N * n_pes) + me * N + columns
        shmem.put(dest, own + rows * N + columns, (me + k) % n_pes, ctx)


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
    gemm[(tiles,)](own, a, b, K, N, B=B)
    scatter[(tiles,)](c, own, N, ctx, B=B)
    pyshmem.to_numpy(c.array)  # waits for the kernels
    pyshmem.barrier_all()
    assert (pyshmem.to_numpy(c.array) == left @ right).all()
    if job.my_pe == 0:
        print("GEMM + all-scatter, bulk-synchronous: ok", flush=True)
