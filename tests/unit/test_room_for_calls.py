# SPDX-License-Identifier: BSD-3-Clause
"""Compilers run where Python's frames have room: a call in a loop maps no memory, however deep it is."""

from __future__ import annotations

import resource

import pytest

numba_cpu = pytest.importorskip("pyshmem._foreign.numba_cpu")

CALLS = 200


def _large(a: int = 0, b: int = 0, c: int = 0, d: int = 0, e: int = 0, f: int = 0) -> int:
    """Its frame is larger than its caller's, so at some depth there is room for that one alone."""
    g = h = i = j = k = m = n = o = a + b + c + d + e + f
    return g + h + i + j + k + m + n + o


def _faults_at(depth: int) -> int:
    """The pages that this process is given while the frame that is so deep calls a function often."""
    if depth:
        return _faults_at(depth - 1)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(CALLS):
        _large()
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before


def _worst() -> int:
    """Over some pieces of frames; without room each call at one of these depths maps a page."""
    _faults_at(300)
    return max(_faults_at(depth) for depth in range(300))


def test_no_call_maps_memory_where_there_is_room() -> None:
    assert numba_cpu.with_room(_worst) < CALLS / 2


def test_what_it_calls_is_given_all_and_its_result_and_errors_are_told() -> None:
    assert numba_cpu.with_room(divmod, 17, 5) == (3, 2)
    with pytest.raises(ZeroDivisionError):
        numba_cpu.with_room(divmod, 17, 0)
