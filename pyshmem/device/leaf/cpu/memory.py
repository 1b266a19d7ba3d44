# SPDX-License-Identifier: BSD-3-Clause
"""Loads and stores of bits by LLVM: atomic, with the orders that the GPU's have.

What has 16 bytes is two accesses of 8, as in the simulator: no kernel relies on more.
"""

from numba import types

from ..compiled.llvm import BITS, I64, PAIR, i64, join, leaf, split
from .halves import round_bfloat16 as round_bfloat16

_ORDER = {"relaxed": "monotonic", "acquire": "acquire"}


def pointer_to(builder, nbytes: int, address):
    return builder.inttoptr(address, BITS[nbytes].as_pointer())


def load_bits(builder, nbytes: int, address, order: str = "relaxed"):
    if nbytes == 16:
        high = load_bits(builder, 8, builder.add(address, I64(8)), order)
        return join(builder, 16, load_bits(builder, 8, address, order), high)
    return builder.load_atomic(pointer_to(builder, nbytes, address), _ORDER[order], nbytes)


def store_bits(builder, nbytes: int, address, bits) -> None:
    if nbytes == 16:
        low, high = split(builder, bits)
        store_bits(builder, 8, address, low)
        store_bits(builder, 8, builder.add(address, I64(8)), high)
        return
    place = pointer_to(builder, nbytes, address)
    builder.store_atomic(bits, place, _ORDER["relaxed"], nbytes)


def release64(builder, address, bits) -> None:
    builder.store_atomic(bits, pointer_to(builder, 8, address), "release", 8)


@leaf(lambda address: (PAIR, i64))
def load16(context, builder, address):
    words = [load_bits(builder, 8, builder.add(address, I64(k))) for k in (0, 8)]
    return context.make_tuple(builder, PAIR, words)


@leaf(lambda address, low, high: (types.void, i64, i64, i64))
def store16_near(_context, builder, address, low, high) -> None:
    store_bits(builder, 8, address, low)
    store_bits(builder, 8, builder.add(address, I64(8)), high)
