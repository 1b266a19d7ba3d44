# SPDX-License-Identifier: BSD-3-Clause
"""Packets of data with flags in them, as machines without whole 16-byte accesses have them.

A packet is two halves of 8 bytes: 4 of data, and the low 4 bytes of the call's number. Each half arrives
whole, one without the other and in either order, so a protocol that looks at one flag of a packet, or
not at all, finds data of another call.
"""

from __future__ import annotations

from collections.abc import Callable

from ...._core.library import lib

__all__ = ["load_packet", "load_small", "load_third", "store_packet", "store_small", "store_third"]

_WORD, _LONG = (1 << 32) - 1, (1 << 64) - 1
#: What happens between the halves of a packet; tests put something there that takes its time.
torn: Callable[[], None] = int  # type: ignore[assignment]
_stored = 0


def store_packet(address: int, data: int, call: int) -> None:
    """Both halves; every other time the second one first."""
    global _stored
    _stored += 1
    flag = (int(call) & _WORD) << 32
    halves = [(address, int(data) & _WORD | flag), (address + 8, int(data) >> 32 & _WORD | flag)]
    if _stored & 1:
        halves.reverse()
    lib.ishmemx_leaf_store(*halves[0], 8)
    torn()
    lib.ishmemx_leaf_store(*halves[1], 8)


def load_packet(address: int) -> tuple[int, int]:
    """The data and the number of the call that stored it; -1 while the halves are of two calls."""
    low, high = lib.ishmemx_leaf_load(address, 8), lib.ishmemx_leaf_load(address + 8, 8)
    call = low >> 32
    return low & _WORD | (high & _WORD) << 32, call if call == high >> 32 else -1


def store_third(address: int, data: int, third: int, call: int) -> None:
    """12 bytes with one flag, which arrives last: for who looks at it the packet is whole."""
    lib.ishmemx_leaf_store(address, int(data) & _LONG, 8)
    torn()
    lib.ishmemx_leaf_store_release(address + 8, int(third) & _WORD | (int(call) & _WORD) << 32)


def load_third(address: int) -> tuple[int, int]:
    """The 8 bytes, and the word of the other 4 and the flag, which is looked at first."""
    word = lib.ishmemx_leaf_load(address + 8, 8)
    lib.ishmemx_leaf_fence()
    return lib.ishmemx_leaf_load(address, 8), word


def load_small(address: int, left: int) -> int:
    """The next 8 bytes, of which more than ``left`` are not touched, in chunks of 4."""
    low: int = lib.ishmemx_leaf_load(address, 4) if left > 0 else 0
    return low | lib.ishmemx_leaf_load(address + 4, 4) << 32 if left > 4 else low


def store_small(address: int, left: int, word: int) -> None:
    """The other way."""
    if left > 0:
        lib.ishmemx_leaf_store(address, int(word) & _WORD, 4)
    if left > 4:
        lib.ishmemx_leaf_store(address + 4, int(word) >> 32 & _WORD, 4)
