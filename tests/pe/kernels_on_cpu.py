# SPDX-License-Identifier: BSD-3-Clause
"""What kernels compiled for the CPU take of ``numba.cuda``: run by test_device_cpu.py on a PE."""

import math
from collections import namedtuple

import numba
import numpy as np
from numba import cuda
from numba.cuda import float32x4, libdevice

from pyshmem import device as shmem

TABLE = np.arange(8.0)
OFFSET = 5
Pair = namedtuple("Pair", "scale values")
WARP = np.arange(64)
RECORD = numba.from_dtype(np.dtype([("number", np.int32), ("total", np.float64)]))


@numba.njit
def doubled(x):
    return x + x


@cuda.jit(device=True)
def twice(x):
    return doubled(x)


def with_closure(c):
    @cuda.jit
    def kernel(out):
        x, y = cuda.grid(2)
        if x < out.shape[0] and y < out.shape[1]:
            out[x, y] = twice(cuda.threadIdx.x) + c + OFFSET + 1000 * cuda.blockIdx.y

    return kernel


@cuda.jit
def of_math(x, y, out, singles):
    i = cuda.grid(1)
    out[i, 0] = math.fmod(x[i], y[i])
    out[i, 1] = math.remainder(x[i], y[i])
    out[i, 2], out[i, 3] = math.modf(x[i])
    out[i, 4] = math.remainder(7, 4)
    singles[i] = math.fmod(singles[i], np.float32(0.1))


@cuda.jit
def rounds(singles, digits):
    i = cuda.grid(1)
    singles[i] = round(singles[i], digits[i])


