# SPDX-License-Identifier: BSD-3-Clause
"""An all-reduce around a ring: a tile goes round, everybody adds.

You learn: put_signal and signal_wait_until in a chain; buffers of each step are apart.
Run: python -m pyshmem run -n 4 examples/17_triton_ring_all_reduce.py
Output: the sum went round 2 times: ok
"""

import numpy as np

import pyshmem
import pyshmem.triton as shmem
import triton
import triton.language as tl


@triton.jit
def ring(out, inbox, sig, source, ctx, B: tl.constexpr):
    """Step k: what came in step k - 1 goes on to the right. A slot a step, so that nothing is reset."""
    me, n = shmem.my_pe(ctx), shmem.n_pes(ctx)
    offs = tl.program_id(0) * B + tl.arange(0, B)
    total = tl.load(source + offs)
    moving = total
    for step in range(n - 1):
        slot = inbox + step * tl.num_programs(0) * B + offs
        word = sig + step * tl.num_programs(0) + tl.program_id(0)
        shmem.store(slot, moving, (me + 1) % n, ctx)
        shmem.signal_op(word, 1, shmem.SIGNAL_ADD, (me + 1) % n, ctx)
        shmem.signal_wait_until(word, shmem.CMP_GE, 1, ctx, (me + n - 1) % n)
        moving = tl.load(slot)
        total += moving
    tl.store(out + offs, total)


with pyshmem.init() as job:
    B, programs = 64, 3
    for turn in range(2):
        source = pyshmem.full(B * programs, job.my_pe + turn, dtype=np.float32, heap="device")
        out = pyshmem.zeros(B * programs, dtype=np.float32, heap="device")
        inbox = pyshmem.zeros((job.n_pes, B * programs), dtype=np.float32, heap="device")
        sig = pyshmem.zeros((job.n_pes, programs), dtype=np.int64, heap="device")
        arguments = map(shmem.wrap, (out, inbox, sig, source))
        ring[(programs,)](*arguments, shmem.context(), B=B)
        assert (pyshmem.to_numpy(out) == sum(pe + turn for pe in range(job.n_pes))).all()
    pyshmem.barrier_all()
    if job.my_pe == 0:
        print("the sum went round 2 times: ok", flush=True)
