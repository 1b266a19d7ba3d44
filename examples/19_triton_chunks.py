# SPDX-License-Identifier: BSD-3-Clause
"""A message goes by a copy engine while the kernel that asked for it multiplies matrices.

You learn: put_chunk with a signal: a request to the host, no threads of the GPU.
Run: python -m pyshmem run -n 4 examples/19_triton_chunks.py
Output: a chunk of 16384 bytes went by while 4 tiles were computed: ok
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
def send_and_compute(inbox, outbox, nelems, sig, c, a, b, K, N, ctx, B: tl.constexpr):
    right = (shmem.my_pe(ctx) + 1) % shmem.n_pes(ctx)
    if tl.program_id(0) == 0:
        shmem.put_chunk(inbox, outbox, nelems, right, ctx, sig, 1)  # started, not waited for
    m, n = tl.program_id(0) // (N // B) * B, tl.program_id(0) % (N // B) * B
    place = (m + tl.arange(0, B))[:, None] * N + (n + tl.arange(0, B))[None, :]
    tl.store(c + place, tile_of_c(a, b, m, n, K, N, B))
    if tl.program_id(0) == 0:
        shmem.signal_wait_until(sig, shmem.CMP_EQ, 1, ctx)  # the left one's has come
        shmem.quiet(ctx)


with pyshmem.init() as job:
    M = K = N = 32
    rng = np.random.default_rng(job.my_pe)
    left, right = rng.integers(0, 4, (M, K)), rng.integers(0, 4, (K, N))
    a, b, c = (pyshmem.array(x.astype("f4"), heap="device") for x in (left, right, 0 * left))
    inbox = pyshmem.zeros(4096, dtype="f4", heap="device")
    outbox = pyshmem.full(4096, job.my_pe, dtype="f4", heap="device")
    sig = pyshmem.new_signal(heap="device")
    inbox_, outbox_, sig_, c_, a_, b_ = map(shmem.wrap, (inbox, outbox, sig, c, a, b))
    send_and_compute[(4,)](inbox_, outbox_, 4096, sig_, c_, a_, b_, K, N, shmem.context(), B=16)
    assert (pyshmem.to_numpy(c) == left @ right).all()
    assert (pyshmem.to_numpy(inbox) == (job.my_pe - 1) % job.n_pes).all()
    pyshmem.barrier_all()
    if job.my_pe == 0:
        print("a chunk of 16384 bytes went by while 4 tiles were computed: ok", flush=True)
