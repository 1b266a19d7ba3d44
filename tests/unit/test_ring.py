# SPDX-License-Identifier: BSD-3-Clause
"""The numbers of ``host_proxy/ring.h`` and those of kernels are the same; so are their requests."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pyshmem  # noqa: F401  (turns on the simulator before numba is imported)

_ring = pytest.importorskip("pyshmem.device.ring.requests")

from pyshmem._core import contract  # noqa: E402
from pyshmem.device import state  # noqa: E402
from pyshmem.device.leaf import chosen  # noqa: E402

if not chosen.SIM:
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
    library.pack.argtypes = [ctypes.c_void_p, ctypes.c_uint64, ctypes.c_void_p]
    library.unpack.argtypes = [ctypes.c_void_p, ctypes.c_uint64, ctypes.c_void_p]
    return library


class Memory:
    """A ring in plain memory that nothing serves, and its words in the state block."""

    def __init__(self) -> None:
        self.slots = np.zeros((SLOTS, 8), np.uint64)
        self.control = np.zeros(48 + 2 * SLOTS, np.uint64)
        self.device = np.zeros(64 + 2 * SLOTS, np.uint64)

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


def test_only_a_request_with_a_reply_takes_its_cell() -> None:
    for kind, busy in ((_ring.PUT, 0), (_ring.PUT | _ring.REPLY, 1)):
        memory = Memory()
        memory.send(5, [0] * 6, kind)
        assert memory.device[_ring.DEVICE_WORDS // 8 + 5] == busy
