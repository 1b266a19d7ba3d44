# SPDX-License-Identifier: BSD-3-Clause
"""No message waits while all of a PE sleep, in every order of steps, and each guard is needed."""

from __future__ import annotations

import pytest
from serving_model import GUARDS, Serving, Violation


@pytest.mark.parametrize("needs", [(1,), (2,), (1, 1), (1, 2), (2, 2), (1, 1, 2)], ids=str)
def test_no_order_of_steps_breaks_the_protocol(needs: tuple[int, ...]) -> None:
    assert Serving(needs).explore() > 50


@pytest.mark.parametrize("guard", sorted(GUARDS))
def test_each_guard_is_needed(guard: str) -> None:
    with pytest.raises(Violation, match="nobody serves"):
        Serving((1, 2), guards=GUARDS - {guard}).explore()
