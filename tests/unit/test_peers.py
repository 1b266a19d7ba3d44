# SPDX-License-Identifier: BSD-3-Clause
"""Who is in reach of loads and stores in a job that is too large for the state block's table."""

from __future__ import annotations

import numpy as np
import pytest

import pyshmem  # noqa: F401  (before numba)
from pyshmem._core.contract import SIZES
from pyshmem.device import peers
from pyshmem.device import state as words

PEERS, STEP = 300, 1 << 20


@pytest.fixture
def large_job(monkeypatch: pytest.MonkeyPatch) -> None:
    """The words of PE 130 of 300, on a node of PEs 128 to 135."""
    state = np.zeros(words.WORDS, np.int64)
    state[words.MY_PE], state[words.N_PES] = 130, PEERS
    state[words.NEAR_BEGIN], state[words.NEAR_END] = 128, 256
    state[words.HEAP_BASE], state[words.HEAP_BYTES] = STEP, STEP
    for pe in range(128, 256):
        place = words.DELTA + pe % SIZES.MAX_NEAR_PES
        state[place] = (pe - 130) * STEP if pe < 136 else words.FAR
    monkeypatch.setattr(peers, "state", lambda word: int(state[word]))
    monkeypatch.setattr(peers, "state_pe", lambda word: np.int32(state[word]))


def test_the_own_node_alone_is_near(large_job: None) -> None:
    """PE 5 has the place of PE 133 in the table, and PE 261 too."""
    near = [pe for pe in range(-1, PEERS + 1) if peers.is_p2p(pe)]
    assert near == list(range(128, 136))
    assert peers.distance_to(133) == 3 * STEP


def test_ways_to_near_and_far_pes(large_job: None) -> None:
    array = np.zeros(4, np.int64)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(peers, "address_of", lambda _: STEP)
        ways = {pe: peers.reach(array, 4, 4, pe, 0) for pe in (5, 128, 135, 136, 261)}
    by_stores = {pe for pe, way in ways.items() if way == peers.BY_STORES}
    assert by_stores == {128, 135}
    assert {way for pe, way in ways.items() if pe not in by_stores} == {peers.BY_RING}
