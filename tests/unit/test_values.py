# SPDX-License-Identifier: BSD-3-Clause
"""Values: every dtype takes what it can hold, rounded where it is a float, and refuses the rest."""

from __future__ import annotations

import datetime
import math
import re
import warnings
from decimal import Decimal
from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import pyshmem
from pyshmem._core.dtypes import as_dtype
from pyshmem._core.values import element_of, shown

RECORD = np.dtype([("count", "u1"), ("where", "f4", (2,))])
#: What each dtype takes; a pair: what it is stored as.
TAKEN: dict[Any, tuple[Any, ...]] = {
    "bool": (True, False, 1, 0, np.True_, (np.array(True), True)),
    "int8": (-128, 127, np.int64(5), (np.array(5), 5), True),
    ">i4": (-(2**31), np.uint8(7)),
    "uint64": (2**64 - 1,),
    "int2": (-2, 1), "int4": (-8, 7), "uint4": (15, np.int8(3)), "uint2": (3,),
    "int1": (-1, 0), "uint1": (1,),
    "float16": (65504.0, (65519.0, 65504.0), -math.inf, (1 / 3, np.float16(1 / 3)), 1e-30),
    "float32": (3.4e38, np.float64(0.5), (Decimal("0.1"), np.float32(0.1)), Fraction(1, 4), math.inf),
    ">f8": (1e308, np.longdouble(2), 2**1000),
    "longdouble": (2**64 - 1, np.longdouble("1e4000"), np.int64(2**62 + 1), -math.inf),
    "bfloat16": (1.5, 3e38, math.inf, ml_dtypes.bfloat16(2)),
    "float8_e5m2": (57344.0, math.inf), "float8_e4m3fn": (448.0, -0.5), "float8_e3m4": (15.5, -math.inf),
    "float8_e8m0fnu": (2.0**-127, 1.0, (3.5, 4.0)), "float4_e2m1fn": (6, -0.5, 0),
    "float6_e3m2fn": (28,),
    "complex64": (1 + 2j, 3, np.complex128(1j), complex(math.inf, 1), np.float32(2)),
    "clongdouble": (np.clongdouble(1 + 2j), np.longdouble("1e4000")),
    "complex32": (1 + 2j,), "bcomplex32": (3e38 - 1j,),
    "S3": (b"abc", (b"ab", b"ab"), ("abc", b"abc"), np.bytes_(b"x")),
    "U3": ("abc", "äöü", np.str_("x")),
    "V3": ((b"abc", np.void(b"abc")), (b"a", np.void(b"a\0\0")), (np.void(b"xyz"), np.void(b"xyz"))),
    "M8[s]": (np.datetime64("2020-01-01T00:00:01"), datetime.datetime(2020, 1, 2), "2020-01-01", 5),
    "M8[D]": (datetime.date(1900, 2, 28),),
    "m8[ms]": (np.timedelta64(3, "s"), datetime.timedelta(milliseconds=7), -1),
}  # fmt: skip
#: What each refuses, with the exception.
TYPE, OUTSIDE = TypeError, OverflowError
REFUSED: dict[Any, tuple[tuple[Any, type[Exception]], ...]] = {
    "bool": ((2, OUTSIDE), (-1, OUTSIDE), ("False", TYPE), (None, TYPE), (0.5, TYPE), ([1], TYPE)),
    "int8": ((128, OUTSIDE), (1.0, TYPE), (np.float32(1), TYPE), ("1", TYPE), (Decimal(1), TYPE)),
    ">i4": ((2**31, OUTSIDE), (np.array([1]), TYPE), (np.timedelta64(1, "s"), TYPE)),
    "uint64": ((2**64, OUTSIDE), (-1, OUTSIDE), (10**6000, OUTSIDE)),
    "int4": ((8, OUTSIDE), (-9, OUTSIDE), (100, OUTSIDE), (1.5, TYPE)),
    "int2": ((2, OUTSIDE),), "uint4": ((16, OUTSIDE), (-1, OUTSIDE)), "uint2": ((4, OUTSIDE),),
    "int1": ((1, OUTSIDE),), "uint1": ((2, OUTSIDE),),
    "float16": ((65520.0, OUTSIDE), (1e5, OUTSIDE), ("1.5", TYPE), (None, TYPE), (b"1", TYPE)),
    "float32": ((1e39, OUTSIDE), (np.complex64(1 + 2j), TYPE), (np.array(1 + 2j), TYPE), (1j, TYPE)),
    "float64": (
        (np.longdouble("1e4000"), OUTSIDE), (Decimal("1e400"), OUTSIDE), (10**400, OUTSIDE),
        (np.complex128(1), TYPE), (np.timedelta64(1, "s"), TYPE), (np.ma.masked, TYPE), ("nan", TYPE),
        (np.ma.masked_array(1.0, True), TYPE), ([1.0], TYPE), (np.ones((1, 1)), TYPE),
    ),
    ">f4": (("2", TYPE), (1e39, OUTSIDE)),
    "longdouble": (("1.5", TYPE), (None, TYPE), (10**5000, OUTSIDE), (np.clongdouble(1), TYPE)),
    "bfloat16": ((1e39, OUTSIDE), (np.complex64(1), TYPE), ("1", TYPE)),
    "float8_e5m2": ((1e9, OUTSIDE), (-61441.0, OUTSIDE)),
    "float8_e4m3fn": ((1000.0, OUTSIDE), (math.inf, OUTSIDE)),
    "float8_e8m0fnu": ((-1.0, OUTSIDE), (0.0, OUTSIDE), (1e-60, OUTSIDE), (1e39, OUTSIDE)),
    "float4_e2m1fn": ((100, OUTSIDE), (math.inf, OUTSIDE), (math.nan, OUTSIDE)),
    "complex64": (("1+2j", TYPE), (None, TYPE), (1e39, OUTSIDE), (complex(0, 1e39), OUTSIDE)),
    "complex128": (("1", TYPE), (10**400, OUTSIDE), (np.clongdouble(np.longdouble("1e4000")), OUTSIDE)),
    "complex32": ((1e5, OUTSIDE), ("1", TYPE)),
    "S3": (("abcdef", OUTSIDE), (b"abcd", OUTSIDE), (5, TYPE), (None, TYPE), ("ä", TYPE)),
    "U3": (("abcdef", OUTSIDE), (5, TYPE), (b"abc", TYPE), (None, TYPE)),
    "V3": ((b"abcd", OUTSIDE), (5, TYPE), ("abc", TYPE), (None, TYPE)),
    "M8[s]": (
        (None, TYPE), (1.5, TYPE), ("soon", TYPE), (np.datetime64("2020-01-01T00:00:00.5"), OUTSIDE),
        (datetime.datetime(2020, 1, 1, microsecond=1), OUTSIDE), (np.timedelta64(1, "s"), TYPE),
    ),
    "M8[ns]": ((np.datetime64("9999", "Y"), OUTSIDE),),
    "m8[s]": ((None, TYPE), (np.datetime64("2020"), TYPE), (np.timedelta64(5, "ms"), OUTSIDE)),
}  # fmt: skip


