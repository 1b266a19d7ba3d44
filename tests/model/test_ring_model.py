# SPDX-License-Identifier: BSD-3-Clause
"""The ring's protocol holds in every state it can reach, and each of its guards is needed for that."""

from __future__ import annotations

import pytest
from ring_model import Model, Rules, Violation, search

#: What senders do, one line each; two slots make all of them wrap around.
SCRIPTS = {
    "replies": (["ask"], ["ask"], ["ask"]),
    "laps": (["ask", "ask", "ask"], ["ask", "tell", "ask"]),
    "quiets": (["tell", "quiet", "ask"], ["ask", "tell", "quiet"]),
    "three": (["ask", "tell"], ["tell", "quiet"], ["ask"]),
}

WRONG = {
    "credit": (Rules(credit=False), "replies", "nobody can move|made of words of"),
    "busy": (Rules(busy=False), "replies", "reads the reply to|nobody can move"),
    "busy-first": (Rules(busy_first=False), "replies", "reads the reply to|nobody can move"),
    "phase": (Rules(phases=1), "replies", "made of words of"),
    "quiet": (Rules(quiet_waits=False), "quiets", "before all of that is complete"),
}


@pytest.mark.parametrize("name", SCRIPTS)
def test_every_state_of_the_protocol_is_right(name: str) -> None:
    assert search(Model(SCRIPTS[name])) > 5_000


@pytest.mark.parametrize("name", WRONG)
def test_without_a_guard_the_protocol_goes_wrong(name: str) -> None:
    rules, scripts, what = WRONG[name]
    with pytest.raises(Violation, match=what):
        search(Model(SCRIPTS[scripts], rules))