@cuda.jit
def meetings(out, real, flags):
    i = cuda.grid(1)
    out[i, 0] = cuda.shfl_xor_sync(0xFFFFFFFF, i, 1)
    out[i, 1] = cuda.ballot_sync(0xFFFFFFFF, i % 3 == 0)
    out[i, 2] = cuda.syncthreads_count(i % 2) + 100 * cuda.syncthreads_and(i < 40)
    out[i, 3] = cuda.laneid + 100 * cuda.warpsize
    out[i, 4] = cuda.any_sync(0xFFFFFFFF, i == 3) + 10 * cuda.all_sync(0xFFFFFFFF, i < 32)
    out[i, 5] = cuda.match_any_sync(0xFFFFFFFF, i // 16)
    real[i, 0] = cuda.shfl_down_sync(0xFFFFFFFF, float(i), 4)
    real[i, 1] = cuda.fma(2.0, float(i), 1.0) + math.sqrt(4.0)
    dynamic = cuda.shared.array(0, numba.int32)
    dynamic[cuda.threadIdx.x] = i
    cuda.syncthreads()
    real[i, 2] = dynamic[cuda.blockDim.x - 1 - cuda.threadIdx.x]
    if cuda.blockIdx.x == 0 and cuda.threadIdx.x == 0:  # the other block is later, or beside it
        while flags[0] == 0:
            cuda.nanosleep(100)
    elif cuda.threadIdx.x == 0:
        cuda.threadfence()
        cuda.atomic.exch(flags, 0, 1)
    cuda.cg.this_grid().sync()
    real[i, 3] = cuda.gridsize(1)


@cuda.jit
def memory(out, bits, pair):
    i = cuda.grid(1)
    local = cuda.local.array((2, 3), numba.float32)
    for k in range(6):
        local[k // 3, k % 3] = i + k
    shared = cuda.shared.array(shape=(4, 8), dtype=numba.float64)
    shared[i % 4, i // 4] = local[1, 2] * pair.scale
    cuda.syncthreads()
    out[i].total = shared[(i + 1) % 4, i // 4] + cuda.const.array_like(TABLE)[i % 8]
    out[i].number = pair.values[i] + numba.int32(7.9)
    bits[i, 0] = cuda.popc(i)
    bits[i, 1] = cuda.clz(numba.int32(i))
    bits[i, 2] = cuda.ffs(i)
    bits[i, 3] = cuda.brev(numba.uint32(i)) >> 16


@cuda.jit
def atomics(a, u, f, old):
    i = cuda.grid(1)
    cuda.atomic.add(a, 0, 1)
    cuda.atomic.max(a, 1, i)
    cuda.atomic.min(a, 2, -i)
    cuda.atomic.xor(a, 3, 1 << (i % 8))
    old[i] = cuda.atomic.cas(a, 4, 0, i + 1)
    cuda.atomic.compare_and_swap(a[5:], 0, 7)
    cuda.atomic.inc(u, 0, 6)
    cuda.atomic.dec(u, 1, 6)
    cuda.atomic.add(f, 0, 0.5)
    cuda.atomic.max(f, 1, float(i))
    cuda.atomic.nanmin(f, 2, float(-i))
    cuda.atomic.sub(f, -1, 2)


@cuda.jit
def talks(x):
    if cuda.threadIdx.x < 2:
        print("thread", cuda.threadIdx.x, x, x > 1.0)


@cuda.jit
def talks_of_tuples(pair):
    if cuda.threadIdx.x == 1:
        print(cuda.threadIdx, pair, (1,), (2, (3.5, True)))


@cuda.jit
def aligned(out):
    mine = cuda.local.array((2, 3), np.float32, alignment=64)
    ours = cuda.shared.array(5, np.int16, alignment=1024)
    mine[1, 2] = ours[4] = 7
    out[0], out[1], out[2] = mine.ctypes.data % 64, ours.ctypes.data % 1024, mine[1, 2] + ours[4]


@cuda.jit
def raises_a_name(number):
    said = "of a name"
    if number > 1:
        raise ValueError(said, OFFSET)


@cuda.jit
def communicates(array):
    shmem.p(array, 3, shmem.my_pe())


def check_language() -> None:
    out = np.zeros((20, 3), np.int64)
    with_closure(100)[(2, 3), (16, 1)](out)
    x, y = np.indices(out.shape)
    assert (out == 2 * (x % 16) + 105 + 1000 * y).all()

    out, real = np.zeros((64, 6), np.int64), np.zeros((64, 4))
    meetings[2, 32, 0, 128](out, real, np.zeros(1, np.int32))
    assert (out[:, 0] == WARP ^ 1).all()
    votes = [sum(1 << j % 32 for j in range(64) if j // 32 == w and j % 3 == 0) for w in (0, 1)]
    assert (out[:, 1] == np.array(votes)[WARP // 32]).all()
    assert (out[:, 2] == np.where(WARP < 32, 116, 16)).all()
    assert (out[:, 3] == 3200 + WARP % 32).all()
    assert (out[:, 4] == np.where(WARP < 32, 11, 0)).all()
    assert (out[:, 5] == np.where(WARP // 16 % 2 == 0, 0xFFFF, 0xFFFF0000)).all()
    assert (real[:, 0] == np.where(WARP % 32 < 28, WARP + 4, WARP)).all()
    assert (real[:, 1] == 2 * WARP + 3).all()
    assert (real[:, 2] == WARP // 32 * 32 + 31 - WARP % 32).all()
    assert (real[:, 3] == 64).all()

    i = np.arange(32)
    records = np.zeros(32, [("number", np.int32), ("total", np.float64)])
    bits = np.zeros((32, 4), np.int64)
    memory[1, 32](records, bits, Pair(2.0, i))
    beside = i // 4 * 4 + (i + 1) % 4
    assert (records["total"] == (beside + 5) * 2 + i % 8).all()
    assert (records["number"] == i + 7).all()
    lengths = [int(k).bit_length() for k in i]
    assert (bits[:, 0] == [bin(k).count("1") for k in i]).all()
    assert (bits[:, 1] == 32 - np.array(lengths)).all()
    assert (bits[:, 2] == [int(k & -k).bit_length() for k in i]).all()
    assert (bits[:, 3] == [int(f"{k:032b}"[::-1], 2) >> 16 for k in i]).all()


def check_atomics() -> None:
    a, u, f = np.zeros(6, np.int64), np.zeros(2, np.uint32), np.zeros(4, np.float32)
    old = np.zeros(256, np.int64)
    atomics[8, 32](a, u, f, old)
    assert a.tolist()[:4] == [256, 255, -255, 0]
    assert a[5] == 7
    assert a[4] > 0
    assert set(old) == {0, a[4]}
    assert u.tolist() == [256 % 7, (-256) % 7]
    assert f.tolist() == [128, 255, -255, -512]


@cuda.jit(device=True)
def turned(v):
    return cuda.float4(v.w, v.z, v.y, v.x)


@cuda.jit
def vectors(out):
    i = cuda.grid(1)
    v, w = turned(float32x4(1, 2.5, i, 4)), cuda.double3(cuda.int2(7, i), 3)
    out[i] = v.x + 10 * v.y + 100 * v.z + w.x + w.z


@cuda.jit
def by_libdevice(x, bits):
    i = cuda.grid(1)
    x[i] = libdevice.sin(x[i]) + libdevice.rsqrtf(4.0) + libdevice.fmaxf(x[i], 0.5)
    bits[i, 0] = libdevice.popc(i) + 100 * libdevice.clzll(1) + libdevice.float2int_rz(2.7)
    bits[i, 1] = libdevice.umulhi(1 << 31, 4) + libdevice.max(i, 4)
    bits[i, 2] = libdevice.float_as_int(1.5)


@cuda.jit
def of_halves(h, out, signs):
    i = cuda.grid(1)
    if i >= out.shape[0]:
        return
    a, b = h[i], h[i + 1]
    total = a
    total += b
    out[i, 0], out[i, 1], out[i, 2], out[i, 3] = total, a - b, a * b, a / b
    out[i, 4] = cuda.fp16.hfma(a, b, h[i + 2])
    out[i, 5] = cuda.fp16.hmax(a, b) if cuda.fp16.hgt(a, b) else cuda.fp16.hmin(a, b)
    out[i, 6] = math.sqrt(abs(-a))
    out[i, 7] = cuda.fp16.hexp(a)
    signs[i] = (a < b) + 2 * (a == b) + 4 * (a >= b)


@cuda.jit
def of_a_record(record, out):
    out[0], out[1] = record.number, record.total
    record.number = 8


@cuda.jit
def turns_records(records):
    part, i = cuda.shared.array(4, RECORD), cuda.threadIdx.x
    part[i] = records[i]
    cuda.syncthreads()
    records[i].number, records[i].total = part[3 - i].number, part[3 - i].total


def check_records() -> None:
    records, out = np.zeros(2, [("number", np.int32), ("total", np.float64)]), np.zeros(2)
    records[1] = 7, 2.5
    of_a_record[1, 1](records[1], out)
    assert out.tolist() == [7, 2.5]
    assert records.tolist() == [(0, 0.0), (8, 2.5)]
    records = np.array([(i, i / 2) for i in range(4)], records.dtype)
    turns_records[1, 4](records)
    assert records.tolist() == [(i, i / 2) for i in (3, 2, 1, 0)]


def check_arithmetic() -> None:
    i, out = np.arange(8), np.zeros(8)
    vectors[2, 4](out)
    assert (out == 4 + 10 * i + 250 + 7 + 3).all()

    x, bits = np.linspace(0, 1, 8), np.zeros((8, 3), np.int64)
    wanted = np.sin(x) + 0.5 + np.maximum(x, 0.5)
    by_libdevice[2, 4](x, bits)
    assert np.allclose(x, wanted, 1e-7)
    assert (bits[:, 0] == np.array([bin(k).count("1") for k in i]) + 6302).all()
    assert (bits[:, 1] == 2 + np.maximum(i, 4)).all()
    assert (bits[:, 2] == np.float32(1.5).view(np.int32)).all()

    h = np.random.default_rng(34).normal(size=1002).astype(np.float16)
    a, b, c = h[:-2], h[1:-1], h[2:]
    found, signs = np.zeros((1000, 8), np.float16), np.zeros(1000, np.int32)
    of_halves[10, 128](h, found, signs)
    fused = (a.astype(np.longdouble) * b + c).astype(np.float16)
    columns = (a + b, a - b, a * b, a / b, fused, a, np.sqrt(abs(a)))
    for column, wanted in enumerate(columns):
        assert (found[:, column] == wanted).all(), column
    assert np.allclose(found[:, 7], np.exp(a), 1e-3)
    assert (signs == (a < b) + 2 * (a == b) + 4 * (a >= b)).all()


def of_a_number(out, number):
    out[0] = cuda.clz(number)
    out[1] = number.bit_count()


@cuda.jit
def of_a_half(out, number):
    out[0] = number * number


def divides(out, x):
    out[0] = x // (x - x)


def named(name):
    """A function made of a text, as one of Numba's own: its name does not tell it from others."""
    names = {"__name__": "numba.of.nobody", "np": np}
    exec(f"def made(out, x):\n    out[0] = np.{name}(x)", names)
    return names["made"]


def check_arguments() -> None:
    out = np.zeros(2, np.int64)
    for signature, zeros in (("void(int64[:], int32)", 22), ("void(int64[:], uint64)", 54)):
        cuda.jit(signature)(of_a_number)[1, 1](out, 1023)
        assert out.tolist() == [zeros, 10]
    cuda.jit([("void(int64[:], int32)")])(of_a_number)[1, 1](out, 7)
    assert out.tolist() == [29, 3]
    half = np.zeros(1, np.float16)
    of_a_half[1, 1](half, np.float16(0.1))
    assert half[0] == np.float16(0.1) * np.float16(0.1)
    out = np.zeros(1)
    for name, wanted in (("sin", math.sin(0.5)), ("cos", math.cos(0.5))):
        cuda.jit(named(name))[1, 1](out, 0.5)
        assert math.isclose(out[0], wanted)


def check_math() -> None:
    """What Numba's CPU has not of ``math``; of float32 numbers it is float32's."""
    x = np.array([5.5, -5.5, 3.0, math.inf, -0.25, 7.75])
    y = np.array([2.0, 2.0, -2.0, math.inf, 0.1, -0.3])
    out, singles = np.zeros((6, 5)), np.arange(6, dtype=np.float32)
    of_math[1, 6](x, y, out, singles)
    finite = np.isfinite(x)
    for i in np.flatnonzero(finite):
        wanted = math.fmod(x[i], y[i]), math.remainder(x[i], y[i]), *math.modf(x[i]), -1.0
        assert out[i].tolist() == list(wanted)
    assert np.isnan(out[3, :2]).all()
    assert out[3, 2:4].tolist() == [0, math.inf]
    assert (singles == np.fmod(np.arange(6, dtype=np.float32), np.float32(0.1))).all()
    digits = np.array([3, 1, 2, -2, 0])
    singles = np.array([0.3425, 0.25, 0.375, 1250, 2.5], np.float32)  # float32(0.3425) is above
    wanted = [np.float32(round(x, n)) for x, n in zip(singles.tolist(), digits, strict=True)]
    rounds[1, 5](singles, digits)
    assert singles.tolist() == wanted


def check_debug_kernels() -> None:
    """Those raise when they divide by zero; the same function's other kernels do not."""
    out = np.ones(1, np.int64)
    cuda.jit(divides)[1, 2](out, 5)
    assert out[0] == 0
    try:
        cuda.jit(debug=True, opt=False)(divides)[1, 1](out, 5)
    except ZeroDivisionError as error:
        print(error)


def main() -> None:
    assert doubled(2) == 4  # from here on Numba links its runtime into what it compiles
    check_language()
    check_arguments()
    check_math()
    check_debug_kernels()
    check_atomics()
    check_arithmetic()
    check_records()
    talks[1, 4](1.5)
    talks_of_tuples[1, (1, 2)](Pair(4, (5, 1.5)))
    talks_of_tuples[1, (2, 1)](Pair(4, (5, 1.5)))
    out = np.zeros(3, np.int64)
    aligned[1, 1](out)
    assert out.tolist() == [0, 0, 14]
    try:
        raises_a_name[1, 1](2)
    except ValueError as error:
        print(*error.args)
    try:
        communicates[1, 1](np.zeros(1))
    except RuntimeError as error:  # no job
        print(type(error).__name__)
    print("ok")


if __name__ == "__main__":
    main()
