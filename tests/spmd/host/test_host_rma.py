# SPDX-License-Identifier: BSD-3-Clause
"""put, get, their non-blocking forms, p and g: every dtype, length, place and heap."""

from __future__ import annotations

import numpy as np
import pytest
from reference import dtype_of, pattern, same

import pyshmem
from pyshmem._core.type_table import ELEMENTS

PAIR = np.dtype([("id", "i4"), ("where", "f8", (2,))])
DTYPES = [*(element.dtype for element in ELEMENTS), "float8_e4m3fn", "datetime64[s]", PAIR]
PUTS = (pyshmem.put, pyshmem.put_nbi)
GETS = (pyshmem.get, pyshmem.get_nbi)

by_name = {"ids": lambda value: getattr(value, "__name__", str(value))}


@pytest.mark.parametrize("dtype", DTYPES, **by_name)
@pytest.mark.parametrize("routine", PUTS, **by_name)
def test_put_fills_the_neighbours_array(job, right, left, heap, make, show, routine, dtype):
    source = make(pattern(100, dtype, job.my_pe), heap)
    dest = pyshmem.zeros_like(source)
    routine(dest, source, right)
    assert same(show(dest), pattern(100, dtype, left))


@pytest.mark.parametrize("dtype", DTYPES, **by_name)
@pytest.mark.parametrize("routine", GETS, **by_name)
def test_get_reads_the_neighbours_array(job, right, heap, make, routine, dtype):
    source = make(pattern(100, dtype, job.my_pe), heap)
    dest = pyshmem.zeros_like(source)
    routine(dest, source, right)
    pyshmem.quiet()
    assert same(pyshmem.to_numpy(dest), pattern(100, dtype, right))


@pytest.mark.parametrize("dtype", ["int8", "float32", "complex128"])
def test_the_local_side_may_be_ordinary_memory(job, right, left, heap, show, dtype):
    symmetric = pyshmem.zeros(50, dtype, heap=heap)
    pyshmem.put(symmetric, pattern(50, dtype, job.my_pe), right)
    assert (show(symmetric) == pattern(50, dtype, left)).all()
    fetched = np.zeros(50, dtype)
    pyshmem.get(fetched, symmetric, right)
    assert (fetched == pattern(50, dtype, job.my_pe)).all()


def test_every_pe_reads_from_every_pe(job, heap, make):
    source = make(pattern(9, "int32", job.my_pe), heap)
    for pe in range(job.n_pes):
        dest = np.zeros(9, np.int32)
        pyshmem.get(dest, source, pe)
        assert (dest == pattern(9, "int32", pe)).all()


def test_every_pe_writes_its_own_slice_of_every_array(job, heap, show):
    dest = pyshmem.zeros((job.n_pes, 5), np.int64, heap=heap)
    for pe in range(job.n_pes):
        pyshmem.put(dest[job.my_pe], pattern(5, "int64", job.my_pe, salt=pe), pe)
    expected = [pattern(5, "int64", pe, salt=job.my_pe) for pe in range(job.n_pes)]
    assert (show(dest) == expected).all()


@pytest.mark.parametrize("nelems", [0, 1, 7, 10])
def test_nelems_limits_what_is_copied(job, right, left, heap, make, show, nelems):
    source = make(pattern(10, "int32", job.my_pe), heap)
    dest = pyshmem.zeros(10, np.int32, heap=heap)
    pyshmem.put(dest, source, right, nelems=nelems)
    expected = np.zeros(10, np.int32)
    expected[:nelems] = pattern(10, "int32", left)[:nelems]
    assert (show(dest) == expected).all()
    fetched = np.zeros(10, np.int32)
    pyshmem.get(fetched, source, left, nelems=np.int64(nelems))
    assert (fetched == expected).all()


