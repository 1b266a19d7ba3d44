# SPDX-License-Identifier: BSD-3-Clause
"""Arrays of one shape that PEs make in another order: told by what the program calls them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

BEGIN = """
import pyshmem
with pyshmem.init(heap_size="1M") as job:
    me = job.my_pe
"""

SWAPPED = {
    "lines": (
        """
    if me: a = pyshmem.zeros(4); b = pyshmem.zeros(4)
    else: b = pyshmem.zeros(4); a = pyshmem.zeros(4)
""",
        "b, a",
    ),
    "dict": (
        """
    order = ("heat", "speed", "flux")
    fields = {name: pyshmem.ones(4) for name in (order[1:] + order[:1] if me else order)}
""",
        "'heat', 'speed', 'flux'",
    ),
    "helpers": (
        """
    class State: pass
    state, fields, at = State(), {}, 0
    def field(): return pyshmem.full(4, 1.5)
    def first(): state.heat = field()
    def second(): fields[at] = field()
    def third(): dict(speed=field())
    for one in (first, second, third) if me else (second, third, first): one()
""",
        "fields[at], speed, state.heat",
    ),
}

#: No mistakes: other names with one part each, and names that nobody can see.
RIGHT = """
    if me: source = pyshmem.zeros(4)
    else: dest = pyshmem.zeros(4)
    for turn in range(3):
        kept = [pyshmem.zeros(4), pyshmem.ones(4)]
        box = pyshmem.zeros(4)
    len(pyshmem.zeros(4)); same = pyshmem.zeros(4)
    box = me; box = pyshmem.zeros(4)
    swapped = lambda: (pyshmem.zeros(4), pyshmem.zeros(4))
    one, two = swapped() if me else swapped()[::-1]
"""


@pytest.mark.parametrize("name", SWAPPED)
def test_arrays_in_another_order_are_told(name: str, run_pes: Callable) -> None:
    program, said = SWAPPED[name]
    done = run_pes(3, BEGIN + program, check=True)
    assert done.stderr.count("RuntimeWarning") == 1
    assert f"PE 0 makes {said} in this order, PEs 1, 2 in another" in done.stderr


def test_other_names_alone_are_no_mistake(run_pes: Callable) -> None:
    done = run_pes(3, BEGIN + RIGHT, check=True)
    assert "Warning" not in done.stderr


def test_names_stay_when_released_arrays_are_freed(run_pes: Callable) -> None:
    made = "\n    for turn in range(3): box = pyshmem.zeros(99)\n    del box"
    done = run_pes(3, BEGIN + made + SWAPPED["lines"][0], check=True)
    assert done.stderr.count("PE 0 makes b, a in this order, PEs 1, 2 in another") == 1


@pytest.mark.parametrize(("settings", "told"), [({}, 0), ({"PYSHMEM_CHECK": "args"}, 1)])
def test_later_arrays_are_compared_in_checking_mode(
    settings: dict[str, str], told: int, run_pes: Callable
) -> None:
    made = "\n    kept = [pyshmem.zeros(1) for _ in range(40)]"
    done = run_pes(2, BEGIN + made + SWAPPED["lines"][0], env=settings, check=True)
    assert done.stderr.count("PE 0 makes b, a") == told


def test_the_setting_says_how_many_are_compared(run_pes: Callable) -> None:
    settings = {"PYSHMEM_CHECK_FIRST": "0"}
    done = run_pes(2, BEGIN + SWAPPED["lines"][0], env=settings, check=True)
    assert "Warning" not in done.stderr
