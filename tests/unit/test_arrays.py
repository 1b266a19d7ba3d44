# SPDX-License-Identifier: BSD-3-Clause
"""Arrays: which are accepted, what views and copies are, when their memory goes back."""

from __future__ import annotations

import gc
import pickle
import sys
from collections.abc import Iterator
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import pyshmem
from pyshmem._core import _fast, library
from pyshmem._core.type_table import ELEMENTS
from pyshmem.host.teams import contexts

DTYPES = [
    *(element.dtype for element in ELEMENTS),
    "float8_e4m3fn", ">i4", "datetime64[s]", "S3", "U2", "V16", [("a", "i4"), ("b", "f8", (2,))],
]  # fmt: skip


@pytest.fixture(autouse=True, scope="module")
def job() -> Iterator[pyshmem.Job]:
    with pyshmem.init(heap_size="4M", device_heap_size="1M", device="sim") as running:
        yield running


@pytest.fixture(params=["host", "device"])
def heap(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def as_dtype(dtype: Any) -> np.dtype:
    named = getattr(ml_dtypes, dtype, None) if isinstance(dtype, str) else None
    return np.dtype(named or dtype)


def sample(dtype: np.dtype) -> Any:
    """A scalar that is not zero."""
    if dtype.fields:
        return np.array((1, (2.5, 3.5)), dtype)[()]
    if dtype.kind == "U" or dtype.kind == "S":
        return np.array("ab", dtype)[()]
    if dtype.type is np.void:
        return np.array(bytes(range(1, dtype.itemsize + 1)), dtype)[()]
    return np.array(1).astype(dtype)[()]


# ---- making ------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_every_dtype_can_be_stored_put_and_got(dtype: Any, heap: str) -> None:
    expected = np.frombuffer(bytes(range(1, 6 * as_dtype(dtype).itemsize + 1)), np.uint8)
    expected = expected.view(as_dtype(dtype)).reshape(2, 3)
    source = pyshmem.zeros((2, 3), dtype, heap=heap)
    dest = pyshmem.empty_like(source)
    assert source.dtype == dest.dtype == expected.dtype
    assert source.heap == dest.heap == heap
    assert source.tobytes() == bytes(source.nbytes)
    pyshmem.put(source, expected, 0)
    pyshmem.put(dest, source, 0)
    local = np.zeros_like(expected)
    pyshmem.get(local, dest, 0)
    assert local.tobytes() == expected.tobytes()


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_p_and_g_carry_one_value_of_every_dtype(dtype: Any) -> None:
    value = sample(as_dtype(dtype))
    dest = pyshmem.zeros(2, dtype)
    pyshmem.p(dest, value, 0)
    assert dest[0] == value
    assert dest[1] != value
    assert pyshmem.g(dest, 0) == value


def test_values_of_p_and_g_are_python_scalars() -> None:
    for dtype, value in (("i4", -7919), ("u8", 2**64 - 7919), ("f4", 0.5), ("f8", -7919.0)):
        dest = pyshmem.zeros(1, dtype)
        pyshmem.p(dest, value, 0)  # -7919 is the marker of a failed call: no failure here
        got = pyshmem.g(dest, 0)
        assert got == value
        assert type(got) is type(value)
    flag = pyshmem.zeros(1, bool)
    pyshmem.p(flag, True, 0)
    assert pyshmem.g(flag, 0) is True


def test_makers_agree_with_numpy(heap: str) -> None:
    pairs = [
        (pyshmem.zeros((2, 3), heap=heap), np.zeros((2, 3))),
        (pyshmem.ones(4, int, heap=heap), np.ones(4, int)),
        (pyshmem.full((2,), 7, heap=heap), np.full((2,), 7)),
        (pyshmem.full([2, 2], 1.5, "f4", heap=heap), np.full((2, 2), 1.5, "f4")),
        (pyshmem.array([[1, 2], [3, 4]], heap=heap), np.array([[1, 2], [3, 4]])),
        (pyshmem.arange(5, heap=heap), np.arange(5)),
        (pyshmem.arange(1, 9, 3, "f4", heap=heap), np.arange(1, 9, 3, "f4")),
        (pyshmem.new_signal(3, heap=heap), np.zeros(3, np.uint64)),
        (pyshmem.zeros((), heap=heap), np.zeros(())),
        (pyshmem.zeros((0, 4), heap=heap), np.zeros((0, 4))),
    ]
    for made, expected in pairs:
        assert isinstance(made, pyshmem.SymmetricArray)
        assert made.dtype == expected.dtype
        assert made.shape == expected.shape
        assert (made == expected).all()


def test_like_makers_take_shape_dtype_and_heap(heap: str) -> None:
    prototype = pyshmem.arange(6, dtype="f4", heap=heap)
    for made in (pyshmem.zeros_like(prototype), pyshmem.full_like(prototype, 3)):
        assert (made.shape, made.dtype, made.heap) == ((6,), np.float32, heap)
    other = pyshmem.ones_like(prototype, np.int8, heap="host")
    assert (other.shape, other.dtype, other.heap) == ((6,), np.int8, "host")
    assert pyshmem.empty_like(np.zeros((2, 2))).heap == "host"


def test_bfloat16_by_any_name() -> None:
    for name in ("bfloat16", ml_dtypes.bfloat16, np.dtype(ml_dtypes.bfloat16)):
        assert pyshmem.zeros(2, name).dtype == ml_dtypes.bfloat16


# ---- views and copies --------------------------------------------------------------------------


def test_views_are_symmetric_and_keep_their_own_place() -> None:
    array = pyshmem.arange(12)
    grid = array.reshape(3, 4)
    pyshmem.put(array, array, 0)  # what array keeps must not pass to its views
    pyshmem.put(grid[1], np.full(4, -1), 0)
    assert array.tolist() == [0, 1, 2, 3, -1, -1, -1, -1, 8, 9, 10, 11]
    pyshmem.put(array[10:], np.array([5, 6]), 0)
    assert array[10:].tolist() == [5, 6]
    assert pyshmem.g(array[4:], 0) == -1
    with pytest.raises(ValueError, match="contiguous"):
        pyshmem.get(np.empty(3, int), grid[:, 1], 0)


def test_a_squeezed_array_is_a_view() -> None:
    array = pyshmem.zeros((1, 3, 1))
    for view in (
        array.squeeze(),
        np.squeeze(array),
        array.squeeze(axis=0),
        array.T.squeeze((0, 2)),
    ):
        assert (type(view), view.heap) == (pyshmem.SymmetricArray, "host")
        assert view.shape == np.zeros((1, 3, 1)).squeeze(0 if view.ndim == 2 else None).shape
        view += 1
    assert array.ravel().tolist() == [4, 4, 4]
    with pytest.raises(ValueError, match="not equal to one"):
        array.squeeze(1)
    pyshmem.free(array)
    with pytest.raises(ValueError, match="freed"):
        pyshmem.put(view, np.zeros(3), 0)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_changing_dtype_in_place_is_noticed() -> None:
    array = pyshmem.zeros(4, np.float64)
    pyshmem.put(array, np.ones(4), 0)
    array.dtype = np.int64
    with pytest.raises(TypeError, match="int64"):
        pyshmem.put(array, np.ones(4), 0)
    pyshmem.put(array, np.arange(4), 0)
    assert array.tolist() == [0, 1, 2, 3]


def test_copies_and_results_are_ordinary_arrays() -> None:
    array = pyshmem.arange(4)
    for made in (array.copy(), array + 1, np.sqrt(array), array.sum(axis=0), np.array(array)):
        assert not isinstance(made, pyshmem.SymmetricArray)
    taken = array[[0, 2]]
    assert getattr(taken, "heap", None) is None
    array += 1
    assert isinstance(array, pyshmem.SymmetricArray)
    assert np.add(array, 1, out=array) is array
    assert array.heap == "host"
    again = pickle.loads(pickle.dumps(array))
    assert type(again) is np.ndarray
    assert (again == array).all()
    host = pyshmem.to_numpy(array)
    array[...] = 0
    assert host.tolist() == [2, 3, 4, 5]


def test_ptr_views_the_copy_on_a_pe() -> None:
    array = pyshmem.arange(6).reshape(2, 3)
    mirror = pyshmem.ptr(array, 0)
    mirror[1, 2] = 99
    assert array[1, 2] == 99
    assert pyshmem.ptr(array[1:], 0).tolist() == [[3, 4, 99]]
    with pytest.raises(ValueError, match="pe 1"):
        pyshmem.ptr(array, 1)


# ---- lifetime ----------------------------------------------------------------------------------


def test_dropped_arrays_go_back_at_the_next_collective(heap: str) -> None:
    gc.collect()
    pyshmem.drain()
    before = pyshmem.heap_info(heap)
    array = pyshmem.zeros(1000, heap=heap)
    view = array[10:20]
    del array
    pyshmem.drain()
    assert pyshmem.heap_info(heap).allocations == before.allocations + 1
    del view
    pyshmem.barrier_all()
    assert pyshmem.heap_info(heap) == before


def test_free_gives_back_at_once_and_only_once(heap: str) -> None:
    pyshmem.drain()
    before = pyshmem.heap_info(heap).used
    array = pyshmem.zeros(1000, heap=heap)
    assert pyshmem.heap_info(heap).used >= before + 8000
    pyshmem.free(array)
    assert pyshmem.heap_info(heap).used == before
    other = pyshmem.zeros(1000, heap=heap)  # takes the same place
    del array
    pyshmem.drain()
    assert pyshmem.heap_info(heap).used > before
    pyshmem.free(other)


def test_nothing_is_allocated_for_nothing() -> None:
    before = pyshmem.heap_info().allocations
    array = pyshmem.zeros((0, 5))
    assert pyshmem.heap_info().allocations == before
    pyshmem.put(array, array, 0)
    pyshmem.get(np.zeros(0), array, 0)
    pyshmem.sum_reduce(array, array)
    pyshmem.free(array)


class Outstanding:
    """The library, with an operation that is never complete before ``quiet``."""

    def __getattr__(self, name: str) -> object:
        return (lambda: 1) if name == "ishmemx_outstanding" else getattr(library.lib, name)


@pytest.mark.parametrize("outstanding", [False, True])
def test_an_nbi_source_lives_until_quiet(
    outstanding: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the conduit completes operations at once nothing needs to be kept."""
    if outstanding:
        monkeypatch.setattr(contexts, "lib", Outstanding())
        _fast.know_job(True)
    dest = pyshmem.zeros(4)
    source = np.arange(4.0)
    held = sys.getrefcount(source)
    pyshmem.put_nbi(dest, source, 0)
    _fast.know_job(False)
    assert (sys.getrefcount(source) > held) is outstanding
    pyshmem.quiet()
    assert (dest == source).all()
    assert sys.getrefcount(source) <= held


SUBARRAY = np.dtype((np.int32, (3,)))


@pytest.mark.parametrize(
    "make",
    [
        lambda: pyshmem.zeros(2, SUBARRAY),
        lambda: pyshmem.empty(2, "3i4"),
        lambda: pyshmem.full(2, 7, SUBARRAY, heap="device"),
        lambda: pyshmem.array([[1, 2, 3], [4, 5, 6]], SUBARRAY),
        lambda: pyshmem.zeros_like(np.zeros(2), SUBARRAY),
        lambda: pyshmem.arange(3, dtype=SUBARRAY),
    ],
)
def test_a_dtype_that_is_an_array_is_refused(make: Any) -> None:
    with pytest.raises(
        TypeError, match=r"array of int32.*give dtype int32 and the shape \(\.\.\., 3\)"
    ):
        make()


@pytest.mark.parametrize(
    ("make", "dtype"),
    [
        (lambda m: m.array(["a", "bcd"], dtype="S"), "S3"),
        (lambda m: m.array(["a", "bcd"], dtype=str), "U3"),
        (lambda m: m.array([b"abc"], dtype="V"), "V3"),
        (lambda m: m.array(["2020-01-01"], dtype="M8"), "M8[D]"),
        (lambda m: m.array([np.timedelta64(3, "s")], dtype="m8"), "m8[s]"),
        (lambda m: m.array([1, 2], dtype=bool), "?"),
        (lambda m: m.zeros(np.array([2, 3])), "f8"),
        (lambda m: m.zeros(range(2, 4), dtype="i2"), "i2"),
        (lambda m: m.zeros([np.int8(2), 3]), "f8"),
        (lambda m: m.zeros(np.array(3)), "f8"),
        (lambda m: m.full(np.array([2]), 1), "i8"),
    ],
)
def test_makers_take_what_numpy_takes(make: Any, dtype: str, heap: str) -> None:
    made, expected = make(pyshmem), make(np)
    assert made.dtype == expected.dtype == np.dtype(dtype)
    assert made.shape == expected.shape
    assert (made == expected).all()


@pytest.mark.parametrize(
    "make",
    [
        lambda m: m.arange(None),
        lambda m: m.zeros(True),
        lambda m: m.zeros((2, True)),
        lambda m: m.zeros(np.True_),
        lambda m: m.zeros("3"),
        lambda m: m.zeros(2.0),
        lambda m: m.zeros({2, 3}),
        lambda m: m.zeros(np.array([2.0])),
    ],
)
def test_makers_refuse_what_numpy_refuses(make: Any) -> None:
    for maker in (np, pyshmem):
        with pytest.raises(TypeError):
            make(maker)
