# SPDX-License-Identifier: BSD-3-Clause
"""Arrays that were not made on a heap, as the remote side of put and get: pyshmem.register."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from test_interrupted_collectives import PROGRAM

BEGIN = """
    import sys
    import numpy as np
    import pyshmem

    kind = sys.argv[1] if len(sys.argv) > 1 else "numpy"
    job = pyshmem.init(heap_size="16M", device_heap_size="256M" if kind == "torch" else "16M")
    me, n = job.my_pe, job.n_pes
    right, left = (me + 1) % n, (me - 1) % n

    def full(size, value):
        if kind == "cupy":
            import cupy
            return cupy.full(size, value, np.int64)
        if kind == "torch":
            import torch
            return torch.full((size,), value, dtype=torch.int64, device=f"cuda:{job.gpu}")
        return np.full(size, value, np.int64)

    def values(array):
        return pyshmem.to_numpy(array).tolist()

    def refused(call, error, text):
        try:
            call()
        except error as told:
            assert text in str(told), told
        else:
            raise AssertionError(text)
        pyshmem.barrier_all()
"""

TRANSFERS = """
    size = 100_000
    array, source = full(size, -1), full(size, me)
    held = pyshmem.register(array)
    pyshmem.put(array[7:size - 1], source[7:size - 1], right)
    pyshmem.put(array[:7], np.full(7, 10 + me), right)
    pyshmem.barrier_all()
    assert values(array) == [10 + left] * 7 + [left] * (size - 8) + [-1]
    got, mine = full(10, 0), np.zeros(10, np.int64)
    pyshmem.get(got, array[5:15], right)
    pyshmem.get_nbi(mine, array[5:15], right)
    pyshmem.quiet()
    assert values(got) == mine.tolist() == [10 + me] * 2 + [me] * 8
    pyshmem.barrier_all()
    pyshmem.put_nbi(array[:3], source[:3], right)
    pyshmem.p(array[3:4], 77, right)
    pyshmem.quiet()
    assert pyshmem.g(array[3:4], right) == 77
    sig = pyshmem.new_signal()
    pyshmem.put_signal(array[10:20], full(10, 1000 + me), sig, 1, pyshmem.SIGNAL_ADD, right)
    pyshmem.signal_wait_until(sig, pyshmem.CMP_EQ, 1)
    pyshmem.barrier_all()
    assert values(array[:11]) == [left] * 3 + [77] + [10 + left] * 3 + [left] * 3 + [1000 + left]
    assert pyshmem.addr_accessible(array, right)
    if kind != "numpy":  # in the order of a stream
        stream, word = pyshmem.streams.Stream(), pyshmem.new_signal(heap="device")
        sent, seen = full(9, 500 + me), full(4, 0)
        values(sent), values(seen)  # the streams that fill have ended
        pyshmem.put(array[11:15], sent[:4], right, stream=stream)
        pyshmem.put_signal(array[15:20], sent[4:], word, 1, pyshmem.SIGNAL_SET, right, stream=stream)
        pyshmem.signal_wait_until(word, pyshmem.CMP_EQ, 1, stream=stream)
        pyshmem.get(seen, array[11:15], right, stream=stream)
        stream.synchronize()
        assert values(array[11:20]) == [500 + left] * 9 and values(seen) == [500 + me] * 4
        pyshmem.barrier_all()
        refused(lambda: pyshmem.atomic_inc(array, right, stream=stream), ValueError, "is registered mem")
    theirs = pyshmem.ptr(array, right)
    assert (theirs is None) == (kind == "numpy" and n > 1)
    if theirs is not None:
        assert values(full(0, 0)) == [] and theirs.shape == array.shape
    pyshmem.barrier_all()
    held.unregister()
    refused(lambda: pyshmem.put(array, source, right), ValueError, "is not registered any more, since")
    refused(held.unregister, ValueError, "was unregistered before")
    with pyshmem.register(array) as again:
        assert again.array is array and again.team is pyshmem.TEAM_WORLD
        pyshmem.put(array, source, right)
        pyshmem.barrier_all()
        assert values(array) == [left] * size
    if kind == "torch":  # torch lets a tensor have other memory
        import torch
        with pyshmem.register(full(10, 3)) as again:
            again.array.data = torch.zeros(10, dtype=torch.int64, device=array.device)
            moved = again.array
            refused(lambda: pyshmem.put(moved, source[:10], right), ValueError, "not on a symmetric")
    del array
    last = pyshmem.register(full(10, 3))  # finalize ends it
    pyshmem.put(last.array, source[:10], right)
    pyshmem.finalize()
    print("ok")
