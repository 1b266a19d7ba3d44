# SPDX-License-Identifier: BSD-3-Clause
"""What a kernel has put elsewhere, and completed, is told by the host's signal behind the kernel."""

import numpy as np
import triton
import triton.language as tl

import pyshmem
import pyshmem.triton as shmem

B = 8


@triton.jit
def send(dest, k, ctx, B: tl.constexpr):
    right = (shmem.my_pe(ctx) + 1) % shmem.n_pes(ctx)
    offs = tl.arange(0, B)
    shmem.store(dest + offs, offs + k, right, ctx)
    shmem.quiet(ctx)


@triton.jit
def chunks(dest, source, out, ctx, B: tl.constexpr):
    p, right = tl.program_id(0), (shmem.my_pe(ctx) + 1) % shmem.n_pes(ctx)
    offs = p * B + tl.arange(0, B)
    shmem.put_chunk(dest + p * B, source + p * B, B, right, ctx)
    shmem.barrier_grid(ctx)
    tl.store(out + offs, tl.load(dest + offs))


with pyshmem.init(device="sim") as job:
    dest, sent = pyshmem.zeros(B, np.int64, heap="device"), pyshmem.new_signal()
    for k in range(1, 4):
        send[(1,)](dest, k, shmem.context(), B=B)
        pyshmem.signal_set(sent, k, (job.my_pe + 1) % job.n_pes)
        pyshmem.signal_wait_until(sent, pyshmem.CMP_EQ, k)
        assert (dest == np.arange(B) + k).all(), dest
        pyshmem.barrier_all()
    there, source, out = (pyshmem.zeros(2 * B, np.int64, heap="device") for _ in range(3))
    source[:] = np.arange(2 * B)
    chunks[(2,)](there, source, out, shmem.context(), B=B)
    assert (out == np.arange(2 * B)).all(), out
