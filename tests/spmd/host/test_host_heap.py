# SPDX-License-Identifier: BSD-3-Clause
"""The heaps: arrays at equal places on all PEs, made, freed, dropped, looked at."""

from __future__ import annotations

import copy
import gc
import itertools
import pickle
import random

import ml_dtypes
import numpy as np
import pytest
from reference import pattern

import pyshmem
from pyshmem._core.library import HEAPS, check, ffi, lib


def offset_of(array, heap):
    """Bytes from the base of this PE's heap."""
    base = ffi.new("uintptr_t *")
    check(lib.ishmemx_heap_range(HEAPS[heap], base, ffi.new("int64_t *")))
    return array.__array_interface__["data"][0] - base[0]


def drop_all():
    """Free what earlier tests dropped, and return the state of the heaps as a function."""
    gc.collect()
    pyshmem.drain()


@pytest.fixture
def in_memory(job, heap):
    """The heap's name, when the CPU can reach its arrays."""
    if heap == "device" and job.device == "cuda":
        pytest.skip("a GPU's memory")
    return heap


# ---- making ------------------------------------------------------------------------------------


def makers(pe, heap):
    """What each routine makes here, and what NumPy makes of it."""
    like = pyshmem.zeros((2, 3), np.int16, heap=heap)
    return [
        (pyshmem.zeros((4, 2), "f4", heap=heap), np.zeros((4, 2), "f4")),
        (pyshmem.ones(3, heap=heap), np.ones(3)),
        (pyshmem.full((2, 2), pe, heap=heap), np.full((2, 2), pe)),
        (pyshmem.full(2, 2.5 + pe, np.float32, heap=heap), np.full(2, 2.5 + pe, np.float32)),
        (pyshmem.array([[pe, 1], [2, 3]], heap=heap), np.array([[pe, 1], [2, 3]])),
        (
            pyshmem.array(np.arange(12.0).reshape(3, 4).T, heap=heap),
            np.arange(12.0).reshape(3, 4).T,
        ),
        (pyshmem.array([1, 2, 3], np.uint8, heap=heap), np.array([1, 2, 3], np.uint8)),
        (pyshmem.arange(5, heap=heap), np.arange(5)),
        (pyshmem.arange(pe, pe + 6, 2, "i2", heap=heap), np.arange(pe, pe + 6, 2, "i2")),
        (pyshmem.zeros_like(like), np.zeros((2, 3), np.int16)),
        (pyshmem.ones_like(like, np.float64), np.ones((2, 3))),
        (pyshmem.full_like(like, pe), np.full((2, 3), pe, np.int16)),
        (pyshmem.new_signal((2, 2), heap=heap), np.zeros((2, 2), np.uint64)),
    ]


def test_makers_set_the_elements_of_their_own_pe(job, heap):
    for made, expected in makers(job.my_pe, heap):
        found = pyshmem.to_numpy(made)
        assert found.dtype == expected.dtype
        assert found.shape == expected.shape
        assert (found == expected).all()
    for made in (
        pyshmem.empty((2, 5), "c8", heap=heap),
        pyshmem.empty_like(np.zeros(3), heap=heap),
    ):
        assert made.shape in ((2, 5), (3,))


@pytest.mark.parametrize(
    "maker",
    [
        lambda heap: pyshmem.zeros(4, np.int64, heap=heap),
        lambda heap: pyshmem.full(4, 0, np.int64, heap=heap),
        lambda heap: pyshmem.array(np.zeros(4, np.int64), heap=heap),
        lambda heap: pyshmem.arange(0, 4, heap=heap),
        lambda heap: pyshmem.ones_like(np.zeros(4, np.int64), heap=heap),
    ],
    ids=["zeros", "full", "array", "arange", "ones_like"],
)
def test_a_put_right_after_the_array_is_made_is_not_lost(job, right, left, heap, maker):
    for i in range(50):
        array = maker(heap)
        pyshmem.p(array, 1000 * i + job.my_pe, right)
        pyshmem.barrier_all()
        assert pyshmem.to_numpy(array)[0] == 1000 * i + left


