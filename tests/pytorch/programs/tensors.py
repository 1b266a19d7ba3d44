# SPDX-License-Identifier: BSD-3-Clause
"""Symmetric tensors: dtypes, views, routines on them, peers' copies, and when their memory goes back."""

from __future__ import annotations

import gc
import sys

import pytest
import torch

import pyshmem
import pyshmem.interop.torch as symmetric

DTYPES = (
    torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.complex64, torch.complex128,
    torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8, torch.uint16, torch.uint32,
    torch.uint64, torch.bool, torch.float8_e4m3fn, torch.float8_e5m2,
)  # fmt: skip
heap = sys.argv[1]


def refused(kind: type[Exception], message: str, call, *given, **named) -> None:
    with pytest.raises(kind) as told:
        call(*given, **named)
    assert message in str(told.value), told.value


with pyshmem.init() as job:
    me, n = job.my_pe, job.n_pes
    right, left = (me + 1) % n, (me - 1) % n
    for dtype in DTYPES:
        box = symmetric.zeros(2, 3, dtype=dtype, heap=heap)
        assert (box.dtype, box.shape, box.is_contiguous()) == (dtype, (2, 3), True)
        assert symmetric.heap_of(box) == symmetric.heap_of(box[1:, :2]) == heap
        assert not symmetric.is_symmetric(
            box[:1] + 1 if dtype == torch.float32 else box[:1].clone()
        )
        pyshmem.put(box[1], torch.full((3,), me + 1, dtype=torch.float32).to(dtype), right)
        pyshmem.barrier_all()
        assert (
            box[1].to(torch.complex64).real.tolist() == [1 if dtype == torch.bool else left + 1] * 3
        )
        assert not box[0].to(torch.complex64).any()
        symmetric.free(box)
    values = torch.randn(3, 4)
    made = symmetric.tensor(values, heap=heap)
    assert torch.equal(made, values)
    for new, wanted in (
        (symmetric.ones_like(made), torch.ones(3, 4)),
        (symmetric.full_like(made, 2.5), torch.full((3, 4), 2.5)),
        (symmetric.full((2,), me, heap=heap), torch.full((2,), me)),
        (symmetric.zeros((2, 0), heap=heap), torch.zeros(2, 0)),
    ):
        torch.testing.assert_close(new, wanted)
        assert symmetric.heap_of(new) == heap or not new.numel()
    assert 0 <= symmetric.rand_like(made).min() <= symmetric.rand_like(made).max() < 1
    assert symmetric.randn(50, heap=heap, dtype=torch.float64).std() > 0.1
    assert symmetric.empty(3, heap=heap, requires_grad=True).requires_grad

    # PEs that make other tensors, also of as many bytes, are told which, in torch's words.
    for name, makes, one, two in (
        ("zeros", lambda: symmetric.zeros(4 + me, heap=heap), "(4,) float32", "(5,) float32"),
        ("empty", lambda: symmetric.empty(4 * me + 1, heap=heap), "(1,) float32", "(5,) float32"),
        ("rand", lambda: symmetric.rand(2 + me, 3 - me, heap=heap), "(2, 3) float32", "(3, 2) float32"),
        ("tensor", lambda: symmetric.tensor([1.0, me][: 1 + me], heap=heap),
         "(1,) float32", "(2,) float32"),
        ("ones", lambda: symmetric.ones(4, dtype=(torch.int32, torch.float32)[me], heap=heap),
         "(4,) int32", "(4,) float32"),
    ):  # fmt: skip
        told = f"{name}: PE 0 asks for shape {one}, PE 1 for shape {two}; all PEs give the same"
        refused(pyshmem.MismatchError, told, makes)

    made.fill_(me)
    pyshmem.barrier_all()
    theirs = symmetric.ptr(made.t()[1:3], right)
    assert theirs.shape == (2, 3)
    assert (theirs == right).all()
    pyshmem.barrier_all()
    theirs.fill_(-1.0)
    pyshmem.barrier_all()
    assert (made[:, 1:3] == -1).all()
    assert (made[:, 0] == me).all()

    refused(ValueError, "not made by", symmetric.free, torch.ones(3))
    refused(ValueError, "drives", symmetric.zeros, 3, device="cuda")
    refused(ValueError, "on the host", symmetric.zeros, 3, device="cuda", heap="host")
    refused(ValueError, "heaps are", symmetric.zeros, 3, heap="gpu")
    refused(ValueError, "negative", symmetric.zeros, -1)
    refused(TypeError, "one of torch", symmetric.zeros, 3, dtype=float)
    refused(TypeError, "one of torch", symmetric.full, 3, 1.0, dtype="float32")
    sparse = torch.ones(3).to_sparse()
    for call in (symmetric.tensor, symmetric.free):
        refused(pyshmem.UnsupportedError, "to_dense", call, sparse)
    refused(pyshmem.UnsupportedError, "to_dense", symmetric.ptr, sparse, 0)
    assert not symmetric.is_symmetric(sparse)
    refused(TypeError, "quantised", symmetric.zeros, 3, dtype=torch.qint8)
    assert symmetric.tensor(torch._neg_view(torch.ones(3)), heap=heap).tolist() == [-1.0] * 3
    lazy = torch._neg_view(symmetric.ones(3, heap=heap))
    assert symmetric.ptr(lazy, right).tolist() == [-1.0] * 3
    lazy = symmetric.full((2,), 1 + 2j, heap=heap).conj()
    assert symmetric.ptr(lazy, right).tolist() == [1 - 2j] * 2
    kept = symmetric.ones(1000, heap=heap)
    refused(ValueError, "interop.torch.free", pyshmem.free, kept)
    symmetric.free(kept[2:])  # any view says which
    refused(ValueError, "not made by", symmetric.free, kept)

    # Dropped tensors give their memory back, views last; collection waits for nobody.
    pyshmem.drain()
    before = pyshmem.heap_info(heap).used
    view = symmetric.zeros(1 << 16, heap=heap)[5:]
    pyshmem.drain()
    assert pyshmem.heap_info(heap).used >= before + (4 << 16)
    del view
    gc.collect()
    pyshmem.drain()
    assert pyshmem.heap_info(heap).used == before
    outlives = symmetric.ones(4, heap=heap)
assert outlives.tolist() == [1.0] * 4  # as arrays, tensors can be looked at after their job
refused(pyshmem.NotInitialized, "init", symmetric.zeros, 3)
print("ok", flush=True)
