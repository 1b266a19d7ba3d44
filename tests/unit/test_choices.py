# SPDX-License-Identifier: BSD-3-Clause
"""Comparisons and signal operations in another argument's place are told, by every routine."""

from __future__ import annotations

import copy
import enum
import inspect
import pickle
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import pyshmem
from pyshmem._core import values as choices
from pyshmem._core.contract import CMP, SIGNAL


class Others(enum.IntEnum):
    """As of a library that counts in another way."""

    CMP_EQ = 1


def _routines(parameter: str) -> list[str]:
    """The host's, with that parameter."""
    return [
        name
        for name in pyshmem.__all__
        if inspect.isroutine(getattr(pyshmem, name))
        or hasattr(getattr(pyshmem, name), "__wrapped__")
        if parameter in inspect.signature(getattr(pyshmem, name)).parameters
    ]


@pytest.fixture
def job() -> Iterator[pyshmem.Job]:
    with pyshmem.init(heap_size="4M", device="none") as running:
        yield running


def _arguments(routine: str) -> dict[str, Any]:
    """Of a call that is right."""
    words = pyshmem.zeros(4, dtype=np.int64)
    right = {
        "ivar": words, "ivars": words, "sig_addr": pyshmem.new_signal(), "dest": pyshmem.zeros(4),
        "source": np.zeros(4), "cmp": pyshmem.CMP_GE, "cmp_value": 0, "cmp_values": [0] * 4,
        "signal": 1, "sig_op": pyshmem.SIGNAL_SET, "pe": 0,
    }  # fmt: skip
    called = inspect.signature(getattr(pyshmem, routine)).parameters.values()
    return {one.name: right[one.name] for one in called if one.default is one.empty}


WAITS = _routines("cmp")
CHANGES = _routines("sig_op")


def test_the_walks_find_the_routines() -> None:
    assert {"wait_until", "test", "signal_wait_until", "wait_until_some_vector", "test_all"} <= set(
        WAITS
    )
    assert {"put_signal", "put_signal_nbi", "signal_op"} == set(CHANGES)


@pytest.mark.parametrize("routine", WAITS)
def test_a_comparison_and_a_value_that_are_swapped_are_told(job, routine) -> None:
    given = _arguments(routine)
    value = "cmp_values" if "cmp_values" in given else "cmp_value"
    given["cmp"], given[value] = 1, pyshmem.CMP_GE
    with pytest.raises(TypeError, match=f"{value} is CMP_GE, which belongs to cmp: the comparison"):
        getattr(pyshmem, routine)(*given.values())


@pytest.mark.parametrize("routine", WAITS)
@pytest.mark.parametrize(
    "wrong", [pyshmem.SIGNAL_ADD, Others.CMP_EQ, "==", 9], ids=["signal", "other", "text", "9"]
)
def test_what_is_no_comparison_is_refused(job, routine, wrong) -> None:
    given = _arguments(routine) | {"cmp": wrong}
    with pytest.raises((TypeError, ValueError), match=r"cmp is .*CMP_EQ"):
        getattr(pyshmem, routine)(*given.values())


@pytest.mark.parametrize("routine", CHANGES)
@pytest.mark.parametrize("other", ["signal", "pe"])
def test_a_signal_operation_in_another_place_is_told(job, routine, other) -> None:
    given = _arguments(routine)
    given["sig_op"], given[other] = given[other], pyshmem.SIGNAL_ADD
    with pytest.raises(
        TypeError, match=f"{other} is SIGNAL_ADD, which belongs to sig_op: the value"
    ):
        getattr(pyshmem, routine)(*given.values())


@pytest.mark.parametrize("routine", CHANGES)
@pytest.mark.parametrize("wrong", [pyshmem.CMP_NE, Others.CMP_EQ, 5], ids=["cmp", "other", "5"])
def test_what_is_no_signal_operation_is_refused(job, routine, wrong) -> None:
    given = _arguments(routine) | {"sig_op": wrong}
    with pytest.raises((TypeError, ValueError), match=r"sig_op is .*SIGNAL_SET"):
        getattr(pyshmem, routine)(*given.values())


@pytest.mark.parametrize("number", [int, np.int32, np.uint64, lambda one: one])
def test_numbers_of_programs_and_right_constants_are_taken(job, number) -> None:
    words, sig = pyshmem.zeros(2, dtype=np.int64), pyshmem.new_signal()
    assert pyshmem.test(words, number(pyshmem.CMP_EQ), 0)
    assert not pyshmem.test(words, number(pyshmem.CMP_GT), 0)
    pyshmem.signal_op(sig, 3, number(pyshmem.SIGNAL_SET), 0)
    pyshmem.signal_op(sig, 2, number(pyshmem.SIGNAL_ADD), 0)
    pyshmem.put_signal(words, np.ones(2, np.int64), sig, 1, number(pyshmem.SIGNAL_ADD), 0)
    assert pyshmem.signal_wait_until(sig, number(pyshmem.CMP_EQ), 6) == 6
    assert words.tolist() == [1, 1]


@pytest.mark.parametrize(
    "call",
    [
        lambda a: pyshmem.put(a, np.zeros(4), pyshmem.CMP_EQ),
        lambda a: pyshmem.p(a, 1.0, pyshmem.SIGNAL_SET),
        lambda a: pyshmem.g(a, pyshmem.CMP_EQ),
        lambda a: pyshmem.atomic_add(a.view(np.int64), pyshmem.SIGNAL_ADD, 0),
        lambda a: pyshmem.put(a, np.zeros(4), 0, nelems=pyshmem.CMP_EQ),
        lambda a: pyshmem.broadcast(a, a, pyshmem.SIGNAL_ADD),
    ],
)
def test_a_choice_is_no_number_of_other_routines(job, call) -> None:
    with pytest.raises(TypeError, match=r"which belongs to (cmp|sig_op)"):
        call(pyshmem.zeros(4))


def test_constants_are_the_contract_s_numbers_and_print_as_them() -> None:
    for kind, group, prefix in ((pyshmem.Cmp, CMP, "CMP_"), (pyshmem.SignalOp, SIGNAL, "SIGNAL_")):
        assert {one.name: int(one) for one in kind} == {one.name: one.value for one in group}
        for one in kind:
            assert getattr(pyshmem, prefix + one.name) is one
            assert (repr(one), str(one), f"{one}") == (prefix + one.name, *[str(int(one))] * 2)
            assert copy.deepcopy(one) is one
            assert pickle.loads(pickle.dumps(one)) is one


def test_a_class_alone_is_told_as_all_of_it() -> None:
    """As where a kernel is compiled."""
    told = choices.misplaced("cmp_value", pyshmem.Cmp)
    assert told.startswith("cmp_value is one of CMP_EQ, CMP_NE, CMP_GT, CMP_GE, CMP_LT or CMP_LE")
    assert not choices.misplaced("cmp", pyshmem.Cmp)
    assert not choices.misplaced("cmp", int)
    assert (
        choices.misplaced("cmp", Others)
        == f"cmp is Others, which is none of {choices.CHOICES['cmp']}"
    )