@pytest.mark.parametrize(
    "dtype", ["bfloat16", "float16", "longdouble", [("a", "i4"), ("b", "f8", (3,))], "S5"]
)
def test_unusual_dtypes_are_stored_and_moved(job, right, left, heap, dtype):
    try:
        dest = pyshmem.zeros((2, 3), dtype, heap=heap)
    except pyshmem.UnsupportedError as error:
        pytest.skip(str(error))
    kind = np.dtype(ml_dtypes.bfloat16) if dtype == "bfloat16" else np.dtype(dtype)
    assert dest.dtype == kind
    raw = pattern(6 * kind.itemsize, "uint8", job.my_pe) % 100
    pyshmem.put(dest, raw.view(kind), right)
    pyshmem.barrier_all()
    expected = pattern(6 * kind.itemsize, "uint8", left) % 100
    assert pyshmem.to_numpy(dest).tobytes() == expected.tobytes()


def test_arrays_lie_at_the_same_place_of_every_pe(job, in_memory, same_everywhere):
    """Any sequence of allocating and freeing; each PE also holds ordinary memory of another size."""
    generator = random.Random(5)
    ballast = [bytearray(job.my_pe * 1000 + 1)]
    live, places = [], []
    for _ in range(150):
        if live and generator.random() < 0.45:
            pyshmem.free(live.pop(generator.randrange(len(live))))
        else:
            live.append(pyshmem.empty(generator.randrange(1, 5000), np.uint8, heap=in_memory))
            places.append(offset_of(live[-1], in_memory))
            ballast.append(bytearray(job.my_pe * 37 + 1))
    same_everywhere(np.array(places))
    ranges = sorted((offset_of(a, in_memory), offset_of(a, in_memory) + a.nbytes) for a in live)
    for (_, end), (begin, _) in itertools.pairwise(ranges):
        assert end <= begin
    for array in live:
        assert offset_of(array, in_memory) % 64 == 0


def test_arrays_without_elements_take_no_memory(heap):
    drop_all()
    before = pyshmem.heap_info(heap)
    for shape in (0, (0, 3), (2, 0)):
        array = pyshmem.zeros(shape, heap=heap)
        assert array.size == 0
        pyshmem.free(array)
    assert pyshmem.heap_info(heap) == before
    assert pyshmem.zeros((), np.int32, heap=heap).shape == ()


def test_arrays_without_elements_are_of_their_heap_all_the_same(heap):
    drop_all()
    before = pyshmem.heap_info(heap).allocations
    array = pyshmem.realloc(pyshmem.ones(3, heap=heap), 0)
    like = pyshmem.realloc(pyshmem.empty_like(array), 2)
    array = pyshmem.realloc(array, 4)
    assert pyshmem.heap_info(heap).allocations == before + 2
    assert (array.size, like.size) == (4, 2)


# ---- freeing -------------------------------------------------------------------------------------


def test_freed_memory_is_used_again(heap):
    drop_all()
    before = pyshmem.heap_info(heap)
    for _ in range(20):
        array = pyshmem.empty(1 << 20, np.uint8, heap=heap)
        assert pyshmem.heap_info(heap).allocations == before.allocations + 1
        pyshmem.free(array)
    assert pyshmem.heap_info(heap) == before


def test_freeing_twice_is_refused_and_changes_nothing(heap):
    drop_all()
    array, other = pyshmem.zeros(100, heap=heap), pyshmem.ones(100, heap=heap)
    pyshmem.free(array)
    info = pyshmem.heap_info(heap)
    with pytest.raises(ValueError, match="freed"):
        pyshmem.free(array)
    for use in (
        lambda: pyshmem.put(array, np.zeros(100), 0),
        lambda: pyshmem.get(np.zeros(100), array, 0),
    ):
        with pytest.raises(ValueError, match="freed"):
            use()
    assert pyshmem.heap_info(heap) == info
    assert (pyshmem.to_numpy(other) == 1).all()


