# SPDX-License-Identifier: BSD-3-Clause
"""Which arguments take the short way into the library; all others are left to Python's routine."""

from __future__ import annotations

import pickle
import threading
import types
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import pyshmem
from pyshmem._core import _fast


class Left(Exception):
    """Raised in place of the routine in Python."""


def refuse(*_args: Any, **_named: Any) -> None:
    raise Left


@pytest.fixture(scope="module", autouse=True)
def job() -> Iterator[None]:
    with pyshmem.init(device="none", heap_size="4M"):
        yield


def short(routine: Any, op: int = 0) -> Any:
    return _fast.Call(refuse, routine, op)


def test_numbers_of_numpy_take_the_short_way() -> None:
    word, real = pyshmem.zeros(1, np.int64), pyshmem.zeros(1, np.float32)
    for value in (np.int64(-3), np.uint8(7), np.int16(-9), True):
        short("p")(word, value, np.int32(0))
        assert word[0] == value
    for number in (np.float64(0.5), np.float32(0.25), 3, np.float64("inf")):
        short("p")(real, number, 0)
        assert real[0] == number
    assert short("test")(word, pyshmem.CMP_EQ, np.int64(1)) is True


@pytest.mark.parametrize(
    "value",
    [np.timedelta64(3), np.bool_(True), np.array([1]), np.uint64(1 << 63), 1 << 63, 0.5, "1", None],
)
def test_what_is_no_integer_or_does_not_fit_is_left_to_python(value: Any) -> None:
    word = pyshmem.full(1, 5, np.int64)
    with pytest.raises(Left):
        short("p")(word, value, 0)
    with pytest.raises(Left):
        short("test")(word, pyshmem.CMP_EQ, value)
    assert word[0] == 5


@pytest.mark.parametrize("value", [10**400, np.longdouble(1), np.float16(1), 1e39, np.bool_(True)])
def test_what_is_no_float_or_does_not_fit_is_left_to_python(value: Any) -> None:
    real = pyshmem.full(1, 5, np.float32)
    with pytest.raises(Left):
        short("p")(real, value, 0)
    assert real[0] == 5


def test_transfers_with_signals_and_without_blocking_take_it() -> None:
    dest, source, sig = pyshmem.zeros(4), pyshmem.arange(4.0), pyshmem.new_signal()
    for op, routine in enumerate(("copy", "copy", "copy", "copy", "put_signal", "put_signal")):
        dest[:] = 9
        sig[0] = 0
        signal = (sig, 7, pyshmem.SIGNAL_SET) if routine == "put_signal" else ()
        is_get = op in (1, 3)
        for local in (source, np.arange(4.0)):
            sides = (dest, local) if not is_get else (dest, source)
            short(routine, op)(*sides, *signal, 0, nelems=3)
            assert dest.tolist() == [0, 1, 2, 9], op
            dest[:] = 9
        assert short("signal_fetch")(sig) == (7 if signal else 0)
    pyshmem.quiet()


def test_arguments_that_do_not_go_together_are_left_to_python() -> None:
    dest, few, other = pyshmem.zeros(4), pyshmem.zeros(2), pyshmem.zeros(4, np.int32)
    sig, source = pyshmem.new_signal(), pyshmem.arange(4.0)
    for wrong in (
        lambda: short("put_signal", 4)(few, source, sig, 1, 0, 0),
        lambda: short("put_signal", 4)(dest, other, sig, 1, 0, 0),
        lambda: short("put_signal", 4)(dest, source, dest, 1, 0, 0),
        lambda: short("put_signal", 4)(dest, source, sig, -1, 0, 0),
        lambda: short("copy", 2)(few, source, 0),
        lambda: short("copy", 3)(few, source, 0, nelems=5),
        lambda: short("signal_fetch")(dest),
        lambda: short("test")(dest, pyshmem.CMP_EQ, 1),
    ):
        with pytest.raises(Left):
            wrong()


def test_a_thread_that_polls_lets_another_store() -> None:
    """Short calls keep Python's lock; Python's own turns, and one of 64 calls, give it up."""
    word = pyshmem.zeros(1, np.int64)
    other = threading.Thread(target=lambda: pyshmem.p(word, 1, 0))
    other.start()
    while not pyshmem.test(word, pyshmem.CMP_EQ, 1):
        pass
    other.join()


def test_the_package_is_a_module_still() -> None:
    assert isinstance(pyshmem, types.ModuleType)
    assert "__getattr__" not in vars(pyshmem)  # it would cost each name that there is
    assert repr(pyshmem).startswith("<module 'pyshmem' from")
    assert pickle.loads(pickle.dumps(pyshmem)) is pyshmem  # functions that are sent to PEs name it
    pyshmem.made_here = 1  # type: ignore[attr-defined]
    assert vars(pyshmem).pop("made_here") == 1
    with pytest.raises(AttributeError):
        pyshmem.made_here  # type: ignore[attr-defined]  # noqa: B018
