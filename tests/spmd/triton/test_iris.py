# SPDX-License-Identifier: BSD-3-Clause
"""Programs as users of Iris write them, with the import changed; arrays are NumPy's or torch's."""

from __future__ import annotations

import os

import numpy as np
import pytest
import triton
import triton.language as tl

from pyshmem.interop import iris

torch = pytest.importorskip("torch") if iris.host._torch() else None
NEAR = os.environ.get("PYSHMEM_P2P", "1") != "0"
DTYPES = ("int8", "int16", "int32", "int64", "float16", "float32")


@pytest.fixture(scope="module")
def ctx(job):
    return iris.iris(1 << 26)


def dtype_of(name):
    return getattr(torch, name) if torch else np.dtype(name)


def values(array):
    return array.cpu().numpy() if torch else np.array(array)


@triton.jit
def get_kernel(data, results, n, here: tl.constexpr, ranks: tl.constexpr, B: tl.constexpr, bases):
    offs = tl.program_id(0) * B + tl.arange(0, B)
    mask = offs < n
    acc = tl.zeros([B], dtype=data.type.element_ty)
    for there in range(ranks):
        iris.get(data + offs, results + offs, here, there, bases, mask=mask)
        acc += tl.load(results + offs, mask=mask)
    tl.store(results + offs, acc, mask=mask)


@triton.jit
def load_kernel(data, results, n, here: tl.constexpr, ranks: tl.constexpr, B: tl.constexpr, bases):
    offs = tl.program_id(0) * B + tl.arange(0, B)
    mask = offs < n
    there = (here + 1) % ranks
    tl.store(results + offs, iris.load(data + offs, here, there, bases, mask=mask), mask=mask)


@triton.jit
def store_kernel(data, results, n, here: tl.constexpr, ranks: tl.constexpr, B: tl.constexpr, bases):
    offs = tl.program_id(0) * B + tl.arange(0, B)
    mask = offs < n
    for there in range(ranks):
        iris.store(results + offs, tl.load(data + offs, mask=mask), here, there, bases, mask=mask)


@triton.jit
def put_kernel(data, results, n, here: tl.constexpr, ranks: tl.constexpr, B: tl.constexpr, bases):
    offs = tl.program_id(0) * B + tl.arange(0, B)
    for there in range(ranks):
        iris.put(data + offs, results + offs, here, there, bases, mask=offs < n)


@triton.jit
def copy_kernel(data, results, n, here: tl.constexpr, ranks: tl.constexpr, B: tl.constexpr, bases):
    offs = tl.program_id(0) * B + tl.arange(0, B)
    there = (here + 1) % ranks
    iris.copy(data + offs, results + offs, there, here, here, bases, mask=offs < n)


@pytest.mark.parametrize(("dtype", "block"), list(zip(DTYPES, (1, 16, 1, 8, 16, 8), strict=True)))
def test_everybody_accesses_everybody(ctx, dtype, block):
    n, ranks, block = 16, ctx.get_num_ranks(), block if NEAR else 8
    for kernel, expected in (
        (get_kernel, ranks), (load_kernel, 1), (store_kernel, 1), (put_kernel, 1), (copy_kernel, 1)
    ):  # fmt: skip
        data, results = ctx.ones(n, dtype=dtype_of(dtype)), ctx.zeros(n, dtype=dtype_of(dtype))
        grid = (triton.cdiv(n, block),)
        ctx.barrier()
        kernel[grid](data, results, n, ctx.get_rank(), ranks, block, ctx.get_heap_bases())
        ctx.barrier()
        assert (values(results) == expected).all()


@triton.jit
def atomics_kernel(words, here: tl.constexpr, ranks: tl.constexpr, bases, B: tl.constexpr):
    offs = tl.arange(0, B)
    for there in range(ranks):
        iris.atomic_add(words + offs, 3, here, there, bases, sem="relaxed", scope="sys")
        iris.atomic_sub(words + offs, 1, here, there, bases)
        iris.atomic_or(words + B + offs, 1 << here, here, there, bases)
        iris.atomic_xor(words + 2 * B + offs, 1 << here, here, there, bases, mask=offs < 2)
        iris.atomic_and(words + 3 * B + offs, 6, here, there, bases)
        iris.atomic_min(words + 4 * B + offs, -here, here, there, bases)
        iris.atomic_max(words + 5 * B + offs, here, here, there, bases)
    old = iris.atomic_xchg(words + 6 * B + offs, 9, here, here, bases)
    iris.atomic_cas(words + 6 * B + offs, 9 + old, 8, here, here, bases)