USES = {
    "an element": lambda array: array[0],
    "an assignment": lambda array: array.__setitem__(0, 1),
    "a slice": lambda array: array[1:],
    "arithmetic": lambda array: 1 + array,
    "in place": lambda array: array.__iadd__(1),
    "a ufunc": lambda array: np.add(1, 2, out=array),
    "a function": lambda array: np.concatenate([array, array]),
    "a method": lambda array: array.sum(),
    "a filling": lambda array: array.fill(1),
    "a loop": list,
    "a member": lambda array: 1 in array,
    "a number": lambda array: float(array[:1].reshape(())),
    "a copy": copy.copy,
    "a pickle": pickle.dumps,
    "a text": lambda array: f"{array}",
    "to_numpy": pyshmem.to_numpy,
}


@pytest.mark.parametrize("use", USES)
def test_what_was_freed_cannot_be_looked_at(use):
    array = pyshmem.ones(4)
    USES[use](array)
    pyshmem.free(array)
    with pytest.raises(ValueError, match="cannot be used any more: it was freed"):
        USES[use](array)
    assert repr(array) == "<SymmetricArray of shape (4,), float64: it was freed>"
    assert (array.shape, array.dtype, array.heap) == ((4,), np.float64, None)


def test_what_was_reallocated_cannot_be_looked_at():
    array = pyshmem.ones(4)
    longer = pyshmem.realloc(array, 8)
    assert longer[0] == 1
    with pytest.raises(ValueError, match=r"it was reallocated; go on with what .*: a = "):
        array[0]
    with pytest.raises(ValueError, match="cannot be reallocated: it was reallocated"):
        pyshmem.realloc(array, 2)


def test_a_full_heap_says_what_there_is_and_goes_on(job, fixed_heap):
    heap = fixed_heap
    drop_all()
    before = pyshmem.heap_info(heap)
    setting = "PYSHMEM_HEAP_SIZE" if heap == "host" else "PYSHMEM_DEVICE_HEAP_SIZE"
    message = rf"{heap} heap exhausted: 2\.0 GiB requested, .* free, largest block .*; "
    message += rf"raise {setting}, or the \w+ that init is given \(now 64\.0 MiB"
    with pytest.raises(pyshmem.HeapExhausted, match=message):
        pyshmem.zeros(1 << 31, np.uint8, heap=heap)
    with pytest.raises(MemoryError):
        pyshmem.empty(before.largest_free + 1, np.uint8, heap=heap)
    assert pyshmem.heap_info(heap) == before
    everything = pyshmem.empty(before.largest_free, np.uint8, heap=heap)
    pyshmem.free(everything)
    assert pyshmem.heap_info(heap) == before


def test_dropped_arrays_make_room_when_the_heap_is_full(fixed_heap):
    heap = fixed_heap
    drop_all()
    half = int(pyshmem.heap_info(heap).largest_free * 0.6)
    for _ in range(5):
        array = pyshmem.empty(half, np.uint8, heap=heap)  # the one before is only dropped
        del array


def test_a_dropped_array_is_freed_when_every_pe_has_dropped_it(job, heap):
    drop_all()
    before = pyshmem.heap_info(heap)
    array = pyshmem.zeros(1000, heap=heap)
    kept = array[10:20] if job.my_pe == 0 else None
    del array
    pyshmem.barrier_all()
    pyshmem.drain()
    info = pyshmem.heap_info(heap)
    assert info.allocations == before.allocations + 1
    assert info.released == before.released + (job.my_pe != 0)
    assert kept is None or pyshmem.to_numpy(kept).tolist() == [0.0] * 10
    pyshmem.barrier_all()
    del kept
    pyshmem.barrier_all()
    assert pyshmem.heap_info(heap) == before


def test_arrays_may_be_dropped_in_any_order(job, heap, same_everywhere):
    drop_all()
    before = pyshmem.heap_info(heap)
    arrays = [pyshmem.empty(100 + i, np.uint8, heap=heap) for i in range(700)]
    random.Random(job.my_pe).shuffle(arrays)
    while arrays:
        del arrays[-70:]
        pyshmem.barrier_all()
    pyshmem.barrier_all()
    assert pyshmem.heap_info(heap) == before


