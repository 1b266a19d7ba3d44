# SPDX-License-Identifier: BSD-3-Clause
"""An add of one ring begins some time, however many loads another has."""

from __future__ import annotations

import pytest
from roads_model import GUARDS, Roads


def test_no_loads_of_one_ring_keep_an_add_of_another_for_ever() -> None:
    assert len(Roads().explore()) > 20
    assert not Roads().starves()


def test_without_the_mark_they_do() -> None:
    assert Roads(GUARDS - {"wanted"}).starves()


def test_one_road_at_a_time_is_needed() -> None:
    with pytest.raises(AssertionError, match="both roads"):
        Roads(GUARDS - {"one road at a time"}).explore()
