# SPDX-License-Identifier: BSD-3-Clause
"""PEs of several nodes meet as promised in every order of steps, and each guard is needed."""

from __future__ import annotations

import pytest
from tree_model import GUARDS, Tree, Violation

CASES = {
    "one node": {"leaves": ((1, 1),)},
    "two nodes": {"leaves": ((1,), (1,))},
    "two nodes, one in a hurry": {"leaves": ((2,), (1,)), "epochs": 1},
    "two PEs of a node": {"leaves": ((1, 1), (0,)), "epochs": 1},
    "two nodes of two": {"leaves": ((0, 1), (0, 1)), "epochs": 1},
    "three nodes": {"leaves": ((1,), (1,), (0,)), "epochs": 1},
    "three nodes, one behind the other": {"leaves": ((0,), (1,), (0,))},
    "four nodes": {"leaves": ((0,), (1,), (0,), (1,)), "epochs": 1},
    "a PE is killed, of two": {"leaves": ((1,), (1,)), "epochs": 1, "kills": 1},
    "a PE is killed, of three": {"leaves": ((0,), (1,), (0,)), "epochs": 1, "kills": 1},
}


@pytest.mark.parametrize("name", CASES)
def test_no_order_of_steps_breaks_the_promise(name: str) -> None:
    assert Tree(**CASES[name]).explore() > 30


@pytest.mark.parametrize(
    ("guard", "name", "message"),
    [
        ("who is held asks", "two nodes", "passes meeting"),
        ("who was passed on is asked back", "three nodes", "passes meeting"),
        ("who goes clears the bit", "two nodes", "PEs are kept"),
        ("messages are in order", "two nodes", "PEs are kept|passes meeting"),
        ("an answer strikes out who asked", "three nodes", "PEs are kept|passes meeting"),
        ("the other at the top is struck out", "two nodes", "passes meeting"),
    ],
)
def test_each_guard_is_needed(guard: str, name: str, message: str) -> None:
    with pytest.raises(Violation, match=message):
        Tree(**CASES[name], guards=GUARDS - {guard}).explore()