def test_different_requests_are_told_to_all_and_nothing_is_lost(job, heap):
    if job.n_pes == 1:
        pytest.skip("one PE agrees with itself")
    drop_all()
    before = pyshmem.heap_info(heap)
    array = pyshmem.zeros(10, heap=heap)
    odd = job.my_pe == job.n_pes - 1
    calls = [
        lambda: pyshmem.empty(9 if odd else 8, heap=heap),
        lambda: pyshmem.free(array) if odd else pyshmem.zeros(3, heap=heap),
        lambda: pyshmem.zeros(4, heap=heap) if odd else pyshmem.empty(4, heap=heap),
    ]
    for call in calls:
        with pytest.raises(
            pyshmem.MismatchError, match=rf"PE 0 .*(?:[;,]|while) PE {job.n_pes - 1} "
        ):
            call()
    pyshmem.free(array)
    assert pyshmem.heap_info(heap) == before


PLAIN = ("empty", "zeros", "ones", "full")
MAKERS = (*PLAIN, *(f"{name}_like" for name in PLAIN), "array", "arange", "new_signal")


@pytest.mark.parametrize("name", MAKERS)
def test_a_mismatch_names_the_routines_that_were_called(job, heap, name):
    if job.n_pes == 1:
        pytest.skip("one PE agrees with itself")
    of_all = np.zeros(7 + job.my_pe)
    more = {"array": (of_all,), "full": (of_all.shape, 1), "full_like": (of_all, 1)}
    given = more.get(name, (of_all if name.endswith("_like") else of_all.size,))
    last, others = job.n_pes - 1, {"new_signal": "uint64", "full": "int64", "arange": "int64"}
    kind = others.get(name, "float64")
    one, two = (rf"shape \({7 + pe},\) {kind}" for pe in (0, 1))
    told = f"^{name}: PE 0 asks for {one}, PE 1 for {two}; all PEs give the same shape and dtype"
    with pytest.raises(pyshmem.MismatchError, match=told):
        getattr(pyshmem, name)(*given, heap=heap)
    odd, even = (name, "ones") if name != "ones" else (name, "full")
    other = {
        "ones": lambda: pyshmem.ones(99, heap=heap),
        "full": lambda: pyshmem.full(99, 1, heap=heap),
    }
    with pytest.raises(
        pyshmem.MismatchError, match=f"PE 0 called {even} while PE {last} called {odd};"
    ):
        getattr(pyshmem, name)(*given, heap=heap) if job.my_pe == last else other[even]()


def test_a_mismatch_names_what_differs(job, heap):
    """In the words of the program's arguments, on all PEs."""
    if job.n_pes == 1:
        pytest.skip("one PE agrees with itself")
    last = job.n_pes - 1
    odd = job.my_pe == last
    one, two = pyshmem.zeros(4, heap=heap), pyshmem.zeros(4, heap=heap)
    calls = {
        rf"^empty: PE 0 asks for an align of 64, PE {last} for 128;": lambda: pyshmem.empty(
            4, heap=heap, align=128 if odd else 64
        ),
        rf"^ones: PE 0 asks for shape \(2,\) float64, PE {last} for shape \(4,\) float64;": (
            lambda: pyshmem.ones(4 if odd else 2, heap=heap)
        ),
        r"^free: PE 0 gives its allocation (\d+), PE \d+ its allocation \d+; all PEs make and free": (
            lambda: pyshmem.free(two if odd else one)
        ),
    }
    if job.device == "sim":
        other = "host" if heap == "device" else "device"
        calls[rf"^full: PE 0 asks for the {heap} heap, PE {last} for the {other} heap; all"] = (
            lambda: pyshmem.full(4, 1.0, heap=other if odd else heap)
        )
    before = pyshmem.heap_info(heap)
    for told, call in calls.items():
        with pytest.raises(pyshmem.MismatchError, match=told):
            call()
    assert pyshmem.heap_info(heap) == before
    pyshmem.free(one)
    pyshmem.free(two)


def test_an_allocation_against_a_barrier_is_told_to_all(job):
    if job.n_pes == 1:
        pytest.skip("one PE agrees with itself")
    calls = [pyshmem.barrier_all, pyshmem.sync_all, lambda: pyshmem.zeros(3)]
    for first, second in ((0, 2), (2, 0), (2, 1)):
        with pytest.raises(pyshmem.MismatchError, match=r"PE \d called .* while PE \d called"):
            calls[first if job.my_pe == 0 else second]()
    assert pyshmem.zeros(3).tolist() == [0.0] * 3


