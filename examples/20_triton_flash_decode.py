# SPDX-License-Identifier: BSD-3-Clause
"""Distributed flash decode: keys and values are spread over the PEs, softmax parts are combined.

You learn: all_reduce with "max" and "sum" in the middle of a kernel, in registers.
Run: python -m pyshmem run -n 4 examples/20_triton_flash_decode.py
Output: attention over 4 x 64 keys: ok
"""

import numpy as np

import pyshmem
import pyshmem.triton as shmem
import triton
import triton.language as tl


@triton.jit
def decode(out, q, k, v, keys, words, ctx, D: tl.constexpr, B: tl.constexpr):
    """One query: each PE over its own keys; then all parts are scaled to one maximum and added."""
    d = tl.arange(0, D)
    query = tl.load(q + d)
    top, weight = tl.full([1], float("-inf"), tl.float32), tl.zeros([1], tl.float32)
    acc = tl.zeros([D], tl.float32)
    for first in range(0, keys, B):
        rows = first + tl.arange(0, B)
        places = rows[:, None] * D + d[None, :]
        score = tl.sum(tl.load(k + places) * query[None, :], axis=1) / tl.sqrt(D * 1.0)
        new = tl.maximum(top, tl.max(score, axis=0))
        p, old = tl.exp(score - new), tl.exp(top - new)
        weight = weight * old + tl.sum(p, axis=0)
        acc = acc * old + tl.sum(p[:, None] * tl.load(v + places), axis=0)
        top = new
    highest = shmem.all_reduce(top, words, ctx, "max")
    scale = tl.exp(top - highest)
    weight = shmem.all_reduce(weight * scale, words, ctx, "sum")
    tl.store(out + d, shmem.all_reduce(acc * scale, words, ctx, "sum") / weight)


with pyshmem.init() as job:
    D, keys = 16, 64
    rng = np.random.default_rng(3)
    q = rng.standard_normal(D).astype("f4")
    k, v = rng.standard_normal((2, job.n_pes, keys, D)).astype("f4")
    arrays = (np.zeros(D, "f4"), q, k[job.my_pe], v[job.my_pe])
    arguments = [shmem.wrap(pyshmem.array(x, heap="device")) for x in arrays]
    words = shmem.channel(1, 4 * D)
    decode[(1,)](*arguments, keys, words, shmem.context(), D=D, B=32)
    score = np.exp(k.reshape(-1, D) @ q / np.sqrt(D))
    expected = score @ v.reshape(-1, D) / score.sum()
    assert np.allclose(pyshmem.to_numpy(arguments[0].array), expected, atol=1e-5)
    pyshmem.barrier_all()
    if job.my_pe == 0:
        print(f"attention over {job.n_pes} x {keys} keys: ok", flush=True)
