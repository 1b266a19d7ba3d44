# SPDX-License-Identifier: BSD-3-Clause
"""Loads and stores of bits by LLVM, atomic, with the orders that the GPU's have; the state block.

What has 16 bytes is two accesses of 8, as in the simulator: no kernel relies on more.
"""

import llvmlite.binding
import numpy as np
from numba import types

from ...state import WORDS
from ..compiled.llvm import BITS, I64, PAIR, i64, join, leaf, split
from .halves import round_bfloat16 as round_bfloat16

#: The name of the state block, which is memory of the process, in compiled code.
STATE_NAME = "pyshmem_cpu_state"
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


class _State:
    def __init__(self) -> None:
        self.words = np.zeros(WORDS, np.int64)
        self.filled = False
        llvmlite.binding.add_symbol(STATE_NAME, self.words.ctypes.data)

    def fill(self, words: list[int]) -> None:
        self.words[:] = words
        self.filled = True

    def forget(self) -> None:
        self.words[:] = 0
        self.filled = False


STATE = _State()
