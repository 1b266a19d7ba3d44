# SPDX-License-Identifier: BSD-3-Clause
"""Atomics at system scope: ``numba.cuda.atomic`` reaches no further than the own GPU."""

from numba.cuda import types

from ._ptx import VOID, WIDTH, asm, from_bits, i64, leaf, to_bits

__all__ = [
    "atomic_add", "atomic_and", "atomic_compare_swap", "atomic_fetch_add", "atomic_fetch_and",
    "atomic_fetch_or", "atomic_fetch_xor", "atomic_or", "atomic_swap", "atomic_xor",
]  # fmt: skip


def _atomic(name: str, *, fetch: bool = True):
    """``f(address, like, value)``; ``fetch`` returns the old value."""

    @leaf(lambda address, like, value: (like.dtype if fetch else types.void, i64, like, like.dtype))
    def atomic(context, builder, address, like, value):
        bits = to_bits(context, builder, like.dtype, value)
        letter = "b" if name != "add" else "f" if isinstance(like.dtype, types.Float) else "u"
        suffix, register = f"{name}.{letter}{bits.type.width}", WIDTH[bits.type.width // 8][1]
        if not fetch:
            text = f"red.relaxed.sys.global.{suffix} [$0], $1;"
            asm(builder, VOID, text, f"l,{register}", [address, bits])
            return None
        text = f"atom.relaxed.sys.global.{suffix} $0, [$1], $2;"
        old = asm(builder, bits.type, text, f"={register},l,{register}", [address, bits])
        return from_bits(context, builder, like.dtype, old)

    return atomic


atomic_swap = _atomic("exch")
atomic_fetch_add, atomic_add = _atomic("add"), _atomic("add", fetch=False)
atomic_fetch_and, atomic_and = _atomic("and"), _atomic("and", fetch=False)
atomic_fetch_or, atomic_or = _atomic("or"), _atomic("or", fetch=False)
atomic_fetch_xor, atomic_xor = _atomic("xor"), _atomic("xor", fetch=False)


@leaf(lambda address, like, cond, value: (like.dtype, i64, like, like.dtype, like.dtype))
def atomic_compare_swap(context, builder, address, like, cond, value):
    """Stores ``value`` if the element equals ``cond``; returns the old value."""
    expected, bits = (to_bits(context, builder, like.dtype, given) for given in (cond, value))
    register = WIDTH[bits.type.width // 8][1]
    text = f"atom.relaxed.sys.global.cas.b{bits.type.width} $0, [$1], $2, $3;"
    constraints = f"={register},l,{register},{register}"
    old = asm(builder, bits.type, text, constraints, [address, expected, bits])
    return from_bits(context, builder, like.dtype, old)