"""


@pytest.mark.parametrize(("n", "check"), [(1, "0"), (3, "1")])
def test_arrays_of_numpy(run_pes: Callable, n: int, check: str) -> None:
    env = {"PYSHMEM_CHECK": check}
    done = run_pes(n, BEGIN + TRANSFERS, device="none", env=env, check=True)
    assert done.stdout.split() == ["ok"] * n


@pytest.mark.gpu
@pytest.mark.parametrize("kind", ["cupy", "torch"])
@pytest.mark.parametrize("grows", ["0", "1"])
def test_arrays_of_gpus(run_pes: Callable, kind: str, grows: str) -> None:
    env = {"PYSHMEM_DEVICE_HEAP_GROWS": grows}
    done = run_pes(2, BEGIN + TRANSFERS, [kind], device="cuda", env=env, check=True)
    assert done.stdout.split() == ["ok"] * 2


REFUSED = """
    array, other = full(100, 0), full(100, 0)
    register = pyshmem.register
    refused(lambda: register(full(0, 0)), ValueError, "it has no elements")
    refused(lambda: register(array[::2]), ValueError, "not C-contiguous")
    boxes = pyshmem.zeros(4, np.int64)
    refused(lambda: register(boxes), ValueError, "it is on a symmetric heap")
    refused(lambda: register([1, 2]), TypeError, "array is a list")
    refused(lambda: register(array, team=None), TypeError, "team is None")
    refused(lambda: pyshmem.unregister(array), TypeError, "give what register returned")
    fixed = np.zeros(4)
    fixed.flags.writeable = False
    refused(lambda: register(fixed), ValueError, "read-only")
    for objects in (np.zeros(4, object), np.zeros(4, [("a", object), ("b", int)])):
        refused(lambda: register(objects), TypeError, "holds Python objects")
    refused(lambda: register(np.ma.zeros(4)), TypeError, "masked array")
    refused(lambda: register(np.int64(3)), TypeError, "is a scalar")
    refused(lambda: register(bytearray(8)), TypeError, "is a bytearray")
    refused(lambda: register(full(0 if me == 1 else 4, 0)), ValueError, "PE 1 cannot be registered: it")
    refused(lambda: register(full(5 + me, 0)), pyshmem.MismatchError, "bytes on PE")
    refused(lambda: register(array if me else boxes), ValueError, "memory of PE 0 cannot")
    one, two = register(array), register(other)
    refused(lambda: register(array[3:5]), ValueError, "it is registered already")
    refused(lambda: pyshmem.unregister(two if me else one), pyshmem.MismatchError, "other memory")
    refused(lambda: pyshmem.atomic_inc(array, right), ValueError, "is registered memory, which put and")
    refused(lambda: pyshmem.sum_reduce(array, other), ValueError, "is registered memory, which put and")
    refused(lambda: pyshmem.iput(array, other[:9], right, dst=2), ValueError, "registered memory")
    refused(lambda: pyshmem.put(array, boxes, right, stream=0), ValueError, "is registered memory")
    refused(lambda: pyshmem.wait_until(array, pyshmem.CMP_EQ, 0), ValueError, "registered memory")
    refused(lambda: pyshmem.put(full(3, 0), other, right), ValueError, "memory of pyshmem.reg")
    everything = np.zeros(100, np.int64)
    with register(everything[:50]):
        refused(lambda: pyshmem.put(everything, array, right), ValueError, "memory of pyshmem.reg")
    row = pyshmem.TEAM_WORLD.split_strided(0, 2, 2)  # PEs 0 and 2
    if row is not None:
        with register(everything, team=row):
            pyshmem.put(everything, np.full(100, me), 2 - me)
            if me == 0:
                try:
                    pyshmem.put(everything, array, 1)
                except ValueError as error:
                    assert "PE 1 is not of the team" in str(error)
            row.sync()
            assert everything[99] == 2 - me
    pyshmem.barrier_all()
    two.unregister()
    one.unregister()
    refused(lambda: register(everything[50 * (me == 1):][:50]) and register(everything[40:60]),
            ValueError, "registered already")
    print("ok")
