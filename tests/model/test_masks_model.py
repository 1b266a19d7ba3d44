# SPDX-License-Identifier: BSD-3-Clause
"""All members of a step of experts leave out the same, in every order, and each guard is needed."""

from __future__ import annotations

from typing import Any

import pytest
from masks_model import GUARDS, Masks, Violation

NONE, FIRST, LAST = frozenset[int](), frozenset({0}), frozenset({2})


@pytest.mark.parametrize(
    ("calls", "options"),
    [
        ((1, 1), {}),
        ((2, 2), {}),
        ((1, 1, 1), {"out": LAST, "late": NONE}),
        pytest.param((2, 2, 1), {"out": LAST, "late": NONE}, marks=pytest.mark.long),
        pytest.param((1, 1, 1), {"late": LAST}, marks=pytest.mark.long),
    ],
    ids=str,
)
def test_no_order_of_steps_breaks_the_protocol(calls: Any, options: dict[str, Any]) -> None:
    assert Masks(calls, **options).explore() > 3000


#: What shows that a guard is missed: of two members, unless it is one of three that is out.
SHOWN: dict[str, tuple[Any, dict[str, Any]]] = {
    "joins go with commits": ((2, 2, 1), {"out": LAST, "late": NONE}),
    "joins stay when one is left out": ((2, 2, 1), {"out": LAST, "late": FIRST}),
    "who is left out next was in": ((1, 1, 1), {"late": LAST}),
}
_SLOW = {"joins stay when one is left out", "who is left out next was in"}


@pytest.mark.parametrize(
    "guard",
    [pytest.param(g, marks=pytest.mark.long) if g in _SLOW else g for g in sorted(GUARDS)],
)
def test_each_guard_is_needed(guard: str) -> None:
    calls, options = SHOWN.get(guard, ((2, 2), {}))
    with pytest.raises(Violation, match=r"masks differ|data of member"):
        Masks(calls, guards=GUARDS - {guard}, **options).explore()
