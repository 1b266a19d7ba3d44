# SPDX-License-Identifier: BSD-3-Clause
"""Tensors that torch's allocator makes in symmetric memory: pyshmem.interop.torch.pool.

Without a GPU the segments are taken by the functions that torch's allocator calls, of the simulator's
device heap, which is all that the comparison sees.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="make test-torch installs it")

BEGIN = """
    import numpy as np
    import torch
    import pyshmem
    import pyshmem.interop.torch as symmetric
    from pyshmem._core.library import ffi, lib
    from pyshmem._torch.segments import Segments

    job = pyshmem.init(heap_size="16M", device_heap_size="64M")
    me, n = job.my_pe, job.n_pes
    right, left = (me + 1) % n, (me - 1) % n
    MIB = 1 << 20

    def take(nbytes, segments):
        segments.enter()
        at = int(ffi.cast("uintptr_t", lib.ishmemx_pool_take(nbytes, job.gpu, 0)))
        segments.leave()
        return at

    def give(at):
        lib.ishmemx_pool_give(at, 0, job.gpu, 0)

    def tensor_at(at, nelems):
        class Memory:
            __array_interface__ = dict(data=(at, False), shape=(nelems,), typestr="<i8", version=3)
        return torch.from_numpy(np.asarray(Memory()))

    def refused(call, error, *texts):
        try:
            call()
        except error as told:
            assert all(text in str(told) for text in texts), told
        else:
            raise AssertionError(texts)
        pyshmem.barrier_all()