# ---- looking -------------------------------------------------------------------------------------


def test_ptr_is_the_other_pes_memory(job, right, left, in_memory):
    array = pyshmem.array(pattern(12, "int32", job.my_pe), heap=in_memory).reshape(3, 4)
    theirs = pyshmem.ptr(array, right)
    if any(pyshmem.ptr(array, pe) is None for pe in range(job.n_pes)):
        pytest.skip("PEs are on other hosts")
    assert theirs.shape == (3, 4)
    assert (theirs == pattern(12, "int32", right).reshape(3, 4)).all()
    assert (pyshmem.ptr(array[1:, :], right) == theirs[1:]).all()
    pyshmem.barrier_all()
    theirs[2] = -job.my_pe
    pyshmem.barrier_all()
    assert (array[2] == -left).all()
    own = pyshmem.ptr(array, job.my_pe)
    own[0, 0] = 77
    assert array[0, 0] == 77


def test_ptr_keeps_the_array(job, in_memory):
    drop_all()
    window = pyshmem.ptr(pyshmem.full(8, 3, heap=in_memory), job.my_pe)
    gc.collect()
    pyshmem.barrier_all()
    other = pyshmem.zeros(8, int, heap=in_memory)
    assert (window == 3).all()
    del other


def test_views_keep_the_memory(job, right, left, in_memory):
    view = pyshmem.arange(100, heap=in_memory)[50:].reshape(5, 10)[1:3, 2:]
    gc.collect()
    pyshmem.barrier_all()
    others = [pyshmem.zeros(100, int, heap=in_memory) for _ in range(3)]
    assert (view == np.arange(100)[50:].reshape(5, 10)[1:3, 2:]).all()
    pyshmem.barrier_all()
    pyshmem.put(view[1, :4], np.full(4, job.my_pe), right)
    pyshmem.barrier_all()
    assert (view[1, :4] == left).all()
    del others


def test_to_numpy_is_a_copy(heap):
    array = pyshmem.ones(4, heap=heap)
    copy = pyshmem.to_numpy(array)
    copy[:] = 5
    assert type(copy) is np.ndarray
    assert pyshmem.to_numpy(array).tolist() == [1.0] * 4


#: What PE 0 and the others make of as many bytes.
OTHER_ARRAYS = {
    "dtypes": lambda first, heap: pyshmem.zeros(4, "i4" if first else "f4", heap=heap),
    "numbers": lambda first, heap: pyshmem.empty(
        4 if first else 8, "i8" if first else "i4", heap=heap
    ),
    "shapes": lambda first, heap: pyshmem.ones((2, 4) if first else (4, 2), heap=heap),
    "byte orders": lambda first, heap: pyshmem.full(4, 1, "<i4" if first else ">i4", heap="host"),
    "arrays": lambda first, heap: pyshmem.array([[1, 2]] if first else [1, 2], heap=heap),
    "ranges": lambda first, heap: pyshmem.arange(4, dtype="u8" if first else "i8", heap=heap),
    "records": lambda first, heap: pyshmem.zeros(1, [("a" if first else "b", "i4")], heap=heap),
    "long ones": lambda first, heap: pyshmem.zeros(
        1, [(f"field{k}", "i4") for k in range(20)] + [("a" if first else "b", "i4")], heap=heap
    ),
    "likes": lambda first, heap: pyshmem.zeros_like(
        np.zeros((2, 4) if first else (4, 2)), heap=heap
    ),
    "signals": lambda first, heap: pyshmem.new_signal((2, 1) if first else (1, 2), heap=heap),
    "more after": lambda first, heap: pyshmem.realloc(
        pyshmem.zeros(2, heap=heap), (2, 4) if first else (4, 2)
    ),
}


@pytest.mark.parametrize("what", OTHER_ARRAYS)
def test_arrays_of_other_shapes_and_dtypes_are_told(job, heap, what):
    if job.n_pes == 1:
        pytest.skip("one PE agrees with itself")
    make = OTHER_ARRAYS[what]
    with pytest.raises(
        pyshmem.MismatchError, match=r": PE 0 asks for shape \(.*, PE 1 for shape \("
    ):
        make(job.my_pe == 0, heap)
    assert make(True, heap).nbytes