def named(value: Any) -> str:
    return value if isinstance(value, str) else shown(value)[:40]


_taken = [(dtype, value) for dtype, values in TAKEN.items() for value in values]
_refused = [(dtype, *case) for dtype, cases in REFUSED.items() for case in cases]


@pytest.fixture(autouse=True, scope="module")
def job():
    with pyshmem.init(heap_size="4M", device_heap_size="1M", device="sim") as running:
        yield running


@pytest.fixture(autouse=True)
def no_warning_instead_of_an_error():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def of_name(name: str) -> np.dtype[Any]:
    """A dtype of the tables; as_dtype takes names that NumPy does not have from ml_dtypes."""
    if name in ("complex32", "bcomplex32", "int1", "uint1") and not hasattr(ml_dtypes, name):
        pytest.skip(f"this ml_dtypes has no {name}")
    return as_dtype(name)


@pytest.mark.parametrize(("name", "value"), _taken, ids=named)
def test_p_stores_what_the_dtype_holds(name: str, value: Any) -> None:
    value, stored = value if isinstance(value, tuple) else (value, value)
    dtype = of_name(name)
    dest = pyshmem.zeros(1, dtype)
    pyshmem.p(dest, value, 0)
    expected = np.array(stored).astype(dtype)
    if dtype.char in "gG":  # their bytes have unused ones
        assert dest[0] == expected
    else:
        assert dest.view(np.uint8).tobytes() == expected.tobytes()


@pytest.mark.parametrize(("name", "value", "error"), _refused, ids=named)
def test_p_refuses_what_the_dtype_does_not_hold(name: str, value: Any, error: Any) -> None:
    dtype = of_name(name)
    dest = pyshmem.zeros(1, dtype)
    with pytest.raises(error, match="value"):
        pyshmem.p(dest, value, 0)
    assert not dest.view(np.uint8).any()


