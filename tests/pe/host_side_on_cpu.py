# SPDX-License-Identifier: BSD-3-Clause
"""What of ``numba.cuda`` is not in kernels, on device cpu: run by test_device_cpu.py on a PE."""

import enum
import math
from collections import namedtuple
from fractions import Fraction

import ml_dtypes
import numpy as np
from numba import cuda, float32, float64, guvectorize, int32, typeof, vectorize
from numba.cuda import bf16

import pyshmem  # arranges how numba.cuda runs kernels
import pyshmem.device
from pyshmem.device.leaf.cpu import launches

FIXED = cuda.to_device(np.arange(6, dtype=np.float32).reshape(2, 3))
SINGLE = np.float32


class Foreign:
    """An array of another library: its interface, and nothing else."""

    def __init__(self, array, **changed):
        self.kept = array
        self.__cuda_array_interface__ = {**array.__cuda_array_interface__, **changed}


def raised(kind, function, *given, **named):
    try:
        function(*given, **named)
    except kind as error:
        return str(error)
    raise AssertionError(f"{function} raised no {kind.__name__}")


@vectorize(
    [int32(int32, int32), float32(float32, float32), float64(float64, float64)], target="cuda"
)
def hypotenuse(a, b):
    return math.sqrt(a * a + b * b)


@vectorize([float64(float64, float64)], target="cuda")
def total(a, b):
    return a + b


@guvectorize([(float64[:, :], float64[:], float64[:])], "(m,n),(n)->(m)", target="cuda")
def product(a, x, y):
    for i in range(a.shape[0]):
        one = 0.0
        for j in range(x.shape[0]):
            one += a[i, j] * x[j]
        y[i] = one


def check_ufuncs() -> None:
    three, four = np.full(1000, 3, np.int32), np.arange(1000, dtype=np.int32)
    found = hypotenuse(three, four)
    assert found.dtype == np.int32
    assert (found == np.sqrt(9 + four**2).astype(np.int32)).all()
    here = cuda.to_device(np.linspace(0, 1, 300, dtype=SINGLE).reshape(20, 15))
    there = hypotenuse(here, SINGLE(2))
    assert cuda.is_cuda_array(there)
    assert there.shape == (20, 15)
    assert np.allclose(there.copy_to_host(), np.hypot(here.copy_to_host(), 2))
    assert hypotenuse(3.0, 4.0) == 5
    assert "No matching version" in raised(TypeError, hypotenuse, three.astype(np.int8), three)
    matrices = np.random.default_rng(1).random((7, 5, 4))
    assert np.allclose(product(matrices, matrices[0, 0]), matrices @ matrices[0, 0])
    assert total.reduce(np.arange(1001.0)) == 500500


@cuda.jit
def add(a, number):
    i = cuda.grid(1)
    if i < a.shape[0]:
        a[i] += number


def check_interfaces() -> None:
    mine = cuda.to_device(np.arange(10.0))
    add[1, 32](Foreign(mine), 5)
    assert (mine.copy_to_host() == np.arange(10) + 5).all()
    part = cuda.as_cuda_array(Foreign(mine[::-2]))
    assert part.strides == (-16,)
    assert part.gpu_data == mine[::-2].gpu_data
    add[1, 32](part, 100)
    assert (mine.copy_to_host() == np.arange(10) + 5 + 100 * (np.arange(10) % 2)).all()
    raised(NotImplementedError, part.copy_to_host)
    raised(TypeError, cuda.as_cuda_array, np.arange(3))
    masked = Foreign(mine, mask=mine)
    raised(NotImplementedError, cuda.as_cuda_array, masked)
    for address in (16, 1 << 46):  # as of an array on a GPU
        strange = Foreign(mine, data=(address, False))
        assert f"{address:#x}" in raised(ValueError, add[1, 32], strange, 1)
    fixed = cuda.as_cuda_array(Foreign(mine, data=(mine.__cuda_array_interface__["data"][0], True)))
    raised(ValueError, fixed.__setitem__, 0, 1)
    stream = cuda.stream()
    named = cuda.device_array(4, stream=stream).__cuda_array_interface__["stream"]
    assert named == stream.handle
    assert cuda.as_cuda_array(Foreign(mine, stream=named)).stream.external
    assert mine.__cuda_array_interface__["stream"] is None
    assert (pyshmem.to_numpy(mine) == mine.copy_to_host()).all()  # its memory is the host's, too
    assert "no astype" in raised(AttributeError, lambda: mine.astype)


