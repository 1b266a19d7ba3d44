# SPDX-License-Identifier: BSD-3-Clause
"""The numbers of ``host_proxy/ring.h`` and those of kernels are the same; so are their requests."""

from __future__ import annotations

import ast
import ctypes
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pyshmem  # noqa: F401  (turns on the simulator before numba is imported)

_ring = pytest.importorskip("pyshmem.device.ring.requests")

from pyshmem._core import contract  # noqa: E402
from pyshmem.device import state  # noqa: E402
from pyshmem.device.leaf import backend  # noqa: E402

if not backend.SIM:
    pytest.skip("the simulator is off", allow_module_level=True)

from pyshmem.device.leaf.sim import threads as leaves  # noqa: E402

RING_H = Path(__file__).parents[2] / "host_proxy" / "ring.h"
SLOTS, LOG2 = 8, 3
INT64 = st.integers(-(2**63), 2**63 - 1)
#: Words of a request in the order of ``_send``'s arguments, less the kind.
WORDS = ("DEST", "SOURCE", "VALUE", "EXTRA", "EXTRA2", "PE")

SHIM = """
#include "ring.h"
void pack(const pysh_request_t *request, uint64_t phase, pysh_slot_t *slot) {
    pysh_request_pack(request, phase, slot);
}
int unpack(const pysh_slot_t *slot, uint64_t phase, pysh_request_t *request) {
    return pysh_request_unpack(slot, phase, request);
}
uint64_t phase(uint64_t ticket, unsigned log2_n) { return pysh_ring_phase(ticket, log2_n); }
void waiter(const pysh_ring_control_t *control, int64_t *out) {
    pysh_ring_waiter_t who = pysh_ring_waiter(control);
    out[0] = (int64_t)who.ticket, out[1] = who.awaits, out[2] = who.block, out[3] = who.thread;
}
"""