@pytest.mark.parametrize("nbytes", [1, 7, 8, 9, 63, 64, 65, 4095, 8192, 8193, 100_003])
def test_every_length_copies_exactly_its_bytes(job, right, left, heap, make, show, nbytes):
    source = make(pattern(nbytes + 2, "uint8", job.my_pe), heap)
    dest = pyshmem.zeros(nbytes + 2, np.uint8, heap=heap)
    pyshmem.put(dest[1:-1], source[1:-1], right)
    got = show(dest)
    assert (got[1:-1] == pattern(nbytes + 2, "uint8", left)[1:-1]).all()
    assert got[0] == got[-1] == 0


def test_large_arrays_arrive_whole(job, right, left, heap, show):
    n = 1_000_003
    source = pyshmem.array(pattern(n, "float32", job.my_pe), heap=heap)
    dest = pyshmem.zeros(n, np.float32, heap=heap)
    pyshmem.put_nbi(dest, source, right)
    assert (show(dest) == pattern(n, "float32", left)).all()


def test_contiguous_views_of_both_sides(job, right, left, heap, make, show):
    source = make(pattern(24, "int32", job.my_pe), heap).reshape(4, 6)
    dest = pyshmem.zeros((3, 2, 6), np.int32, heap=heap)
    pyshmem.put(dest[1], source[2:], right)
    pyshmem.put(dest[2, 0, 1:4], source[0, :3], right)
    pyshmem.put(dest.reshape(-1)[:1], source[3, 5:], right)
    theirs = pattern(24, "int32", left).reshape(4, 6)
    expected = np.zeros((3, 2, 6), np.int32)
    expected[1] = theirs[2:]
    expected[2, 0, 1:4] = theirs[0, :3]
    expected[0, 0, 0] = theirs[3, 5]
    assert (show(dest) == expected).all()


def test_shapes_may_differ_when_the_elements_fit(job, right, left, make, show):
    source, dest = make(pattern(12, "int16", job.my_pe)), pyshmem.zeros((3, 5), np.int16)
    pyshmem.put(dest, source.reshape(2, 6), right)
    assert (show(dest).ravel()[:12] == pattern(12, "int16", left)).all()


def test_a_view_with_another_dtype_moves_the_same_bytes(job, right, left, make, show):
    source, dest = make(pattern(8, "int64", job.my_pe)), pyshmem.zeros(8, np.int64)
    pyshmem.put(dest.view(np.uint8), source.view(np.uint8), right)
    assert (show(dest) == pattern(8, "int64", left)).all()


def test_arrays_without_elements_move_nothing(right, heap):
    dest, source = pyshmem.zeros((0, 3), heap=heap), pyshmem.zeros(0, heap=heap)
    pyshmem.put(dest, source, right)
    pyshmem.get(np.zeros(0), source, right)
    pyshmem.put(dest, np.zeros((3, 0)), right)


def test_the_same_array_may_be_source_and_dest_on_another_pe(job, right, left, make, show):
    array = make(pattern(20, "int32", job.my_pe))
    pyshmem.put(array[10:], array[:10], right)
    assert (show(array)[10:] == pattern(20, "int32", left)[:10]).all()


def test_overlap_on_the_own_pe_is_refused_in_checking_mode(job, checking, heap):
    array = pyshmem.zeros(20, np.int32, heap=heap)
    for routine in (*PUTS, *GETS):
        with pytest.raises(ValueError, match="overlap"):
            routine(array[1:11], array[:10], job.my_pe)


def test_a_copy_past_the_block_is_refused_in_checking_mode(job, right, checking):
    array = pyshmem.zeros(8, np.uint8)  # 64 bytes are reserved, 8 are its own
    longer = np.ndarray(16, np.uint8, buffer=np.asarray(_Raw(array.ctypes.data, 16)))
    with pytest.raises(ValueError, match="16 bytes from byte 0 of a block of 8"):
        pyshmem.put(longer, np.zeros(16, np.uint8), right)


class _Raw:
    def __init__(self, address, nbytes):
        interface = {"data": (address, False), "shape": (nbytes,), "typestr": "|u1", "version": 3}
        self.__array_interface__ = interface