@cuda.jit(device=True)
def fixed_at(i, j):
    return FIXED[i, j]


def check_constants() -> None:
    """Device arrays that kernels name are written to where they are, and kept."""

    def kernel_of(array):
        @cuda.jit
        def kernel(out):
            i = cuda.grid(1)
            out[i] = fixed_at(i // 3, i % 3) + array[i]
            array[i] = -1

        return kernel

    for foreign in (False, True):
        mine = cuda.to_device(np.arange(6) * 10)
        kernel = kernel_of(Foreign(mine) if foreign else mine)
        out = np.zeros(6)
        for before in (np.arange(6) * 10, np.full(6, -1)):
            kernel[1, 6](out)
            assert (out == np.arange(6) + before).all(), out
        assert (mine.copy_to_host() == -1).all()


@cuda.jit
def of_bfloat16(a, b, c, out, whole, flags):
    i = cuda.grid(1)
    if i < a.shape[0]:
        out[0, i], out[1, i] = a[i] + b[i] + c[i], a[i] * b[i] - c[i]
        out[2, i], out[3, i] = bf16.hfma(a[i], b[i], c[i]), math.exp(a[i]) / b[i]
        out[4, i], out[5, i] = bf16.hmax(a[i], b[i]), -abs(a[i])
        out[6, i] = bf16.int64_to_bfloat16_ru(whole[i])
        out[7, i] = bf16.float32_to_bfloat16_rz(SINGLE(whole[i]))
        out[8, i] = bf16.hadd_sat(a[i], b[i])
        whole[i] = bf16.bfloat16_to_int32_rd(a[i])
        flags[i] = (a[i] < b[i]) + 2 * (a[i] != b[i]) + 4 * bf16.hisnan(a[i])


def rounded(value: Fraction, up: bool = False) -> float:
    """The nearest bfloat16 of a normal number, or the next above."""
    size = abs(value)
    step = Fraction(2) ** (math.frexp(float(size))[1] - 8) if value else Fraction(1)
    low, rest = divmod(size / step, 1)
    more = (rest > 0 and value > 0) if up else rest > 0.5 or (rest == 0.5 and low % 2 == 1)
    return float((low + more) * step) * (1 if value >= 0 else -1)


def check_bfloat16() -> None:
    kind = np.dtype(ml_dtypes.bfloat16)
    random = np.random.default_rng(4)
    a, b, c = (random.standard_normal((3, 500)) * 2.0 ** random.integers(-30, 30, 500)).astype(kind)
    whole = random.integers(-(1 << 62), 1 << 62, 500)
    given, out, flags = whole.copy(), np.zeros((9, 500), kind), np.zeros(500, np.int8)
    of_bfloat16.forall(500)(a, b, c, out, whole, flags)
    assert (out[0] == a + b + c).all()
    assert (out[1] == a * b - c).all()
    exact = [
        Fraction(float(x)) * Fraction(float(y)) + Fraction(float(z))
        for x, y, z in zip(a, b, c, strict=True)
    ]
    assert [float(x) for x in out[2]] == list(map(rounded, exact))
    assert (out[4] == np.maximum(a, b)).all()
    assert (out[5] == -np.abs(a)).all()
    assert [float(x) for x in out[6]] == [rounded(Fraction(int(x)), up=True) for x in given]
    cut = given.astype(SINGLE).view(np.uint32) & 0xFFFF0000
    assert (out[7].astype(SINGLE).view(np.uint32) == cut).all()
    assert (out[8] == np.clip(a + b, 0, 1).astype(kind)).all()
    most = np.clip(np.floor(a.astype(float)), -(1 << 31), (1 << 31) - 1)
    assert (whole == most).all()
    assert (flags == (a < b) + 2 * (a != b)).all()
    assert cuda.is_bfloat16_supported()
    raised(RuntimeError, bf16.bfloat16, 1.0)


@cuda.jit
def narrow(wide, out):
    i = cuda.grid(1)
    out[i] = wide[i]


def check_float16() -> None:
    """Of float64, once: by float32 alone it would be rounded twice."""
    wide = np.array([1 + 2.0**-11 + 2.0**-40, 1 + 2.0**-11, -65519.99, -3.7, 1e-8, np.nan, 0.1])
    out = np.zeros(len(wide), np.float16)
    narrow[1, len(wide)](wide, out)
    assert np.array_equal(out, wide.astype(np.float16), equal_nan=True), out


@cuda.jit(int32(int32, float64), device=True)
def whole_part(a, b):
    return a + b


@cuda.jit
def declared(out):
    out[0] = whole_part(1, 2.75)


def check_overloads() -> None:
    """A device function's signature says what it returns; kernels say what they were compiled for."""
    out = np.zeros(1)
    declared[1, 1](out)
    assert out[0] == 3
    assert whole_part.overloads[int32, float64].signature.return_type == int32
    assert [str(kinds[0]) for kinds in declared.signatures] == ["array(float64, 1d, C)"]


class Colour(enum.IntEnum):
    RED = 3


Two = namedtuple("Two", "a b")


def some_arguments() -> list[object]:
    """Of many types, some of which Python or NumPy take for equal."""
    plain = np.zeros((4, 6))
    fixed = plain.copy()
    fixed.flags.writeable = False
    bytes_ = np.zeros(65, np.uint8)
    arrays = [plain, plain.T, plain[:, ::2], plain[1], fixed, plain.astype("f4"), np.zeros(())]
    arrays += [bytes_[:64].view("i8"), bytes_[1:].view("i8"), bytes_[:64].view("u8")]
    arrays += [np.zeros(2, [("a", "i4")]), np.zeros(2, [("b", "i4")]), np.zeros(2, "M8[s]")]
    arrays += [np.zeros(2, "M8[ms]"), np.zeros(2, "m8[s]"), np.zeros(2, "?"), np.zeros(2, "c8")]
    arrays += [np.zeros(2, "f2"), np.zeros(2, ml_dtypes.bfloat16), np.zeros(2, np.longlong)]
    numbers = [0, 1, -1, 1 << 40, (1 << 63) - 1, 1 << 63, (1 << 64) - 1, -(1 << 63), True, 1.0, 1j]
    numbers += [Colour.RED, np.datetime64(3, "s"), np.datetime64(3, "ms"), np.timedelta64(3, "s")]
    numbers += [np.dtype(code).type(1) for code in "?bBhHiIlLqQefdFD"]
    tuples = [(), (1,), (1, 1), ((1,), 1), (1.0, 1), (plain, 1), (plain.T, 1), (1 << 63, 1)]
    tuples += [Two(1, 2.0), (1, 2.0), Two(1, 2), (np.float32(1), 1)]
    return [*arrays, *numbers, *tuples]


def check_forms() -> None:
    """What a launch finds a kernel's machine code by tells apart what Numba's types do."""
    known = {}
    for value in some_arguments():
        form = launches._form(value)
        if form is not None:
            kind = typeof(value)
            assert known.setdefault(form, kind) == kind, (value, form, kind, known[form])
    assert len(set(known.values())) > 30


@cuda.jit
def twice(value, out):
    out[0] = value * 2


def check_numbers_of_64_bits() -> None:
    """Beside an int64 of the same kernel, and back."""
    out = np.zeros(1, np.uint64)
    for value in (3, (1 << 63) - 1, 1 << 63, 5, True, np.uint8(200)):
        twice[1, 1](value, out)
        assert out[0] == int(value) * 2 % (1 << 64), value


def main() -> None:
    for name, check in sorted(globals().items()):
        if name.startswith("check_"):
            check()
    print("ok")


main()