@pytest.fixture(scope="module")
def header(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    """The inline functions of ring.h, compiled."""
    if shutil.which("gcc") is None:
        pytest.skip("gcc is not installed")
    folder = tmp_path_factory.mktemp("ring")
    (folder / "shim.c").write_text(SHIM)
    (folder / "pysh_contract.h").write_text(contract.c_header(public=False))
    sources = RING_H.parents[1] / "native" / "src"
    command = ["gcc", "-std=c11", "-shared", "-fPIC"]
    command += [f"-I{RING_H.parent}", f"-I{sources}", f"-I{folder}", "-o"]
    subprocess.run([*command, folder / "shim.so", folder / "shim.c"], check=True)
    library = ctypes.CDLL(str(folder / "shim.so"))
    library.phase.argtypes = [ctypes.c_uint64, ctypes.c_uint]
    library.phase.restype = ctypes.c_uint64
    library.waiter.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
    library.pack.argtypes = [ctypes.c_void_p, ctypes.c_uint64, ctypes.c_void_p]
    library.unpack.argtypes = [ctypes.c_void_p, ctypes.c_uint64, ctypes.c_void_p]
    return library


class Memory:
    """A ring in plain memory that nothing serves, and its words in the state block."""

    def __init__(self) -> None:
        self.slots = np.zeros((SLOTS, 8), np.uint64)
        self.control = np.zeros(_ring.CONTROL_CELLS // 8 + 3 * SLOTS, np.uint64)
        self.device = np.zeros(_ring.DEVICE_WORDS // 8 + 2 * SLOTS, np.uint64)

    def state(self, words: list[int]) -> list[int]:
        words[state.RINGS], words[state.RING_SLOTS], words[state.RING_LOG2] = 1, SLOTS, LOG2
        places = [array.ctypes.data for array in (self.slots, self.control, self.device)]
        words[state.RING : state.RING + 3] = places
        return words

    def send(self, ticket: int, words: list[int], kind: int) -> np.ndarray:
        """The slot after ``_send`` took this ticket."""
        before = list(leaves.STATE)
        self.device[0] = ticket
        self.device[_ring.DEVICE_CONSUMED // 8] = ticket  # credit for all
        leaves.STATE[:] = self.state(before or [0] * state.WORDS)
        try:
            assert _ring._send(state.RING, kind, *words) == ticket
        finally:
            leaves.STATE[:] = before
        return self.slots[ticket % SLOTS]


@settings(deadline=None)
@given(words=st.lists(INT64, min_size=6, max_size=6), kind=INT64, ticket=st.integers(0, 2**40))
def test_kernels_send_what_the_header_packs(
    header: ctypes.CDLL, words: list[int], kind: int, ticket: int
) -> None:
    request = np.zeros(7, np.int64)
    for name, word in zip((*WORDS, "KIND"), (*words, kind), strict=True):
        request[getattr(contract.REQUEST_WORD, name)] = word
    phase = header.phase(ticket, LOG2)
    expected, back = np.zeros(8, np.uint64), np.zeros(7, np.int64)
    header.pack(request.ctypes.data, phase, expected.ctypes.data)

    slot = Memory().send(ticket, words, kind)

    np.testing.assert_array_equal(slot, expected)
    assert header.unpack(slot.ctypes.data, phase, back.ctypes.data)
    np.testing.assert_array_equal(back, request)


@settings(deadline=None)
@given(ticket=st.integers(0, 2**40), word=st.integers(0, 7))
def test_a_slot_with_a_word_of_the_lap_before_is_not_whole(
    header: ctypes.CDLL, ticket: int, word: int
) -> None:
    memory, back = Memory(), np.zeros(7, np.int64)
    old = memory.send(ticket, [1, 2, 3, 4, 5, 6], 7).copy()
    slot = memory.send(ticket + SLOTS, [-1, -2, -3, -4, -5, -6], _ring.PUT).copy()
    phase = header.phase(ticket + SLOTS, LOG2)
    assert header.unpack(slot.ctypes.data, phase, back.ctypes.data)
    slot[word] = old[word]
    assert not header.unpack(slot.ctypes.data, phase, back.ctypes.data)


BUSY = _ring.DEVICE_WORDS // 8
SKIPPED = _ring.CONTROL_CELLS // 8 + 2 * SLOTS


def on_ring(memory: Memory, call: Callable[[], int], words: dict[int, int]) -> int:
    """What a function of kernels gives, on this ring, with these words of the state block."""
    before = list(leaves.STATE)
    leaves.STATE[:] = memory.state([0] * state.WORDS)
    for place, value in words.items():
        leaves.STATE[place] = value
    try:
        return call()
    finally:
        leaves.STATE[:] = before


def ask_for(memory: Memory, ticket: int) -> int:
    """``_send`` of a request that wants a reply, with credit and a time limit of 1 ns."""
    faults = np.zeros(16, np.uint64)
    memory.device[0] = memory.device[_ring.DEVICE_CONSUMED // 8] = ticket
    words = {state.TIMEOUT_NS: 1, state.FAULT_CLAIM: faults.ctypes.data}
    return on_ring(
        memory, lambda: _ring._send(state.RING, _ring.PUT | _ring.REPLY, *[0] * 6), words
    )


@pytest.mark.parametrize("word", [1, 5 | _ring._LEFT, 5 | _ring._LEFT | _ring._LEFT_ENGINE])
def test_who_gives_up_a_cell_leaves_its_word_as_it_was(
    word: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next has to know whose reply is still to come."""
    memory, faults = Memory(), []
    memory.device[BUSY + 3] = word
    monkeypatch.setattr(_ring, "record_fault", lambda *fault: faults.append(fault))
    monkeypatch.setattr(_ring.leaf, "relax", lambda: None)
    assert ask_for(memory, 3) == -1
    assert len(faults) == 1
    assert memory.device[BUSY + 3] == word
    assert memory.control[SKIPPED + 3] == 4
    assert not memory.slots.any()


@pytest.mark.parametrize("other", [1, 5 | _ring._LEFT])
def test_a_cell_that_another_has_taken_a_moment_before_is_waited_for(
    other: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two that find it free at one time do not both have it."""
    memory, claim, turns = Memory(), _ring.compare_swap64, []

    def claim_late(address: int, expected: int, value: int) -> int:
        if not turns:
            memory.device[BUSY + 3] = other
            turns.append("taken")
        return claim(address, expected, value)

    def turn() -> None:
        assert not memory.slots.any()
        memory.device[BUSY + 3] = 0
        turns.append("free")

    monkeypatch.setattr(_ring, "compare_swap64", claim_late)
    monkeypatch.setattr(_ring.leaf, "relax", turn)
    assert ask_for(memory, 3) == 3
    assert turns == ["taken", "free"]
    assert memory.device[BUSY + 3] == 1
    assert memory.slots[3].all()


def test_a_report_has_the_lowest_ticket_of_those_that_wait(
    header: ctypes.CDLL, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It says so until it has not for a while; two that store at one time are not taken for one."""
    memory, awaits = Memory(), contract.RING_AWAITS.CELL
    second = 1_000_000_000

    def noted(ticket: int, block: int, time: int) -> list[int]:
        monkeypatch.setattr(_ring.leaf, "block_index", lambda: block)
        monkeypatch.setattr(_ring.leaf, "thread_in_block", lambda: 1023)
        on_ring(memory, lambda: _ring._note(state.RING, ticket, awaits, time), {})
        return seen()

    def seen() -> list[int]:
        out = np.zeros(4, np.int64)
        header.waiter(memory.control.ctypes.data, out.ctypes.data)
        return out.tolist()

    assert seen() == [0, contract.RING_AWAITS.NOTHING, 0, 0]
    assert noted(9, 3, second) == [9, awaits, 3, 1023]
    assert noted(12, 4, second + 1000) == [9, awaits, 3, 1023]
    assert noted(5, 2**31 - 1, second + 2000) == [5, awaits, 2**31 - 1, 1023]
    assert noted(2**50 + 7, 4, 2 * second) == [2**50 + 7, awaits, 4, 1023]
    memory.control[_ring._CONTROL_WAITER // 8 + 1] ^= 1 << 44
    assert seen()[2] == -1


@pytest.mark.parametrize("block", [0, 1, 6])
@pytest.mark.parametrize("team", [0, 1, 2, 63])
def test_a_team_s_flags_go_by_one_ring_whatever_block_raises_them(
    team: int, block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a block's older flag could be set after the next one's."""
    first, second = Memory(), Memory()
    words = second.state([0] * state.WORDS)
    behind = {state.RING + 4 + k: words[state.RING + k] for k in range(3)} | {state.RINGS: 2}
    monkeypatch.setattr(_ring.leaf, "block_index", lambda: block)
    assert on_ring(first, lambda: _ring.raise_for_team(team, 4096, 7, 1), behind) == 0
    assert [memory.slots.any() for memory in (first, second)] == [team % 2 == 0, team % 2 == 1]


def test_only_a_request_with_a_reply_takes_its_cell() -> None:
    for kind, busy in ((_ring.PUT, 0), (_ring.PUT | _ring.REPLY, 1)):
        memory = Memory()
        memory.send(5, [0] * 6, kind)
        assert memory.device[_ring.DEVICE_WORDS // 8 + 5] == busy


def test_words_that_only_rise_name_their_ring() -> None:
    """Who sets a peer's word by a request says by which ring: a new one is to be argued for here.

    ``signal_by_proxy`` is behind ``settle``, signals of the user's and ``words_by_proxy`` of channels
    are not set again before they have been seen.
    """
    package, found = Path(_ring.__file__).parents[2], set()
    for path in [*(package / "device").rglob("*.py"), *(package / "triton").rglob("*.py")]:
        for function in ast.walk(ast.parse(path.read_text())):
            if isinstance(function, ast.FunctionDef):
                text = ast.unparse(function)
                if re.search(r"\b(_?AMO_SET|_SET)\b", text) and re.search(
                    r"\b(tell\w*|_send)\(", text
                ):
                    found.add(function.name)
                if "words_by_proxy(" in text:
                    found |= {
                        f"{function.name} by {ring}" for ring in re.findall(r"\w+_ring\(", text)
                    }
    flags = {"raise_for_team", "_raise_by_proxy by team_ring("}
    acknowledged = {
        "words_by_proxy",
        "signal_by_proxy",
        "send by own_ring(",
        "_sync_members by own_ring(",
    }
    assert found == flags | acknowledged | {"_make_update", "update"}  # the user's signals