"""


def test_what_is_refused_says_why(run_pes: Callable) -> None:
    done = run_pes(3, BEGIN + REFUSED, device="sim", check=True)
    assert done.stdout.split() == ["ok"] * 3


ALL_KINDS = """
    import mmap, os, tempfile

    def there_and_back(array, value=1):
        with pyshmem.register(array):
            plain = np.asarray(array)
            pyshmem.put(array, np.full(plain.shape, value + me).astype(plain.dtype), right)
            pyshmem.barrier_all()
            assert (np.asarray(array) == np.full(1, value + left).astype(plain.dtype)).all(), array
            pyshmem.barrier_all()

    row = np.zeros(100, np.int64)
    not_aligned = np.frombuffer(bytearray(33), np.uint8)[1:].view(np.int64)
    for array in (row[10:20], row.reshape(10, 10)[2:4], np.zeros(()), np.zeros((2, 3, 4)), not_aligned,
                  np.matrix(np.zeros((2, 2)))):
        there_and_back(array)
    assert row[:10].sum() == row[40:].sum() == 0
    for dtype in (">i8", bool, complex, np.float16, np.longdouble, "U3", "M8[s]"):
        array = np.zeros(4, dtype)
        with pyshmem.register(array):
            pyshmem.put(array, np.array([me] * 4).astype(dtype), right)
            pyshmem.barrier_all()
            assert (array == np.array([left] * 4).astype(dtype)).all(), array
            pyshmem.barrier_all()
    fields = np.zeros(3, [("a", np.int32), ("b", np.float64)])
    with pyshmem.register(fields):
        source = fields.copy()
        source["a"], source["b"] = me, me / 2
        pyshmem.put(fields, source, right)
        pyshmem.barrier_all()
        assert fields["a"].tolist() == [left] * 3 and fields["b"].tolist() == [left / 2] * 3
        pyshmem.barrier_all()
    there_and_back(np.zeros((4, 2)) if me else np.zeros(8))  # other shapes of as many bytes

    class Memory:  # of a library that has no more than an interface
        __array_interface__ = row.__array_interface__
    there_and_back(Memory())

    with tempfile.NamedTemporaryFile() as file:
        file.write(bytes(1 << 15))
        file.flush()
        refused(lambda: pyshmem.register(np.memmap(file.name, np.int64, "r")), ValueError, "read-only")
        there_and_back(np.memmap(file.name, np.int64, "c"))
        mapped = np.memmap(file.name, np.int64, "r+")
        there_and_back(mapped)
        assert np.fromfile(file.name, np.int64)[-1] == 1 + left
        held = pyshmem.register(mapped)
        pyshmem.barrier_all()
        os.truncate(file.name, 4096)
        pyshmem.barrier_all()
        source = np.zeros(mapped.size, np.int64)  # pages without a file behind them are no crash
        if "deliver" not in os.environ["PYSHMEM_CHECK"]:  # a put that is held fails later
            refused(lambda: pyshmem.put(mapped, source, right), pyshmem.ShmemError, "cannot be reached")
        held.unregister()
        refused(lambda: pyshmem.register(mapped), pyshmem.UnsupportedError, "behind its file's end")
    left_over = pyshmem.register(row)
    pyshmem.finalize()
    for call in (left_over.unregister, lambda: pyshmem.register(row),
                 lambda: pyshmem.put(row, row.copy(), right)):
        try:
            call()
        except pyshmem.NotInitialized:
            print("no job")
    pyshmem.init(heap_size="16M", device_heap_size="16M")
    refused(left_over.unregister, ValueError, "is not of this job")
    there_and_back(row)
    print("ok")
