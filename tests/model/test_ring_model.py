# SPDX-License-Identifier: BSD-3-Clause
"""The ring's protocol keeps its promises in every order of steps, and needs each of its guards."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future, ProcessPoolExecutor

import pytest
from ring_model import GUARDS, SLOTS, Ring, Violation

PROGRAMS = {
    "replies": (("ask", "ask"), ("ask", "ask"), ("ask",)),
    "three laps": (("ask", "ask", "ask"), ("ask", "ask", "ask")),
    "one-way": (("tell", "tell", "quiet"), ("tell", "tell", "quiet")),
    "mixed": (("tell", "ask", "quiet"), ("ask", "tell", "quiet")),
    "replies of three": (("ask", "ask", "ask"), ("ask", "ask", "ask"), ("ask", "ask")),
    "mixed of three": (("tell", "ask", "quiet"), ("tell", "quiet"), ("ask",)),
    "quiet of others": (("tell", "quiet"), ("tell", "quiet"), ("ask",)),
    "replies given up": (("ask?", "ask"), ("ask?", "ask"), ("ask",)),
    "one given up": (("ask?",), ("ask", "ask")),
    "quiet of two": (("tell", "tell", "quiet"), ("tell", "quiet")),
    "tickets given up": (("tell?", "ask"), ("ask?", "tell", "quiet")),
    "laps given up": (("tell?", "tell?"), ("tell?", "ask?")),
    "laps of one": (("tell", "ask", "tell?", "tell?", "tell", "ask", "quiet"),),
}


def explore(name: str) -> int:
    """The number of states of a program's ring."""
    return Ring(PROGRAMS[name]).explore()


@pytest.fixture(scope="module")
def explored() -> Iterator[dict[str, Future[int]]]:
    """All programs at once, the longest first."""
    names = sorted(PROGRAMS, key=lambda name: -sum(map(len, PROGRAMS[name])))
    with ProcessPoolExecutor(2) as pool:
        yield {name: pool.submit(explore, name) for name in names}


@pytest.mark.long
@pytest.mark.parametrize("name", PROGRAMS)
def test_no_order_of_steps_breaks_the_ring(name: str, explored: dict[str, Future[int]]) -> None:
    programs = PROGRAMS[name]
    requests = sum(verb != "quiet" for program in programs for verb in program)
    assert requests > SLOTS  # slots are used again
    assert explored[name].result() > (1000 if len(programs) > 1 else 100)


@pytest.mark.parametrize(
    ("guard", "name", "message"),
    [
        ("skip", "tickets given up", "waits forever at"),
        ("later laps", "laps given up", "were never served"),
        ("grace", "laps given up", "was read as words of"),
        ("wipe", "laps of one", "was read as words of"),
        ("left", "one given up", "waits forever at"),
        ("credit", "mixed", "waits forever at 'read'"),
        ("busy", "three laps", "waits forever at 'read'"),
        ("phase", "one-way", "was read as words of"),
        ("asked again", "quiet of two", "waits forever at 'await'"),
        # A store that is late, as the GPU's memory may have it: two senders use a cell at one time.
        ("claim", "three laps", "waits forever at 'read'"),
        ("read before free", "three laps", "was another's when it was loaded"),
        ("quiet waits for slots", "one-way", "quiet returned before request"),
        ("quiet waits for copies", "one-way", "quiet returned before request"),
    ],
)
def test_each_guard_is_needed(guard: str, name: str, message: str) -> None:
    assert guard in GUARDS
    with pytest.raises(Violation, match=message):
        Ring(PROGRAMS[name], GUARDS - {guard}).explore()