# ---- single elements ---------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES, **by_name)
def test_p_and_g_move_one_element(job, right, left, heap, make, show, dtype):
    source = make(pattern(5, dtype, job.my_pe), heap)
    dest = make(pattern(5, dtype, job.my_pe, salt=50), heap)
    pyshmem.p(dest[2:], pattern(5, dtype, job.my_pe)[1], right)
    expected = pattern(5, dtype, job.my_pe, salt=50)
    expected[2] = pattern(5, dtype, left)[1]
    assert same(show(dest), expected)
    assert pyshmem.g(source[3:], right) == pattern(5, dtype, right)[3]


@pytest.mark.parametrize(
    "dtype", [e.dtype for e in ELEMENTS if e.dtype.strip("u").startswith("int")]
)
def test_p_and_g_carry_the_extremes_of_an_integer(right, heap, dtype):
    dest = pyshmem.zeros(1, dtype, heap=heap)
    limits = np.iinfo(dtype)
    for value in (limits.min, limits.max, limits.max - 7918):
        if not limits.min <= value:
            continue
        pyshmem.barrier_all()
        pyshmem.p(dest, value, right)
        pyshmem.barrier_all()
        assert pyshmem.g(dest, right) == value


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64", "longdouble"])
def test_p_and_g_carry_infinities_and_nans(job, dtype):
    dest = pyshmem.zeros(1, dtype_of(dtype))
    for value in (float("inf"), float("-inf"), -0.0):
        pyshmem.p(dest, value, job.my_pe)
        assert str(float(pyshmem.g(dest, job.my_pe))) == str(value)
    pyshmem.p(dest, float("nan"), job.my_pe)
    assert np.isnan(float(pyshmem.g(dest, job.my_pe)))


# ---- between the heaps, on streams --------------------------------------------------------------


def test_the_local_side_may_lie_on_the_other_heap(job, right, left, heap, make, show):
    other = "device" if heap == "host" else "host"
    if job.device == "none":
        pytest.skip("the job has no device heap")
    source = make(pattern(40, "float64", job.my_pe), other)
    dest = pyshmem.zeros(40, heap=heap)
    pyshmem.put(dest, source, right)
    assert (show(dest) == pattern(40, "float64", left)).all()
    back = pyshmem.zeros(40, heap=other)
    pyshmem.get(back, dest, right)
    assert (pyshmem.to_numpy(back) == pattern(40, "float64", job.my_pe)).all()


def test_copies_on_a_stream(job, right, left, make, show):
    if job.device == "none":
        pytest.skip("the job has no device heap")
    from numba import cuda

    source = make(pattern(64, "float32", job.my_pe), "device")
    for stream in (0, cuda.stream(), cuda.default_stream()):
        dest, back = pyshmem.zeros_like(source), pyshmem.zeros_like(source)
        pyshmem.put(dest, source, right, stream=stream)
        cuda.synchronize()
        assert (show(dest) == pattern(64, "float32", left)).all()
        pyshmem.get(back, dest, right, stream=stream)
        cuda.synchronize()
        assert (pyshmem.to_numpy(back) == pattern(64, "float32", job.my_pe)).all()


def test_a_stream_excludes_what_it_cannot_order(job, right):
    array = pyshmem.zeros(4)
    with pytest.raises(TypeError, match="__cuda_stream__"):
        pyshmem.put(array, np.ones(4), right, stream="default")
    if job.device == "none":
        with pytest.raises(pyshmem.UnsupportedError, match="device none"):
            pyshmem.put(array, np.ones(4), right, stream=0)
    elif job.device == "sim":
        with pytest.raises(ValueError, match="is no stream of the simulator"):
            pyshmem.get(np.ones(4), array, right, stream=12345)
    else:
        with pytest.raises(ValueError, match="device heap"):
            pyshmem.put(array, np.ones(4), right, stream=0)