def test_atomics_of_all(ctx):
    n, words = ctx.get_num_ranks(), ctx.zeros(7, 4, dtype=dtype_of("int32"))
    words[3] = 7
    ctx.barrier()
    atomics_kernel[(1,)](words, ctx.get_rank(), n, ctx.get_heap_bases(), B=4)
    ctx.barrier()
    bits = 2**n - 1
    rows = [
        [2 * n] * 4,
        [bits] * 4,
        [bits] * 2 + [0] * 2,
        [6] * 4,
        [1 - n] * 4,
        [n - 1] * 4,
        [8] * 4,
    ]
    assert values(words).tolist() == rows


@triton.jit
def produce(
    source, target, flags, n, here: tl.constexpr, there: tl.constexpr, B: tl.constexpr, bases
):
    pid = tl.program_id(0)
    offs = pid * B + tl.arange(0, B)
    tile = iris.load(source + offs, here, here, bases, mask=offs < n)
    iris.store(target + offs, tile, here, there, bases, mask=offs < n)
    iris.atomic_cas(flags + pid, 0, 1, here, there, bases, sem="release", scope="sys")


@triton.jit
def consume(buffer, flags, n, here: tl.constexpr, B: tl.constexpr, bases):
    pid = tl.program_id(0)
    offs = pid * B + tl.arange(0, B)
    done = 0
    while done == 0:
        done = iris.atomic_cas(flags + pid, 1, 0, here, here, bases, sem="acquire", scope="sys")
    tile = iris.load(buffer + offs, here, here, bases, mask=offs < n)
    tl.store(buffer + offs, tile * 2, mask=offs < n)


def test_message_passing_with_a_lock_a_tile(ctx):
    n, block, rank = 100, 32, ctx.get_rank()
    source, target = (
        ctx.arange(n, dtype=dtype_of("float32")),
        ctx.zeros(n, dtype=dtype_of("float32")),
    )
    flags = ctx.zeros(4, dtype=dtype_of("int32"))
    bases, grid = ctx.get_heap_bases(), (4,)
    right = (rank + 1) % ctx.get_num_ranks()
    produce[grid](source, target, flags, n, rank, right, block, bases)
    consume[grid](target, flags, n, rank, block, bases)
    ctx.barrier()
    assert (values(target) == 2 * np.arange(n)).all()
    assert (values(flags) == 0).all()


@triton.jit
def gemm_atomics(a, b, c, M, N, K, here: tl.constexpr, ranks: tl.constexpr, bases, B: tl.constexpr):
    """K split over the ranks: each adds its part of a tile to everybody's C."""
    m, n = tl.program_id(0) * B + tl.arange(0, B), tl.program_id(1) * B + tl.arange(0, B)
    acc = tl.zeros([B, B], dtype=tl.float32)
    for k in range(0, K, B):
        ks = k + tl.arange(0, B)
        acc += tl.dot(
            tl.load(a + m[:, None] * K + ks[None, :]), tl.load(b + ks[:, None] * N + n[None, :])
        )
    for there in range(ranks):
        iris.atomic_add(
            c + m[:, None] * N + n[None, :], acc, here, there, bases, sem="relaxed", scope="sys"
        )


def test_gemm_with_atomics(ctx):
    m, n, k, ranks, rank = 32, 32, 32, ctx.get_num_ranks(), ctx.get_rank()
    f32 = dtype_of("float32")
    a, b = (ctx.randint(0, 3, (m, k), dtype=f32) for _ in range(2))
    c = ctx.zeros(m, n, dtype=f32)
    gemm_atomics[(2, 2)](a, b, c, m, n, k, rank, ranks, ctx.get_heap_bases(), B=16)
    ctx.barrier()
    parts = [ctx.broadcast(values(a) @ values(b), pe) for pe in range(ranks)]
    assert (values(c) == sum(parts)).all()


@triton.jit
def all_reduce_one_shot(
    data, out, n, here: tl.constexpr, ranks: tl.constexpr, B: tl.constexpr, bases
):
    offs = tl.program_id(0) * B + tl.arange(0, B)
    acc = tl.zeros([B], dtype=tl.float32)
    for there in tl.static_range(ranks):
        acc += iris.load(data + offs, here, there, bases, mask=offs < n, other=0.0)
    tl.store(out + offs, acc, mask=offs < n)


def test_one_shot_all_reduce(ctx):
    n, ranks, rank = 70, ctx.get_num_ranks(), ctx.get_rank()
    data = ctx.full((n,), rank + 1.0, dtype=dtype_of("float32"))
    out = ctx.zeros_like(data)
    all_reduce_one_shot[(3,)](data, out, n, rank, ranks, 32, ctx.get_heap_bases())
    ctx.barrier()
    assert (values(out) == ranks * (ranks + 1) / 2).all()


