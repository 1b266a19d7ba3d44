# SPDX-License-Identifier: BSD-3-Clause
"""No cell is written over before all have read it, in every order of steps, and each guard is needed."""

from __future__ import annotations

import itertools

import pytest
from cells_model import ALL, GUARDS, SYNC, TOLD, Calls, Violation

CASES = {
    "all to all": {"n_pes": 3, "calls": (ALL,) * 4, "n_cells": 2},
    "one root": {"n_pes": 3, "calls": (0,) * 8, "n_cells": 3},
    "roots in turn": {"n_pes": 3, "calls": (0, 1, 2, 0, 1, 2), "n_cells": 2},
    "before a meeting": {"n_pes": 3, "calls": (0, ALL, 0, 0, 1), "n_cells": 2},
    "told beside others": {"n_pes": 3, "calls": (0, TOLD, 0, TOLD, ALL, 1), "n_cells": 2},
    "told alone": {"n_pes": 3, "calls": (TOLD,) * 4, "n_cells": 2},
    "with syncs": {"n_pes": 3, "calls": (0, 0, SYNC, 0, 0, 1), "n_cells": 3},
}


@pytest.mark.parametrize("name", CASES)
def test_no_order_of_steps_breaks_the_protocol(name: str) -> None:
    assert Calls(**CASES[name]).explore() > 50


def test_nor_do_any_five_calls_of_two_pes() -> None:
    for calls in itertools.product((ALL, SYNC, TOLD, 0, 1), repeat=5):
        assert Calls(2, calls, n_cells=2).explore() > 0


@pytest.mark.parametrize(
    ("guard", "name"),
    [
        ("two cells", "all to all"),
        ("full rings meet", "one root"),
        ("meetings count the calls before", "before a meeting"),
        ("two cells", "told alone"),
        ("meetings count the calls before", "told beside others"),
    ],
)
def test_each_guard_is_needed(guard: str, name: str) -> None:
    with pytest.raises(Violation, match="read data of call"):
        Calls(**CASES[name], guards=GUARDS - {guard}).explore()
