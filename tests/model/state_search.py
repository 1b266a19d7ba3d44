# SPDX-License-Identifier: BSD-3-Clause
"""All states of a model that can be reached, in the order of their distance from the first."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterable
from typing import TypeVar

State = TypeVar("State", bound=Hashable)


def explore(
    first: State, steps: Callable[[State], Iterable[State]], at_end: Callable[[State], None]
) -> int:
    """Number of states. ``at_end`` is called with each that no step leads out of; both may raise."""
    seen, queue = {first}, deque([first])
    while queue:
        state = queue.popleft()
        stuck = True
        for after in steps(state):
            stuck = False
            if after not in seen:
                seen.add(after)
                queue.append(after)
        if stuck:
            at_end(state)
    return len(seen)