def test_the_object_and_its_creators(ctx, job):
    assert (ctx.cur_rank, ctx.num_ranks) == (job.my_pe, job.n_pes)
    assert len(ctx.heap_bases) == job.n_pes
    assert values(ctx.linspace(0, 1, 5)).tolist() == [0, 0.25, 0.5, 0.75, 1]
    assert values(ctx.arange(2, 8, 2)).tolist() == [2, 4, 6]
    assert values(ctx.ones((2, 3))).shape == (2, 3)
    assert ctx.empty(2, 2).shape == (2, 2)
    assert values(ctx.rand(10)).min() >= 0
    assert values(ctx.randn(4, 4)).std() > 0
    assert set(values(ctx.randint(5, (50,)))) <= set(range(5))
    assert values(ctx.uniform((20,), 2, 3)).min() >= 2
    with pytest.raises(RuntimeError, match="arrays live on"):
        ctx.zeros(3, device="cuda:99")
    with pytest.raises(ValueError, match="no range"):
        ctx.arange(3, 1)
    assert ctx.broadcast({"a": job.my_pe}, job.n_pes - 1) == {"a": job.n_pes - 1}
    ctx.info("a line")
    ctx.device_barrier()
    ctx.barrier()


def test_timing(ctx):
    runs = []
    times = iris.do_bench(
        lambda: runs.append(1), ctx.barrier, n_warmup=2, n_repeat=3, return_mode="all"
    )
    assert len(runs) == 5
    assert len(times) == 3
    assert iris.do_bench(lambda: None, n_warmup=0, n_repeat=3) >= 0
    assert len(iris.do_bench(lambda: None, n_warmup=0, n_repeat=3, quantiles=[0.1, 0.9])) == 2
    with pytest.raises(ValueError, match="return_mode"):
        iris.do_bench(lambda: None, return_mode="mode")


def test_ccl(ctx, job):
    n, me, f32 = job.n_pes, job.my_pe, dtype_of("float32")
    data, out = ctx.full((8 * n,), me + 1, dtype=f32), ctx.zeros(8 * n, dtype=f32)
    ctx.ccl.all_reduce(out, data)
    assert (values(out) == n * (n + 1) / 2).all()
    part = ctx.full((8,), me, dtype=f32)
    ctx.ccl.all_gather(out, part)
    assert (values(out) == np.repeat(np.arange(n), 8)).all()
    data[:] = values(ctx.arange(8 * n, dtype=f32))[:] + 100 * me if not torch else data
    ctx.barrier()
    if not torch:
        ctx.ccl.all_to_all(out, data)
        own = np.arange(8) + 8 * me
        assert (values(out) == np.concatenate([own + 100 * pe for pe in range(n)])).all()
    ctx.ccl.reduce_scatter(part, ctx.ones(8 * n, dtype=f32))
    assert (values(part) == n).all()
    with pytest.raises(ValueError, match="elements"):
        ctx.ccl.all_gather(ctx.zeros(3, dtype=f32), out)


@triton.jit
def load_from_rank(data, results, here, there, bases, B: tl.constexpr):
    offs = tl.arange(0, B)
    tl.store(results + offs, iris.load(data + offs, here, there, bases, mask=offs < B - 1))


@pytest.mark.skipif(not NEAR, reason="the host looks at these")
def test_ranks_and_places_that_there_are_not_are_faults_in_the_interpreter(job, ctx, fault):
    if job.device == "cuda":
        pytest.skip("on GPUs they are looked at in the checking mode alone: PYSHMEM_CHECK")
    bases, me, n = ctx.get_heap_bases(), ctx.get_rank(), ctx.get_num_ranks()
    data, results = (ctx.zeros(8, dtype=dtype_of("int32")) for _ in range(2))
    own = torch.arange(8, dtype=torch.int32) if torch else np.arange(8, dtype=np.int32)

    def load(source, there):
        load_from_rank[(1,)](source, results, me, there, bases, B=8)

    for there in (-1, n):
        message = fault(lambda there=there: load(data, there))
        assert f"device routine load: pe {there} is not one of the {n} PEs" in message
    if n > 1:
        assert "are not on the device heap" in fault(lambda: load(own, (me + 1) % n))
    load(own, me)  # the caller's own may be any
    assert values(results).tolist() == [0, 1, 2, 3, 4, 5, 6, 0]