@pytest.mark.parametrize("name", [n for n in TAKEN if n not in ("float4_e2m1fn", "float6_e3m2fn")])
def test_nan_stays_nan_where_there_is_one(name: str) -> None:
    dtype = of_name(name)
    if dtype.kind in "biuSUVMm" and "float" not in dtype.name:
        with pytest.raises(TypeError):
            element_of(dtype, math.nan)
    else:
        assert np.isnan(element_of(dtype, math.nan).astype(complex))


def test_records_go_field_by_field() -> None:
    dest = pyshmem.zeros(1, RECORD)
    pyshmem.p(dest, (255, (1.5, 2)), 0)
    assert dest[0].item() == (255, pytest.approx([1.5, 2]))
    pyshmem.p(dest, np.array((7, 3.0), [("count", "i8"), ("where", "f8")])[()], 0)
    assert dest[0]["count"] == 7
    assert dest[0]["where"].tolist() == [3, 3]
    for value, error, named in (
        ((256, (0, 0)), OverflowError, "count"), ((1.5, (0, 0)), TypeError, "count"),
        ((1, (0, 1e39)), OverflowError, "where"), ((1, (0, 0, 0)), TypeError, "where"),
        ((1,), TypeError, "value"),        (5, TypeError, "value"), (None, TypeError, "value"),
    ):  # fmt: skip
        with pytest.raises(error, match=named):
            pyshmem.p(dest, value, 0)


@pytest.mark.parametrize("name", ["bool", "float16", "complex64", "int4", "float64", "uint8"])
def test_p_on_a_stream_looks_at_values_too(name: str) -> None:
    dest = pyshmem.zeros(1, of_name(name), heap="device")
    for value, error in REFUSED.get(name, ((256, OUTSIDE), (1.5, TYPE))):
        with pytest.raises(error):
            pyshmem.p(dest, value, 0, stream=0)


@pytest.mark.parametrize("name", ["float32", "float64"])
@pytest.mark.parametrize(
    "value", [1 + 2j, np.complex64(1 + 2j), np.array(1j), "1", None, np.ma.masked]
)
def test_atomics_take_real_numbers(name: str, value: Any) -> None:
    dest, fetch = pyshmem.zeros(1, name), np.zeros(1, name)
    for call in (
        pyshmem.atomic_set,
        pyshmem.atomic_add,
        pyshmem.atomic_swap,
        pyshmem.atomic_fetch_add,
    ):
        with pytest.raises(TypeError, match="value"):
            call(dest, value, 0)
    for call in (pyshmem.atomic_swap_nbi, pyshmem.atomic_fetch_add_nbi):
        with pytest.raises(TypeError, match="value"):
            call(fetch, dest, value, 0)
    assert dest[0] == 0


@pytest.mark.parametrize("ways", [("C", "F"), ("F", "C")])
def test_shmem4py_moves_no_array_in_c_order_into_one_in_fortran_order(
    ways: tuple[str, str],
) -> None:
    from pyshmem.interop.shmem4py import shmem

    target, source = (shmem.zeros((2, 3), int, order=way) for way in ways)
    signal = shmem.new_signal()
    flat = shmem.array([0, 1, 2, 3, 4, 5])
    for call in (
        lambda to, of: shmem.put(to, of, 0), lambda to, of: shmem.get(to, of, 0),
        lambda to, of: shmem.put_nbi(to, of, 0), lambda to, of: shmem.get_nbi(to, of, 0),
        lambda to, of: shmem.put_signal(to, of, 0, signal, 1, shmem.SIGNAL_SET),
        lambda to, of: shmem.iput(to, of, 0), lambda to, of: shmem.iget(to, of, 0),
        lambda to, of: shmem.broadcast(to, of, 0), shmem.fcollect, shmem.collect, shmem.alltoall,
        shmem.sum_reduce, shmem.reduce,
    ):  # fmt: skip
        with pytest.raises(ValueError, match=r"target is in .* order and source in .* order"):
            call(target, source)
    shmem.put(target, flat, 0)  # one dimension is in both orders
    shmem.put(target, target, 0)


@pytest.mark.parametrize("name", ["u1", "int4", ">i2"])
def test_a_new_array_refuses_an_integer_that_does_not_fit(name: str) -> None:
    from pyshmem.interop.shmem4py import shmem

    for full in (pyshmem.full, shmem.full):
        with pytest.raises(OverflowError, match=re.escape("40000")):
            full(2, 40000, dtype=name)
        assert full(2, 7, dtype=name).tolist() == [7, 7]
