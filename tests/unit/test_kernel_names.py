# SPDX-License-Identifier: BSD-3-Clause
"""Names of ``numba.cuda`` that its simulator lacks, or has otherwise, in interpreted kernels."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
import pytest
from numba import cuda, guvectorize, vectorize

import pyshmem.device  # noqa: F401  (kernels as on a GPU)

# isort: split
from numba.cuda import libdevice

ALL = 0xFFFFFFFF


def test_lanes_match_and_vote_by_their_masks() -> None:
    @cuda.jit
    def kernel(out: Any) -> None:
        i = cuda.threadIdx.x
        out[i, 0] = cuda.match_any_sync(ALL, i % 4)
        out[i, 1], out[i, 2] = cuda.match_all_sync(ALL, i // 32)
        out[i, 3], out[i, 4] = cuda.match_all_sync(ALL, i)
        out[i, 5] = cuda.lanemask_lt()
        out[i, 6] = cuda.eq_sync(ALL, i < 40)
        out[i, 7] = cuda.ballot_sync(0xFF00, i % 2)
        out[i, 8] = cuda.all_sync(0xF, i % 32 < 4)
        out[i, 9] = cuda.any_sync(0xF, i % 32 == 4)

    out = np.zeros((64, 10), np.int64)
    kernel[1, 64](out)
    i = np.arange(64)
    assert (out[:, 0] == 0x11111111 << i % 4).all()
    assert (out[:, 1] == ALL).all()
    assert (out[:, 2] == 1).all()
    assert (out[:, 3:5] == 0).all()
    assert (out[:, 5] == (1 << i % 32) - 1).all()
    assert (out[:, 6] == (i < 32)).all()
    assert (out[:, 7] == 0xAA00).all()
    assert (out[:, 8] == 1).all()
    assert (out[:, 9] == 0).all()


@pytest.mark.parametrize("bits", [32, 64])
def test_bits_are_those_of_the_type(bits: int) -> None:
    @cuda.jit
    def kernel(a: Any, out: Any) -> None:
        i = cuda.grid(1)
        out[i, 0], out[i, 1] = cuda.popc(a[i]), cuda.clz(a[i])
        out[i, 2], out[i, 3] = cuda.ffs(a[i]), cuda.brev(a[i])

    a = np.array([0, 1, -1, 12, -(1 << bits - 1)], f"i{bits // 8}")
    out = np.zeros((a.size, 4), np.uint64)
    kernel[1, a.size](a, out)
    high = 1 << bits - 1
    assert out.tolist() == [
        [0, bits, 0, 0],
        [1, bits - 1, 1, high],
        [bits, 0, 1, 2 * high - 1],
        [2, bits - 4, 3, 3 * (high >> 3)],
        [1, 0, bits, 1],
    ]


def test_numbers_are_rounded_as_on_a_gpu() -> None:
    @cuda.jit
    def kernel(a: Any, half: Any, out: Any) -> None:
        out[0] = cuda.cbrt(a[0])
        out[1] = cuda.fma(a[1], a[1], -1.0 - 2.0**-29)
        out[2] = cuda.fp16.hfloor(half[0])
        out[3] = cuda.fp16.hfma(half[1], half[1], half[2])

    half = np.array([-0.5, 1 + 2.0**-10, -(1 + 2.0**-9)], np.float16)
    out = np.zeros(4)
    kernel[1, 1](np.array([-8.0, 1 + 2.0**-30]), half, out)
    assert out.tolist() == [-2, 2.0**-60, -1, 2.0**-20]


def test_integers_wrap_around_without_a_warning() -> None:
    @cuda.jit
    def kernel(a: Any) -> None:
        a[0] = a[0] * np.uint32(2654435761) + a[0]

    a = np.array([3], np.uint32)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        kernel[1, 1](a)
    assert a[0] == (3 * 2654435761 + 3) % 2**32


def test_shared_arrays_of_one_line_are_two() -> None:
    # fmt: off
    @cuda.jit
    def kernel(a: Any) -> None:
        one, other = cuda.shared.array(4, np.int64), cuda.shared.array(4, np.int64)
        t = cuda.threadIdx.x
        one[t], other[t] = t, 10 * t
        cuda.syncthreads()
        a[t] = one[3 - t] + other[3 - t]
    # fmt: on

    a = np.zeros(4, np.int64)
    kernel[1, 4](a)
    assert a.tolist() == [33, 22, 11, 0]


def test_libdevice_is_there_or_says_that_it_is_not() -> None:
    @cuda.jit
    def kernel(a: Any) -> None:
        a[0], a[1] = libdevice.rsqrt(4.0), libdevice.erf(0.5)
        a[2], a[3] = libdevice.sinf(0.1), libdevice.fma(2.0, 3.0, 1.0)

    @cuda.jit
    def bessel(a: Any) -> None:
        a[0] = libdevice.j0(1.0)

    a = np.zeros(4)
    kernel[1, 1](a)
    assert a.tolist() == [0.5, math.erf(0.5), float(np.sin(np.float32(0.1))), 7]
    with pytest.raises(NotImplementedError, match=r"libdevice\.j0 is not in the simulator"):
        bessel[1, 1](a)


def test_numbers_are_converted_to_what_a_kernel_declares() -> None:
    @cuda.jit("void(float64[:], int32, float32)", lineinfo=True, max_registers=32, fastmath=True)
    def kernel(a: Any, whole: int, single: float) -> None:
        a[0], a[1] = whole, single

    a = np.zeros(2)
    kernel[1, 1](a, 3.7, 0.1)
    assert a.tolist() == [3, float(np.float32(0.1))]


def test_events_tell_the_time_between_them() -> None:
    first, last = cuda.event(), cuda.event()
    with pytest.raises(RuntimeError, match="not recorded"):
        first.elapsed_time(last)
    first.record()
    last.record()
    assert first.elapsed_time(last) >= 0
    assert last.elapsed_time(first) <= 0
    assert last.query()


def test_ufuncs_for_gpus_say_where_they_are() -> None:
    with pytest.raises(NotImplementedError, match="--device cpu"):
        vectorize(["float64(float64)"], target="cuda")(lambda x: x)
    with pytest.raises(NotImplementedError, match="--device cpu"):
        guvectorize(["void(float64[:], float64[:])"], "(n)->()", target="cuda")(lambda x, y: None)


def test_managed_memory_is_there() -> None:
    @cuda.jit
    def kernel(a: Any) -> None:
        a[0] = 4

    a = cuda.managed_array(2, np.int32)
    a[:] = 0
    kernel[1, 1](a)
    assert np.asarray(a).tolist() == [4, 0]
