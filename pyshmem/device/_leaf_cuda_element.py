# SPDX-License-Identifier: BSD-3-Clause
"""One element: loads, stores, casts, and its bits."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.cuda import types
from numba.cuda.extending import intrinsic
from numba.cuda.typing import signature

from ._families import BY_NUMBER
from ._ptx import (
    BITS,
    I32,
    I64,
    VOID,
    array_type,
    asm,
    dtype_name,
    from_bits,
    i64,
    load_bits,
    store_bits,
    to_bits,
)

__all__ = [
    "bits_of", "cast", "fixed32", "fixed64", "high_bits_of", "in_global", "load_pair", "narrow",
    "read", "read_acquire", "store_pair", "to_int64", "type_number", "value_of", "write",
]  # fmt: skip


def _read(order: str) -> Any:
    """``f(address, like)``: the element at ``address``, of the dtype of ``like``."""

    def typing(_context: Any, address: Any, like: Any) -> Any:
        dtype = array_type(like).dtype

        def codegen(context: Any, builder: Any, _s: Any, args: Any) -> Any:
            nbytes = context.get_abi_sizeof(context.get_data_type(dtype))
            return from_bits(context, builder, dtype, load_bits(builder, nbytes, args[0], order))

        return signature(dtype, i64, like), codegen

    return intrinsic(typing)


read = _read("relaxed")  # past the L1 cache
read_acquire = _read("acquire")  # drops the L1 cache, so what comes after reads fresh; 2 to 8 bytes


@intrinsic
def write(_context: Any, address: Any, like: Any, value: Any) -> Any:
    """Stores ``value``, cast to the dtype of ``like``, at ``address``: relaxed."""
    dtype, kind = array_type(like).dtype, types.unliteral(value)

    def codegen(context: Any, builder: Any, _s: Any, args: Any) -> Any:
        bits = to_bits(context, builder, dtype, args[2], kind)
        store_bits(builder, bits.type.width // 8, args[0], bits)
        return context.get_dummy_value()

    return signature(types.void, i64, like, kind), codegen


def _fixed(kind: Any, bits: Any) -> Any:
    """``f(address)``: a word that does not change while a kernel runs: it may be read early."""

    def typing(_context: Any, address: Any) -> Any:
        def codegen(_context: Any, builder: Any, _s: Any, args: Any) -> Any:
            word = builder.load(builder.inttoptr(args[0], ir.PointerType(bits, addrspace=1)))
            word.align = bits.width // 8
            word.set_metadata("invariant.load", builder.module.add_metadata([]))
            return word

        return signature(kind, i64), codegen

    return intrinsic(typing)


fixed32, fixed64 = _fixed(types.int32, I32), _fixed(i64, I64)


@intrinsic
def cast(_context: Any, like: Any, value: Any) -> Any:
    """``value`` as the dtype of ``like``."""
    dtype, kind = array_type(like).dtype, types.unliteral(value)

    def codegen(context: Any, builder: Any, _s: Any, args: Any) -> Any:
        return context.cast(builder, args[1], kind, dtype)

    return signature(dtype, like, kind), codegen


@intrinsic
def bits_of(_context: Any, like: Any, value: Any) -> Any:
    """The bits of ``value``, cast to the dtype of ``like``, as int64; of 16 bytes the lower 8."""
    dtype, kind = array_type(like).dtype, types.unliteral(value)

    def codegen(context: Any, builder: Any, _s: Any, args: Any) -> Any:
        bits = to_bits(context, builder, dtype, args[1], kind)
        if bits.type.width > 64:
            return builder.trunc(bits, I64)
        return builder.zext(bits, I64) if bits.type.width < 64 else bits

    return signature(i64, like, kind), codegen


@intrinsic
def high_bits_of(_context: Any, like: Any, value: Any) -> Any:
    """The upper 8 bytes of a value of 16; 0 for others."""
    dtype, kind = array_type(like).dtype, types.unliteral(value)

    def codegen(context: Any, builder: Any, _s: Any, args: Any) -> Any:
        bits = to_bits(context, builder, dtype, args[1], kind)
        if bits.type.width <= 64:
            return I64(0)
        return builder.trunc(builder.lshr(bits, bits.type(64)), I64)

    return signature(i64, like, kind), codegen


@intrinsic
def value_of(_context: Any, like: Any, low: Any, high: Any) -> Any:
    """The other way: ``low``, and ``high`` of 16 bytes, as the dtype of ``like``."""
    dtype = array_type(like).dtype

    def codegen(context: Any, builder: Any, _s: Any, args: Any) -> Any:
        nbytes = context.get_abi_sizeof(context.get_data_type(dtype))
        bits = builder.trunc(args[1], BITS[nbytes]) if nbytes < 8 else args[1]
        if nbytes > 8:
            wide = ir.IntType(128)
            upper = builder.shl(builder.zext(args[2], wide), wide(64))
            bits = builder.or_(builder.zext(bits, wide), upper)
        return from_bits(context, builder, dtype, bits)

    return signature(dtype, like, i64, i64), codegen


@intrinsic
def type_number(_context: Any, like: Any) -> Any:
    """Number of the dtype in the type table, a constant."""
    number = BY_NUMBER[dtype_name(like)]
    return signature(i64, like), lambda _c, _b, _s, _a: I64(number)


@intrinsic
def in_global(_context: Any, address: Any) -> Any:
    """Is it memory that others than this block can reach: neither shared nor local?"""

    def codegen(_context: Any, builder: Any, _s: Any, args: Any) -> Any:
        text = "{.reg .pred p; isspacep.global p, $1; selp.b32 $0, 1, 0, p;}"
        return builder.trunc(asm(builder, I32, text, "=r,l", [args[0]]), ir.IntType(1))

    return signature(types.boolean, i64), codegen


@intrinsic
def load_pair(_context: Any, address: Any) -> Any:
    """Two int64 by one 16-byte access: with the second comes the first, stored before it."""
    kind = types.UniTuple(i64, 2)

    def codegen(context: Any, builder: Any, _s: Any, args: Any) -> Any:
        pair = ir.LiteralStructType([I64, I64])
        text = "{.reg .b128 t; ld.relaxed.sys.global.b128 t, [$2]; mov.b128 {$0, $1}, t;}"
        both = asm(builder, pair, text, "=l,=l,l", [args[0]])
        return context.make_tuple(builder, kind, [builder.extract_value(both, i) for i in (0, 1)])

    return signature(kind, i64), codegen


@intrinsic
def store_pair(_context: Any, address: Any, low: Any, high: Any) -> Any:
    """Stores two int64, relaxed, by one access of 16 bytes."""

    def codegen(context: Any, builder: Any, _s: Any, args: Any) -> Any:
        text = "{.reg .b128 t; mov.b128 t, {$1, $2}; st.relaxed.sys.global.b128 [$0], t;}"
        asm(builder, VOID, text, "l,l,l", list(args))
        return context.get_dummy_value()

    return signature(types.void, i64, i64, i64), codegen


@intrinsic
def narrow(_context: Any, value: Any) -> Any:
    """An int64 as int32, which the numbers of PEs are."""
    return signature(types.int32, i64), lambda _c, builder, _s, args: builder.trunc(args[0], I32)


@intrinsic
def to_int64(_context: Any, value: Any) -> Any:
    """An integer's bits, or a float rounded towards zero, as int64 (for reports)."""
    kind = types.unliteral(value)

    def codegen(context: Any, builder: Any, _s: Any, args: Any) -> Any:
        return context.cast(builder, args[0], kind, i64)

    return signature(i64, kind), codegen
