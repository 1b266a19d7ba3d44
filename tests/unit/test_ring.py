# SPDX-License-Identifier: BSD-3-Clause
"""The kernels' side of the ring against ``host_proxy/ring.h``: numbers, offsets, packed requests."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

PROXY = Path(__file__).parents[2] / "host_proxy"
OPERATIONS = re.findall(
    r"\bPYSH_OP_(\w+)[,\s]",
    re.search(r"enum pysh_request_op \{(.*?)\};", (PROXY / "ring.h").read_text(), re.S)[1],  # type: ignore[index]
)

#: Python's name: C's expression.
NUMBERS = {name: f"PYSH_OP_{name}" for name in OPERATIONS if name != "COUNT"} | {
    "REPLY": "PYSH_REQUEST_REPLY << 16",
    "DONE": "PYSH_REQUEST_DONE << 16",
    "CREDIT": "PYSH_RING_CREDIT",
    "CONTROL_CONSUMED": "offsetof(pysh_ring_control_t, consumed)",
    "CONTROL_ASKED": "offsetof(pysh_ring_control_t, asked)",
    "CONTROL_ACKED": "offsetof(pysh_ring_control_t, acked)",
    "CONTROL_CELLS": "offsetof(pysh_ring_control_t, cell)",
    "DEVICE_CONSUMED": "offsetof(pysh_ring_device_t, consumed)",
    "DEVICE_PENDING": "offsetof(pysh_ring_device_t, pending)",
    "DEVICE_ACKED": "offsetof(pysh_ring_device_t, acked)",
    "DEVICE_WORDS": "offsetof(pysh_ring_device_t, word)",
}

#: Every byte of the seven words is different, and the top bits are set in some.
WORDS = [
    int.from_bytes(bytes((37 * (8 * i + j) + 11) % 256 for j in range(8)), "little")
    for i in range(7)
]
WORDS[6] &= ~(1 << 16)  # no reply wanted, so that the kernel writes nothing but the slot
TICKETS = [0, 1, 8, 255 * 8 - 1, 255 * 8, 1 << 33]

PROGRAM = """
#include <inttypes.h>
#include <stdio.h>
#include "ring.h"
int main(void) {
    pysh_request_t request = {{%(words)s}}, again;
    const uint64_t ticket[] = {%(tickets)s};
    pysh_slot_t slot;
    %(numbers)s
    for (int i = 0; i < %(n_tickets)d; i++) {
        uint64_t phase = pysh_ring_phase(ticket[i], 3);
        pysh_request_pack(&request, phase, &slot);
        printf("%%" PRIu64, ticket[i]);
        for (int word = 0; word < PYSH_SLOT_WORDS; word++)
            printf(" %%" PRIu64, slot.word[word]);
        printf(" %%d %%d\\n", pysh_request_unpack(&slot, phase, &again),
               pysh_request_unpack(&slot, phase %% 255 + 1, &again));
    }
    return 0;
}
"""


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> list[list[str]]:
    """What C says: lines of a name and a number, then of a ticket, the packed words and two checks."""
    folder = tmp_path_factory.mktemp("ring")
    numbers = (f'printf("{name} %ld\\n", (long)({c}));' for name, c in NUMBERS.items())
    fields = {
        "words": ", ".join(f"{word}ULL" for word in WORDS),
        "tickets": ", ".join(f"{ticket}ULL" for ticket in TICKETS),
        "n_tickets": len(TICKETS),
        "numbers": "\n    ".join(numbers),
    }
    (folder / "told.c").write_text(PROGRAM % fields)
    command = ["gcc", "-std=c11", "-Wall", "-Werror", f"-I{PROXY}", folder / "told.c"]
    subprocess.run([*command, "-o", folder / "told"], check=True)
    output = subprocess.run([folder / "told"], check=True, capture_output=True, text=True).stdout
    return [line.split() for line in output.splitlines()]


def test_numbers_and_offsets_are_those_of_the_header(told: list[list[str]]) -> None:
    ring = pytest.importorskip("pyshmem.device._ring")
    assert len(OPERATIONS) > 10
    for name, number in told[: len(NUMBERS)]:
        assert getattr(ring, name) == int(number), name


def test_a_kernel_packs_a_request_as_the_header_does(
    told: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    ring = pytest.importorskip("pyshmem.device._ring")
    from pyshmem.device._state import RING, RING_LOG2, RING_SLOTS

    slot: dict[int, int] = {}
    base = 1 << 20
    words = {RING_SLOTS: 8, RING_LOG2: 3, RING: base}
    signed = [word - (1 << 64) if word >> 63 else word for word in WORDS]
    monkeypatch.setattr(ring, "state", lambda word: words.get(word, 0))
    monkeypatch.setattr(ring, "read64", lambda address: 1 << 40)
    monkeypatch.setattr(
        ring, "store_pair", lambda at, a, b: slot.update({at: a % 2**64, at + 8: b % 2**64})
    )
    plain = {name: getattr(ring, name) for name in ("_top", "_send")}
    plain = {name: getattr(value, "py_func", value) for name, value in plain.items()}
    monkeypatch.setattr(ring, "_top", plain["_top"])
    dest, source, value, extra, extra2, pe, kind = signed
    for line in told[len(NUMBERS) :]:
        ticket, *packed, whole, of_another_turn = map(int, line)
        monkeypatch.setattr(ring, "fetch_add64", lambda address, one, at=ticket: at)
        slot.clear()
        assert plain["_send"](RING, kind, dest, source, value, extra, extra2, pe) == ticket
        first = base + 64 * (ticket % 8)
        assert [slot[first + 8 * i] for i in range(8)] == packed
        assert (whole, of_another_turn) == (1, 0)
