# SPDX-License-Identifier: BSD-3-Clause
"""Two halves are enough for data with flags in it, in every order of steps, and each guard is needed."""

from __future__ import annotations

import pytest
from ll_model import ALL, GUARDS, MOVED, SINGLE, Calls, Violation

CASES = {
    "two PEs": {"n_pes": 2, "calls": (ALL,) * 5},
    "two PEs, units in halves": {"n_pes": 2, "calls": (ALL,) * 5, "whole": False},
    "two PEs of two lanes": {"n_pes": 2, "calls": (ALL, SINGLE, SINGLE, ALL), "lanes": 2},
    "grids that change": {"n_pes": 2, "calls": (ALL, MOVED, SINGLE, MOVED), "lanes": 2},
    "three PEs": {"n_pes": 3, "calls": (ALL,) * 3},
    "broadcasts of two": {"n_pes": 2, "calls": (0, 0, 0, 1, 0)},
    "broadcasts of three": {"n_pes": 3, "calls": (0, 0, 0)},
    "mixed": {"n_pes": 2, "calls": (ALL, 1, 1, ALL, 0), "whole": False},
}


@pytest.mark.parametrize("name", CASES)
def test_no_order_of_steps_breaks_the_protocol(name: str) -> None:
    assert len(CASES[name]["calls"]) > 2  # places are used again
    assert Calls(**CASES[name]).explore() > 50


@pytest.mark.parametrize(
    ("guard", "name", "message"),
    [
        ("two halves", "two PEs", "waits forever in call"),
        ("two halves", "three PEs", "waits forever in call"),
        ("flag of each half", "two PEs, units in halves", "took data of call"),
        ("empty units", "broadcasts of two", "waits forever in call"),
        ("empty units", "broadcasts of three", "waits forever in call"),
        ("meet", "two PEs of two lanes", "waits forever in call"),
    ],
)
def test_each_guard_is_needed(guard: str, name: str, message: str) -> None:
    with pytest.raises(Violation, match=message):
        Calls(**CASES[name], guards=GUARDS - {guard}).explore()