"""


@pytest.mark.parametrize(
    ("n", "check"), [(2, "0"), (3, "1"), (2, "order"), (3, "deliver"), (2, "order,deliver")]
)
def test_all_kinds_of_arrays(run_pes: Callable, n: int, check: str) -> None:
    """What a program may have, and what it does wrong with it; under the checkers too."""
    done = run_pes(n, BEGIN + ALL_KINDS, device="none", options=[f"--check={check}"], check=True)
    assert sorted(done.stdout.split()) == ["job"] * 3 * n + ["no"] * 3 * n + ["ok"] * n


COMES = """
    array = np.zeros(8)
    team = pyshmem.TEAM_WORLD.split_strided(0, 1, n)
    held = pyshmem.register(array), pyshmem.register(np.zeros(4), team=team)
    calls = dict(
        register=lambda: pyshmem.register(np.zeros(4)), unregister=held[0].unregister,
        team_register=lambda: pyshmem.register(np.zeros(5), team=team),
        team_unregister=held[1].unregister,
    )
    other = team.sync if kind.startswith("team") else pyshmem.barrier_all
    try:
        (other if me else calls[kind])()
    except pyshmem.MismatchError as error:
        print(me, error)
"""


@pytest.mark.parametrize("kind", ["register", "unregister", "team_register", "team_unregister"])
def test_who_does_not_come_is_told(run_pes: Callable, kind: str) -> None:
    done = run_pes(3, BEGIN + COMES, [kind], device="none", env={"PYSHMEM_TIMEOUT": "20"})
    (told,) = [line for line in done.stdout.splitlines() if line.startswith("0 ")]
    routine = kind.removeprefix("team_")
    assert routine in told, told
    assert ("another collective routine" if kind != routine else "called barrier_all") in told, told


#: See test_interrupted_collectives.py.
ENDED = {
    "register": (
        "pyshmem.register(globals().setdefault('array%d' % i, np.zeros(4)))",
        "made.array is globals()['array%d' % i]",
    ),
    "heap_trim": ("pyshmem.heap_trim()", "made is None"),
}


def test_what_a_handler_ends_goes_on(run_pes: Callable) -> None:
    program = PROGRAM.format(calls=ENDED, turns=20)
    env = {"PYSHMEM_TIMEOUT": "60"}
    done = run_pes(2, program, device="sim", env=env, timeout=150, check=True)
    assert done.stdout.count("done") == 2


KERNEL = """
    import pyshmem.device as shmem
    from numba import cuda

    @cuda.jit
    def store(dest, source, right):
        shmem.put(dest, source, right)

    array, source = full(4, 0), pyshmem.zeros(4, dtype=np.int64, heap="device")
    pyshmem.register(array)
    store[1, 1](cuda.to_device(array) if kind == "numpy" else array, source, right)
    cuda.synchronize()
    pyshmem.quiet()
    print("not refused")
