# SPDX-License-Identifier: BSD-3-Clause
"""Tensor descriptors of a peer's memory: tiles that go there by the GPU's copy unit for tensors."""

from __future__ import annotations

import numpy as np
import pytest
import triton
import triton.language as tl

import pyshmem
import pyshmem.triton as shmem


@triton.jit
def move(dest, source, rows, columns, pe, ctx, B: tl.constexpr):
    """All tiles of a matrix to ``pe``, one behind the other."""
    here = tl.make_tensor_descriptor(source, [rows, columns], [columns, 1], [B, B])
    there = tl.make_tensor_descriptor(
        shmem.ptr(dest, pe, ctx), [rows, columns], [columns, 1], [B, B]
    )
    for m in range(0, rows, B):
        for n in range(0, columns, B):
            there.store([m, n], here.load([m, n]))


@pytest.fixture
def room(job):
    """Where kernels keep the descriptors that they make."""
    if job.device == "cuda":
        import torch

        def allocate(size, alignment, stream):
            return torch.empty(size, dtype=torch.int8, device="cuda")

        triton.set_allocator(allocate)


@pytest.mark.parametrize("shape", [(16, 16), (32, 48), (40, 24)])  # the last: tiles beyond the edge
@pytest.mark.parametrize("dtype", ["float32", "int16", "float16"])
def test_tiles_go_to_a_peer_by_descriptors(job, place, show, finish, ctx, near, room, dtype, shape):
    values = (np.arange(np.prod(shape)) % 97 + job.my_pe).astype(dtype).reshape(shape)
    dest, source = place(np.zeros(shape, dtype)), place(values)
    # Out of reach there is only the own memory.
    step = int(near and pyshmem.ptr(dest.array, (job.my_pe + 1) % job.n_pes) is not None)
    right, left = (job.my_pe + step) % job.n_pes, (job.my_pe - step) % job.n_pes
    pyshmem.barrier_all()
    move[(1,)](dest, source, *shape, right, ctx, B=16)
    finish()
    pyshmem.barrier_all()
    assert (show(dest) == (np.arange(np.prod(shape)) % 97 + left).reshape(shape)).all()