"""

USED = """
    segments = Segments(16 * MIB)
    assert not int(ffi.cast("uintptr_t", lib.ishmemx_pool_take(MIB, job.gpu, 0)))  # not entered
    one = take(2 * MIB, segments)
    two = take(4 * MIB, segments)
    box = tensor_at(two, 100).fill_(-1)
    source = torch.full((100,), me)
    refused(lambda: pyshmem.put(box, source, right), ValueError, "PEs have not compared yet")
    refused(lambda: torch.ops.pyshmem.all_reduce_(box, "sum"), ValueError, "PEs have not compared yet")
    refused(lambda: pyshmem.atomic_inc(box, right), ValueError, "PEs have not compared yet")
    assert not symmetric.is_symmetric(box)
    segments.rendezvous()
    assert symmetric.heap_of(box) == "device"
    pyshmem.put(box, source, right)
    pyshmem.barrier_all()
    assert box.tolist() == [left] * 100
    torch.ops.pyshmem.all_reduce_(box, "sum")
    assert box.tolist() == [n * (n - 1) // 2] * 100
    three = take(2 * MIB, segments)  # new, while the others are as they were
    refused(lambda: pyshmem.get(box, tensor_at(three, 100), right), ValueError, "have not compared yet")
    pyshmem.put(tensor_at(one, 100), source, right)
    assert not take(16 * MIB, segments)  # full: torch raises its own error
    segments.rendezvous("three")
    pyshmem.get(box, tensor_at(three, 100), right)
    assert [one, two, three] == [one, one + 2 * MIB, one + 6 * MIB]
    assert segments.taken()[0] == [(0, 2 * MIB), (2 * MIB, 4 * MIB), (6 * MIB, 2 * MIB)]
    give(two)
    refused(lambda: pyshmem.put(box, source, right), ValueError, "PEs have not compared yet")
    refused(segments.free, ValueError, "2 segments on PE 0", f"2 segments on PE {n - 1}")
    give(one), give(three)
    used = pyshmem.heap_info("device").used
    segments.free()
    assert pyshmem.heap_info("device").used == used - 16 * MIB
    refused(segments.enter, ValueError, "the pool was freed")
    give(one)  # in vain
    again, other = Segments(), Segments(2 * MIB)
    assert 20 * MIB < again.nbytes <= 32 * MIB, again.nbytes
    again.enter()
    assert take(MIB, other) and len(other.taken()[0]) == 1 and not again.taken()[0]
    again.leave()
    refused(lambda: Segments(1), ValueError, "a segment of torch has 2 MiB at least")
    left_behind = take(2 * MIB, again)
    tensor = tensor_at(left_behind, 4).fill_(7)
    pyshmem.finalize()
    assert tensor.tolist() == [7] * 4  # as other arrays it can be looked at
    pyshmem.init(heap_size="16M", device_heap_size="64M")
    from pyshmem._torch import segments as module
    assert len(module._left) == 2
    give(left_behind)
    pyshmem.finalize()
    pyshmem.init(heap_size="16M", device_heap_size="64M")
    assert len(module._left) == 1
    print("ok")
"""


@pytest.mark.parametrize(("n", "check"), [(1, "0"), (2, "1")])
def test_segments_that_are_alike_are_symmetric(run_pes: Callable, n: int, check: str) -> None:
    env = {"PYSHMEM_CHECK": check}
    done = run_pes(n, BEGIN + USED, device="sim", env=env, timeout=150, check=True)
    assert done.stdout.split() == ["ok"] * n


DIFFERENT = """
    segments = Segments(16 * MIB)
    first = take(2 * MIB, segments)
    second = take((2 + 2 * (me == 2)) * MIB, segments)
    box = tensor_at(first, 4).fill_(0)
    apart = "segment 1: 2097152 bytes at byte 2097152", "segment 1: 4194304 bytes at byte 2097152"
    refused(segments.rendezvous, pyshmem.MismatchError, "PE 0: 2 segments of 4 MiB in the pool", *apart)
    refused(lambda: pyshmem.put(box, box, right), ValueError, "PEs have not compared yet")
    give(second)
    segments.rendezvous()
    pyshmem.put(box, box, right)
    extra = take(MIB, segments) if me == 1 else 0
    refused(segments.rendezvous, pyshmem.MismatchError, "segment 1: none", "1048576 bytes")
    pyshmem.put(box, box, right)  # what was compared before stays
    refused(segments.free, ValueError, "1 segments on PE 0, 2 segments on PE 1")
    if extra:
        give(extra)
    tensor = f"tensor {min(me, 1)}"
    refused(lambda: segments.rendezvous(tensor), pyshmem.MismatchError, "tensor 0", "tensor 1")
    many = [take(64, segments) for _ in range(100)]
    segments.rendezvous()
    assert len(segments.taken()[0]) == 101
    print("ok")
"""  # fmt: skip


def test_segments_that_differ_are_told_on_all(run_pes: Callable) -> None:
    done = run_pes(3, BEGIN + DIFFERENT, device="sim", timeout=150, check=True)
    assert done.stdout.split() == ["ok"] * 3


def test_without_a_gpu_torch_has_no_pools(run_pes: Callable) -> None:
    program = """
    refused(symmetric.pool, pyshmem.UnsupportedError, "torch has pools of memory of GPUs alone")
    print("ok")
    """
    done = run_pes(2, BEGIN + program, device="sim", timeout=150, check=True)
    assert done.stdout.split() == ["ok"] * 2


ON_GPUS = """
    memory = symmetric.pool("40M")
    before = torch.full((1000,), -5, device="cuda")
    torch.ones(64, 64, device="cuda") @ torch.ones(64, 64, device="cuda")  # cuBLAS keeps a workspace
    with memory:
        box = torch.full((1000,), me, device="cuda")
        large = torch.zeros(1 << 20, dtype=torch.float32, device="cuda")
        refused_box = torch.zeros(4, device="cuda")
        try:
            pyshmem.put(refused_box, refused_box, right)
        except ValueError as error:
            assert "not compared yet" in str(error), error
        else:
            raise AssertionError("used before the comparison")
        product = torch.ones(64, 64, device="cuda") @ torch.ones(64, 64, device="cuda")
    assert symmetric.heap_of(box) == symmetric.heap_of(large) == symmetric.heap_of(product) == "device"
    assert symmetric.heap_of(before) is None
    memory.rendezvous(box, large, product)
    torch.ops.pyshmem.all_reduce_(box, "sum")
    assert box.tolist() == [n * (n - 1) // 2] * 1000
    large.fill_(me)
    torch.cuda.synchronize()
    pyshmem.barrier_all()
    got = torch.empty_like(large)
    pyshmem.get(got, large, right)
    assert (got == right).all()
    pyshmem.put(product, torch.full_like(product, me), right)
    pyshmem.barrier_all()
    assert (product == left).all()
    pyshmem.atomic_add(box, 5, right)
    pyshmem.barrier_all()
    assert box[0] == n * (n - 1) // 2 + 5
    other = symmetric.pool("6M")
    with memory:
        refused(memory.__enter__, ValueError, "the pool is entered already")
        with other:
            inner = torch.full((2000,), me, device="cuda")
        outer = torch.full((2000,), me, device="cuda")
    other.rendezvous(inner), memory.rendezvous(outer)
    torch.cuda.synchronize()
    pyshmem.barrier_all()
    for one in (inner, outer):
        got = torch.empty_like(one)
        pyshmem.get(got, one, right)
        assert (got == right).all()
    pyshmem.barrier_all()
    del inner, outer, one
    other.free()
    with memory:
        try:
            torch.empty(1 << 26, device="cuda")
        except torch.cuda.OutOfMemoryError:
            print("full")
    refused(memory.free, ValueError, "the pool has tensors still")
    del box, large, product, refused_box
    import gc
    gc.collect()
    memory.free()
    print("ok")
"""


@pytest.mark.gpu
@pytest.mark.parametrize("spread", ["False", "True"])
@pytest.mark.parametrize("grows", ["0", "1"])
def test_tensors_of_torch_are_symmetric(run_pes: Callable, spread: str, grows: str) -> None:
    env = {"PYTORCH_CUDA_ALLOC_CONF": f"expandable_segments:{spread}"}
    env |= {"PYSHMEM_DEVICE_HEAP_GROWS": grows}
    done = run_pes(2, BEGIN + ON_GPUS, device="cuda", env=env, check=True)
    assert sorted(done.stdout.split()) == ["full"] * 2 + ["ok"] * 2


MODEL = """
    import contextlib, sys
    import transformers
    from torch.profiler import ProfilerActivity, profile
    from transformers import AutoConfig, AutoModelForCausalLM

    transformers.logging.set_verbosity_error()
    on_gpu = job.device == "cuda"
    where = torch.device("cuda", job.gpu) if on_gpu else torch.device("cpu")
    torch.set_num_threads(1)
    memory = symmetric.pool("48M") if on_gpu else contextlib.nullcontext()
    sizes = dict(vocab_size=64, hidden_size=64, intermediate_size=128, num_hidden_layers=2,
                 num_attention_heads=4, num_key_value_heads=2, head_dim=16, max_position_embeddings=64)
    torch.manual_seed(5)
    if me == 0:
        made = AutoModelForCausalLM.from_config(AutoConfig.for_model("llama", **sizes))
        made.save_pretrained(sys.argv[1])
    pyshmem.barrier_all()
    model = AutoModelForCausalLM.from_pretrained(sys.argv[1], dtype=torch.float32).to(where)

    def loss(pe):
        tokens = (torch.arange(24, device=where).view(2, 12) * (pe + 3)) % 64
        return model(tokens, labels=tokens, output_hidden_states=True)

    loss(me).loss.backward()  # libraries have their workspaces
    expected = 0
    for pe in range(n):
        model.zero_grad(set_to_none=True)
        loss(pe).loss.backward()
        expected = [g + one.grad for g, one in zip(expected, model.parameters())] if pe else [
            one.grad for one in model.parameters()]
    with memory, torch.no_grad():
        for one in model.parameters():
            one.grad = torch.zeros_like(one) if on_gpu else symmetric.zeros(*one.shape)
        hidden = loss(me).hidden_states[-1]
        first = torch.zeros(8, device=where) if on_gpu else symmetric.zeros(8)
        if not on_gpu:
            hidden = symmetric.zeros(*hidden.shape).copy_(hidden)
    torch.ops.pyshmem.all_reduce_(first, "sum")  # a job's first gives the GPU its words, once
    loss(me).loss.backward()  # adds to what is there
    wanted = sum(loss(pe).hidden_states[-1] for pe in range(n)).detach()

    def copies(call):
        kinds = [ProfilerActivity.CPU] + [ProfilerActivity.CUDA] * on_gpu
        with profile(activities=kinds) as trace:
            call()
            if on_gpu:
                torch.cuda.synchronize()
        names = [event.name for event in trace.events()]
        assert any("pyshmem::all_reduce_" in name for name in names), names
        parts = "aten::copy_", "aten::clone", "aten::cat", "Memcpy"
        return [name for name in names if any(part in name for part in parts)]

    def in_place():
        for one in model.parameters():
            torch.ops.pyshmem.all_reduce_(one.grad, "sum")
        torch.ops.pyshmem.all_reduce_(hidden, "sum")

    found = copies(in_place)
    assert not found, found
    for one, sum_of_all in zip(model.parameters(), expected):
        assert torch.allclose(one.grad, sum_of_all, rtol=1e-4, atol=1e-5)
    assert torch.allclose(hidden, wanted, rtol=1e-4, atol=1e-5)
    other = torch.ones(1 << 20, device=where)  # on no heap: the trace does show what is copied
    symmetric.register_team(staging="2M")
    assert copies(lambda: torch.ops.pyshmem.all_reduce_(other, "sum", copy=True))
    print("ok")
"""


@pytest.mark.parametrize("device", ["sim", pytest.param("cuda", marks=pytest.mark.gpu)])
def test_sums_of_a_model_of_transformers_copy_nothing(
    run_pes: Callable, tmp_path: Path, device: str
) -> None:
    """Gradients and activations: what torch's trace has of them."""
    pytest.importorskip("transformers")
    env = {"HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
    where = [tmp_path / "model"]
    done = run_pes(2, BEGIN + MODEL, where, device=device, env=env, timeout=150, check=True)
    assert done.stdout.split() == ["ok"] * 2
