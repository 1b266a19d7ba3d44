# SPDX-License-Identifier: BSD-3-Clause
"""The barrier of few PEs holds its promise in every order of steps, and each guard of it is needed."""

from __future__ import annotations

import pytest
from barrier_model import GUARDS, Barrier, Violation

CASES = {
    "nobody leaves": {"withdrawals": (0, 0, 0)},
    "two PEs": {"withdrawals": (2, 2)},
    "two PEs, one in a hurry": {"withdrawals": (3, 1)},
    "three PEs": {"withdrawals": (1, 1, 1)},
    "three PEs, one stays": {"withdrawals": (2, 1, 0)},
    "a PE is killed, of two": {"withdrawals": (1, 1), "kills": 1},
    "a PE is killed, of three": {"withdrawals": (1, 1, 0), "kills": 1},
}


@pytest.mark.parametrize("name", CASES)
def test_no_order_of_steps_breaks_the_promise(name: str) -> None:
    assert Barrier(**CASES[name]).explore() > 50


@pytest.mark.parametrize(
    ("without", "name", "message"),
    [
        ({"mark"}, "three PEs", "a barrier that PE . has"),
        ({"mark"}, "three PEs, one stays", "a barrier that PE . has"),
        ({"count"}, "three PEs", "passes a barrier that PE . has left"),
        ({"mark", "count"}, "three PEs", "a barrier that PE . has"),
        ({"fence"}, "two PEs", "a barrier that PE . has"),
        ({"give up"}, "a PE is killed, of two", "PEs are kept in the barrier"),
        ({"give up"}, "a PE is killed, of three", "PEs are kept in the barrier"),
    ],
)
def test_each_guard_is_needed(without: set[str], name: str, message: str) -> None:
    with pytest.raises(Violation, match=message):
        Barrier(**CASES[name], guards=GUARDS - without).explore()
