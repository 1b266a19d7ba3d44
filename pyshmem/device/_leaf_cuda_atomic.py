# SPDX-License-Identifier: BSD-3-Clause
"""Atomics at system scope: ``numba.cuda.atomic`` reaches no further than the own GPU."""

from __future__ import annotations

from typing import Any

from numba.cuda import types
from numba.cuda.extending import intrinsic
from numba.cuda.typing import signature

from ._ptx import VOID, WIDTH, array_type, asm, from_bits, i64, to_bits

__all__ = [
    "atomic_add", "atomic_and", "atomic_compare_swap", "atomic_fetch_add", "atomic_fetch_and",
    "atomic_fetch_or", "atomic_fetch_xor", "atomic_or", "atomic_swap", "atomic_xor",
]  # fmt: skip


def _atomic_types(dtype: Any, nbytes: int, name: str) -> str:
    if name == "add":
        return ("f" if isinstance(dtype, types.Float) else "u") + str(8 * nbytes)
    return f"b{8 * nbytes}"


def _atomic(name: str, *, fetch: bool = True) -> Any:
    """``f(address, like, value)``; ``fetch`` returns the old value."""

    def typing(_context: Any, address: Any, like: Any, value: Any) -> Any:
        dtype, kind = array_type(like).dtype, types.unliteral(value)

        def codegen(context: Any, builder: Any, _s: Any, args: Any) -> Any:
            bits = to_bits(context, builder, dtype, args[2], kind)
            nbytes = bits.type.width // 8
            suffix, register = _atomic_types(dtype, nbytes, name), WIDTH[nbytes][1]
            if not fetch:
                text = f"red.relaxed.sys.global.{name}.{suffix} [$0], $1;"
                asm(builder, VOID, text, f"l,{register}", [args[0], bits])
                return context.get_dummy_value()
            text = f"atom.relaxed.sys.global.{name}.{suffix} $0, [$1], $2;"
            old = asm(builder, bits.type, text, f"={register},l,{register}", [args[0], bits])
            return from_bits(context, builder, dtype, old)

        return signature(dtype if fetch else types.void, i64, like, kind), codegen

    return intrinsic(typing)


atomic_swap = _atomic("exch")
atomic_fetch_add, atomic_add = _atomic("add"), _atomic("add", fetch=False)
atomic_fetch_and, atomic_and = _atomic("and"), _atomic("and", fetch=False)
atomic_fetch_or, atomic_or = _atomic("or"), _atomic("or", fetch=False)
atomic_fetch_xor, atomic_xor = _atomic("xor"), _atomic("xor", fetch=False)


@intrinsic
def atomic_compare_swap(_context: Any, address: Any, like: Any, cond: Any, value: Any) -> Any:
    """Stores ``value`` if the element equals ``cond``; returns the old value."""
    dtype = array_type(like).dtype
    cond_kind, kind = types.unliteral(cond), types.unliteral(value)

    def codegen(context: Any, builder: Any, _s: Any, args: Any) -> Any:
        expected = to_bits(context, builder, dtype, args[2], cond_kind)
        bits = to_bits(context, builder, dtype, args[3], kind)
        nbytes = bits.type.width // 8
        register = WIDTH[nbytes][1]
        text = f"atom.relaxed.sys.global.cas.b{8 * nbytes} $0, [$1], $2, $3;"
        constraints = f"={register},l,{register},{register}"
        old = asm(builder, bits.type, text, constraints, [args[0], expected, bits])
        return from_bits(context, builder, dtype, old)

    return signature(dtype, i64, like, cond_kind, kind), codegen
