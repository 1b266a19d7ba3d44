# SPDX-License-Identifier: BSD-3-Clause
"""Single elements by the ring: values travel inside the request and the reply."""

from ..leaf import backend as leaf
from ..leaf.backend import address_of, device_function
from .requests import AMO, G, P, ask, tell


@device_function
def tell_element(dest, value, pe: int) -> None:
    """``p``; of 16 bytes in two halves."""
    address, width = address_of(dest), min(8, leaf.itemsize_of(dest))
    tell(P | width << 8, address, 0, leaf.bits_of(dest, value), 0, 0, pe)
    if leaf.itemsize_of(dest) > 8:
        tell(P | width << 8, address + 8, 0, leaf.high_bits_of(dest, value), 0, 0, pe)


@device_function
def ask_element(source, pe: int):
    """``g``; of 16 bytes in two halves."""
    address, width = address_of(source), min(8, leaf.itemsize_of(source))
    low = ask(G | width << 8, 0, address, 0, 0, 0, pe)
    high = 0
    if leaf.itemsize_of(source) > 8:
        high = ask(G | width << 8, 0, address + 8, 0, 0, 0, pe)
    return leaf.value_of(source, low, high)


@device_function
def ask_amo(number: int, dest, value, cond, pe: int):
    """A fetching atomic operation; ``number`` is its place in ATOMIC_OPS."""
    kind, to, word = AMO | leaf.type_number(dest) << 8, address_of(dest), pe | number << 32
    bits = ask(kind, to, 0, leaf.bits_of(dest, value), leaf.bits_of(dest, cond), 0, word)
    return leaf.value_of(dest, bits, 0)


@device_function
def tell_amo(number: int, dest, value, pe: int, cond=0, fetch: int = 0) -> None:
    """One that fetches nothing; or the old value to the address ``fetch``, by the next quiet."""
    kind, to, word = AMO | leaf.type_number(dest) << 8, address_of(dest), pe | number << 32
    tell(kind, to, fetch, leaf.bits_of(dest, value), leaf.bits_of(dest, cond), 0, word)
