# SPDX-License-Identifier: BSD-3-Clause
"""Atomics of any dtype, and packets of data with flags in them."""

from numba import types
from numba.extending import register_jitable

from ...._core.type_table import ATOMIC_OPS, BY_DTYPE, ELEMENT_NUMBER
from ..compiled import llvm
from ..compiled.llvm import I32, I64, i64, leaf
from .memory import load_bits, pointer_to, store_bits
from .target import call
from .threads import fence, read64, signal_release_set, write64

__all__ = [
    "atomic_add", "atomic_and", "atomic_compare_swap", "atomic_fetch_add", "atomic_fetch_and",
    "atomic_fetch_or", "atomic_fetch_xor", "atomic_or", "atomic_swap", "atomic_xor", "in_global",
    "load_packet", "load_small", "load_third", "store_packet", "store_small", "store_third",
]  # fmt: skip

_TYPE = {name: ELEMENT_NUMBER[element.name] for name, element in BY_DTYPE.items()}


@register_jitable
def in_global(_address):
    """All memory is the process's; a block's shared memory too, and whoever copies it."""
    return True


# -- atomics: floats by the library, which has one way for host and kernels ------------------------


def _atomic(op: str, instruction: str):
    """``f(address, like, value)``: the old value."""

    @leaf(lambda address, like, value: (like.dtype, i64, like, like.dtype))
    def atomic(context, builder, address, like, value):
        bits = llvm.to_bits(context, builder, like.dtype, value)
        nbytes = bits.type.width // 8
        if isinstance(like.dtype, types.Float) and op == "add":
            wide = builder.zext(bits, I64)
            numbers = (I32(ATOMIC_OPS.index(op)), I32(_TYPE[llvm.dtype_name(like)]))
            old = call(builder, "ishmemx_leaf_atomic", I64, *numbers, address, wide, I64(0))
            old = builder.trunc(old, bits.type) if nbytes < 8 else old
        else:
            place = pointer_to(builder, nbytes, address)
            old = builder.atomic_rmw(instruction, place, bits, "monotonic")
        return llvm.from_bits(context, builder, like.dtype, old)

    return atomic


atomic_swap = _atomic("swap", "xchg")
atomic_add = atomic_fetch_add = _atomic("add", "add")
atomic_and = atomic_fetch_and = _atomic("and", "and")
atomic_or = atomic_fetch_or = _atomic("or", "or")
atomic_xor = atomic_fetch_xor = _atomic("xor", "xor")


@leaf(lambda address, like, cond, value: (like.dtype, i64, like, like.dtype, like.dtype))
def atomic_compare_swap(context, builder, address, like, cond, value):
    """Stores ``value`` if the element equals ``cond``; returns the old value."""
    expected, bits = (llvm.to_bits(context, builder, like.dtype, given) for given in (cond, value))
    place = pointer_to(builder, bits.type.width // 8, address)
    pair = builder.cmpxchg(place, expected, bits, "monotonic", "monotonic")
    old = builder.extract_value(pair, 0)
    return llvm.from_bits(context, builder, like.dtype, old)


# -- packets: see ``leaf.sim.packets``, whose layout this is ---------------------------------------

_WORD = 0xFFFFFFFF


@register_jitable
def store_packet(address, data, call):
    """Two halves of 8 bytes, each 4 of data and the low 4 of the call's number."""
    flag = (call & _WORD) << 32
    write64(address, data & _WORD | flag)
    write64(address + 8, data >> 32 & _WORD | flag)


@register_jitable
def load_packet(address):
    """The data and the number of the call that stored it; -1 while the halves are of two calls."""
    low, high = read64(address), read64(address + 8)
    call, other = low >> 32 & _WORD, high >> 32 & _WORD
    return low & _WORD | (high & _WORD) << 32, call if call == other else -1


@register_jitable
def store_third(address, data, third, call):
    """12 bytes with one flag, which arrives last: for who looks at it the packet is whole."""
    write64(address, data)
    signal_release_set(address + 8, third & _WORD | (call & _WORD) << 32)


@register_jitable
def load_third(address):
    """The 8 bytes, and the word of the other 4 and the flag, which is looked at first."""
    word = read64(address + 8)
    fence()
    return read64(address), word


@leaf(i64)
def _load32(_context, builder, address):
    return builder.zext(load_bits(builder, 4, address), I64)


@leaf(lambda address, value: (types.void, i64, i64))
def _store32(_context, builder, address, value) -> None:
    store_bits(builder, 4, address, builder.trunc(value, I32))


@register_jitable
def load_small(address, left):
    """The next 8 bytes, of which more than ``left`` are not touched, in chunks of 4."""
    low = _load32(address) if left > 0 else 0
    return low | _load32(address + 4) << 32 if left > 4 else low


@register_jitable
def store_small(address, left, word):
    """The other way."""
    if left > 0:
        _store32(address, word)
    if left > 4:
        _store32(address + 4, word >> 32)