"""


@pytest.mark.parametrize("kind", ["numpy", pytest.param("cupy", marks=pytest.mark.gpu)])
def test_kernels_do_not_take_them(run_pes: Callable, kind: str) -> None:
    done = run_pes(1, BEGIN + KERNEL, [kind], device="sim" if kind == "numpy" else "cuda")
    assert "not refused" not in done.stdout
    assert "heap" in done.stderr


STORES = """
    import torch, triton
    import triton.language as tl
    from numba import cuda

    @cuda.jit
    def store(theirs, source):
        k = cuda.grid(1)
        if k < source.size:
            theirs[k] = source[k]

    @triton.jit
    def store_tile(theirs, source, n, TILE: tl.constexpr):
        at = tl.program_id(0) * TILE + tl.arange(0, TILE)
        theirs = theirs.to(tl.pointer_type(tl.int64))
        tl.store(theirs + at, tl.load(source + at, mask=at < n), mask=at < n)

    size = 100_000
    array, source = full(size, -1), torch.arange(size, device=f"cuda:{job.gpu}") + me
    pyshmem.register(array)
    theirs = pyshmem.ptr(array, right)
    store[(size + 255) // 256, 256](theirs, source)
    cuda.synchronize()
    pyshmem.barrier_all()
    assert values(array) == list(range(left, size + left))
    pyshmem.barrier_all()
    source += 1000
    address = theirs.__cuda_array_interface__["data"][0]
    store_tile[((size + 1023) // 1024,)](address, source, size, TILE=1024)
    torch.cuda.synchronize()
    pyshmem.barrier_all()
    assert values(array) == list(range(1000 + left, size + 1000 + left))
    print("ok")
"""


@pytest.mark.gpu
@pytest.mark.parametrize("kind", ["cupy", "torch"])
def test_kernels_store_to_the_peers_address(run_pes: Callable, kind: str) -> None:
    done = run_pes(2, BEGIN + STORES, [kind], device="cuda", check=True)
    assert done.stdout.split() == ["ok"] * 2


FUSED = """
    import torch
    from pyshmem import fused

    where = f"cuda:{job.gpu}"
    torch.manual_seed(me)

    def empty(*size):
        tensor = torch.empty(size, dtype=torch.bfloat16, device=where)
        pyshmem.register(tensor)
        return tensor

    def is_same(called, out, *given, **options):
        wanted = called(*[t.clone() for t in given], **options)
        done = called(*given, out=out, **options)
        done, wanted = (t if torch.is_tensor(t) else t.output for t in (done, wanted))
        assert done.data_ptr() == out.data_ptr() and torch.equal(done, wanted), (called, options)

    x = empty(64, 1024).normal_()
    weight = torch.ones(1024, dtype=x.dtype, device=where)
    for algorithm in (None, "one_shot", "pull", "push", "two_shot"):
        is_same(fused.all_reduce_rmsnorm, empty(64, 1024), x, weight, algorithm=algorithm)
    w = torch.full((1024, 512), 0.25, dtype=x.dtype, device=where)
    for algorithm in (None, "copy_engine", "persistent", "unfused"):
        is_same(fused.matmul_all_reduce, empty(64, 512), x, w, algorithm=algorithm)
        is_same(fused.matmul_reduce_scatter, empty(64 // n, 512), x, w, algorithm=algorithm)
        is_same(fused.all_gather_matmul, empty(64 * n, 512), x, w, algorithm=algorithm)
    print("ok")
"""


@pytest.mark.gpu
def test_fused_operations_take_them(run_pes: Callable) -> None:
    done = run_pes(2, BEGIN + FUSED, ["torch"], device="cuda", timeout=150, check=True)
    assert done.stdout.split() == ["ok"] * 2


KINDS = """
    import cupy, torch
    spread = torch.empty(1 << 20, dtype=torch.uint8, device=f"cuda:{job.gpu}")
    refused(lambda: pyshmem.register(spread), pyshmem.UnsupportedError, "expandable_segments:False")
    managed = cupy.ndarray(100, memptr=cupy.cuda.malloc_managed(800))
    refused(lambda: pyshmem.register(managed), pyshmem.UnsupportedError, "it is managed memory")
    pooled = cupy.ndarray(100, memptr=cupy.cuda.malloc_async(800))
    refused(lambda: pyshmem.register(pooled), pyshmem.UnsupportedError, "cudaMallocAsync")
    print("ok")
"""


@pytest.mark.gpu
def test_kinds_of_memory_that_are_refused(run_pes: Callable) -> None:
    env = {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}
    done = run_pes(2, BEGIN + KINDS, ["cupy"], device="cuda", env=env, check=True)
    assert done.stdout.split() == ["ok"] * 2
