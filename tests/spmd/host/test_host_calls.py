# SPDX-License-Identifier: BSD-3-Clause
"""The short way into the library: it takes what it can, and leaves the rest to the Python routine."""

from __future__ import annotations

import importlib
import inspect
import pickle

import numpy as np
import pytest

import pyshmem
from pyshmem.host import fast_calls

FAST = [name for name in pyshmem.__all__ if isinstance(getattr(pyshmem, name), fast_calls.Call)]


def reached(monkeypatch: pytest.MonkeyPatch, module: str, name: str) -> list[str]:
    """Collects a word each time the Python routine gets as far as ``name`` of its module."""
    words: list[str] = []
    target = f"pyshmem.host.{module}.{name}"
    original = getattr(importlib.import_module(f"pyshmem.host.{module}"), name)

    def watch(*args: object, **kwargs: object) -> object:
        words.append(name)
        return original(*args, **kwargs)

    monkeypatch.setattr(target, watch)
    return words


def test_the_hot_routines_have_a_short_way() -> None:
    wanted = {"put", "get", "p", "g", "barrier_all", "broadcast", "fcollect", "wait_until", "quiet"}
    assert wanted <= set(FAST)
    assert {name for name in pyshmem.__all__ if name.endswith("_reduce")} <= set(FAST)


@pytest.mark.parametrize("name", FAST)
def test_a_short_way_looks_like_its_routine(name: str) -> None:
    call = getattr(pyshmem, name)
    assert call.__name__ == name
    assert call.__doc__ == call.__wrapped__.__doc__
    assert inspect.isroutine(call)
    assert inspect.signature(call) == inspect.signature(call.__wrapped__)
    assert pickle.loads(pickle.dumps(call)) is call


def test_whole_arrays_and_parts_take_it(monkeypatch: pytest.MonkeyPatch) -> None:
    words = reached(monkeypatch, "rma", "pair")
    dest, source = pyshmem.zeros(8), pyshmem.ones(8)
    me = pyshmem.my_pe()
    pyshmem.put(dest, source, me)
    pyshmem.put(dest, np.full(8, 2.0), me, nelems=3)
    assert dest.tolist() == [2, 2, 2, 1, 1, 1, 1, 1]
    local = np.zeros(8)
    pyshmem.get(local, dest, me, nelems=np.int64(4).item(), ctx=pyshmem.CTX_DEFAULT)
    assert local.tolist() == [2, 2, 2, 1, 0, 0, 0, 0]
    assert words == []


def test_views_and_other_arrays_do_not(monkeypatch: pytest.MonkeyPatch) -> None:
    words = reached(monkeypatch, "rma", "pair")
    dest = pyshmem.zeros(8)
    pyshmem.put(dest[2:4], np.array([5.0, 6.0]), pyshmem.my_pe())
    assert dest.tolist() == [0, 0, 5, 6, 0, 0, 0, 0]
    with pytest.raises(TypeError, match="float64"):
        pyshmem.put(dest, np.zeros(8, dtype=np.int64), pyshmem.my_pe())
    with pytest.raises(ValueError, match="nelems is 9"):
        pyshmem.put(dest, np.zeros(8), pyshmem.my_pe(), nelems=9)
    with pytest.raises(ValueError, match="contiguous"):
        pyshmem.put(dest, np.zeros(16)[::2], pyshmem.my_pe())
    assert len(words) == 4


@pytest.mark.parametrize("dtype", ["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8"])
def test_values_keep_their_range(dtype: str) -> None:
    limits = np.iinfo(dtype)
    word = pyshmem.zeros(1, dtype=dtype)
    me = pyshmem.my_pe()
    for value in (limits.min, limits.max, 0, 1):
        pyshmem.p(word, int(value), me)
        assert pyshmem.g(word, me) == value == word[0]
    for value in (int(limits.min) - 1, int(limits.max) + 1, 1 << 70):
        with pytest.raises(OverflowError):
            pyshmem.p(word, value, me)
    assert word[0] == 1


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_floats_arrive_as_they_are(dtype: str) -> None:
    word = pyshmem.zeros(1, dtype=dtype)
    me = pyshmem.my_pe()
    for value in (0.1, -0.0, float("inf"), 1e300 if dtype == "f8" else 1e30, 7):
        pyshmem.p(word, value, me)
        assert pyshmem.g(word, me) == word[0] == np.dtype(dtype).type(value)


def test_mistakes_are_told_as_before() -> None:
    word = pyshmem.zeros(1, dtype=np.int64)
    with pytest.raises(ValueError, match="outside the team"):
        pyshmem.g(word, pyshmem.n_pes())
    with pytest.raises(TypeError):
        pyshmem.p(word, 1, 0, nelems=None)  # type: ignore[call-arg]
    with pytest.raises(TypeError):
        pyshmem.barrier_all(1)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="atomic_and is not for float"):
        pyshmem.atomic_fetch_and(pyshmem.zeros(1, dtype=np.float32), 1, 0)
