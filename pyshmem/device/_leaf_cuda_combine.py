# SPDX-License-Identifier: BSD-3-Clause
"""The arithmetic of reductions on 16 bytes at a time, in registers.

``raw`` is 16 bytes as two int64. An accumulator is that too, or four int64 for 16-bit floats, which
are summed in float32 and rounded once. With fewer elements than 16 bytes hold the rest is zeros.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.cuda import types
from numba.cuda.extending import intrinsic
from numba.cuda.typing import signature

from ._ptx import BITS, I16, I32, I64, VOID, array_type, asm, dtype_name, i64, load_bits, store_bits

_PAIR = types.UniTuple(i64, 2)
_FLOAT, _DOUBLE, _HALF = ir.FloatType(), ir.DoubleType(), ir.HalfType()
_SMALL_FLOATS = ("float16", "bfloat16")


def _shape(like: Any) -> tuple[str, int, Any, bool]:
    """Dtype name, elements in 16 bytes, their type in an accumulator, and whether they are signed."""
    dtype = array_type(like).dtype
    name = dtype_name(like)
    if name in _SMALL_FLOATS:
        return name, 8, _FLOAT, True
    if name in ("float32", "complex64"):
        return name, 4, _FLOAT, True
    if name in ("float64", "complex128"):
        return name, 2, _DOUBLE, True
    nbytes = 1 if name in ("bool", "boolean") else dtype.bitwidth // 8
    return name, 16 // nbytes, BITS[nbytes], bool(getattr(dtype, "signed", False))


def _acc_kind(like: Any) -> Any:
    return types.UniTuple(i64, 4) if _shape(like)[0] in _SMALL_FLOATS else _PAIR


def _vector(builder: Any, words: Any, count: int, element: Any, kind: Any) -> Any:
    """A tuple of int64 as a vector of elements."""
    n = len(kind)
    vector = ir.Constant(ir.VectorType(I64, n), ir.Undefined)
    for i in range(n):
        vector = builder.insert_element(vector, builder.extract_value(words, i), I32(i))
    return builder.bitcast(vector, ir.VectorType(element, count))


def _words(context: Any, builder: Any, vector: Any, kind: Any) -> Any:
    n = len(kind)
    wide = builder.bitcast(vector, ir.VectorType(I64, n))
    return context.make_tuple(
        builder, kind, [builder.extract_element(wide, I32(i)) for i in range(n)]
    )


def _map(builder: Any, vectors: list[Any], element: Any, function: Any) -> Any:
    """A new vector, element by element: a GPU has no others."""
    count = vectors[0].type.count
    result = ir.Constant(ir.VectorType(element, count), ir.Undefined)
    for i in range(count):
        values = [builder.extract_element(vector, I32(i)) for vector in vectors]
        result = builder.insert_element(result, function(*values), I32(i))
    return result


def _widen(builder: Any, name: str, raw: Any) -> Any:
    """A pair as a vector of what accumulators hold."""
    bits = _vector(builder, raw, 8, I16, _PAIR)
    if name == "float16":
        return _map(
            builder, [bits], _FLOAT, lambda b: builder.fpext(builder.bitcast(b, _HALF), _FLOAT)
        )

    def bfloat(b: Any) -> Any:
        return builder.bitcast(builder.shl(builder.zext(b, I32), I32(16)), _FLOAT)

    return _map(builder, [bits], _FLOAT, bfloat)


def _elements(builder: Any, like: Any, raw: Any) -> Any:
    name, count, element, _ = _shape(like)
    if name in _SMALL_FLOATS:
        return _widen(builder, name, raw)
    return _vector(builder, raw, count, element, _PAIR)


def _narrow(context: Any, builder: Any, like: Any, acc: Any) -> list[Any]:
    """An accumulator rounded to the dtype, as two int64."""
    name, count, element, _ = _shape(like)
    kind = _acc_kind(like)
    if name not in _SMALL_FLOATS:
        return [builder.extract_value(acc, i) for i in (0, 1)]
    vector = _vector(builder, acc, count, element, kind)

    def bfloat(value: Any) -> Any:
        return asm(builder, I16, "cvt.rn.bf16.f32 $0, $1;", "=h,f", [value])

    def half(value: Any) -> Any:
        return builder.bitcast(builder.fptrunc(value, _HALF), I16)

    bits = _map(builder, [vector], I16, bfloat if name == "bfloat16" else half)
    wide = builder.bitcast(bits, ir.VectorType(I64, 2))
    return [builder.extract_element(wide, I32(i)) for i in (0, 1)]


@intrinsic
def raw16(_context: Any, address: Any, like: Any) -> Any:
    """16 aligned bytes, past the L1 cache."""

    def codegen(context: Any, builder: Any, _s: Any, args: Any) -> Any:
        pair = ir.LiteralStructType([I64, I64])
        both = asm(
            builder, pair, "ld.relaxed.sys.global.v2.u64 {$0, $1}, [$2];", "=l,=l,l", [args[0]]
        )
        return context.make_tuple(builder, _PAIR, [builder.extract_value(both, i) for i in (0, 1)])

    return signature(_PAIR, i64, like), codegen


@intrinsic
def raw1(_context: Any, address: Any, like: Any) -> Any:
    """One element, past the L1 cache."""

    def codegen(context: Any, builder: Any, _s: Any, args: Any) -> Any:
        name, count, _, _ = _shape(like)
        nbytes = 8 if name == "complex64" else 16 if name == "complex128" else 16 // count
        bits = load_bits(builder, nbytes, args[0])
        if nbytes == 16:
            high = builder.trunc(builder.lshr(bits, bits.type(64)), I64)
            return context.make_tuple(builder, _PAIR, [builder.trunc(bits, I64), high])
        low = builder.zext(bits, I64) if nbytes < 8 else bits
        return context.make_tuple(builder, _PAIR, [low, I64(0)])

    return signature(_PAIR, i64, like), codegen


@intrinsic
def widen(_context: Any, like: Any, raw: Any) -> Any:
    """``raw`` as an accumulator."""
    kind = _acc_kind(like)

    def codegen(context: Any, builder: Any, _s: Any, args: Any) -> Any:
        if kind is _PAIR:
            return args[1]
        return _words(context, builder, _elements(builder, like, args[1]), kind)

    return signature(kind, like, _PAIR), codegen


@intrinsic
def no_sum(_context: Any, like: Any) -> Any:
    """An accumulator of zeros."""
    kind = _acc_kind(like)

    def codegen(context: Any, builder: Any, _s: Any, _args: Any) -> Any:
        return context.make_tuple(builder, kind, [I64(0)] * len(kind))

    return signature(kind, like), codegen


def _operation(builder: Any, name: str, element: Any, signed: bool) -> Any:
    """A function of two LLVM scalars."""
    real = isinstance(element, (ir.FloatType, ir.DoubleType))
    if name in ("max", "min"):
        sign = ">" if name == "max" else "<"

        def choose(a: Any, b: Any) -> Any:
            if real:
                wins = builder.fcmp_ordered(sign, b, a)
                better = builder.or_(
                    wins, builder.fcmp_unordered("uno", b, b)
                )  # a NaN is the result
            else:
                better = (builder.icmp_signed if signed else builder.icmp_unsigned)(sign, b, a)
            return builder.select(better, b, a)

        return choose
    if real:
        return builder.fadd if name == "sum" else builder.fmul
    return {
        "and": builder.and_, "or": builder.or_, "xor": builder.xor, "sum": builder.add,
        "prod": builder.mul,
    }[name]  # fmt: skip


def _complex_product(builder: Any, a: Any, b: Any) -> Any:
    """(a + bi)(c + di), the terms rounded one by one, as the host does."""
    result = a
    for i in range(0, a.type.count, 2):
        ar, ai = (builder.extract_element(a, I32(i + k)) for k in (0, 1))
        br, bi = (builder.extract_element(b, I32(i + k)) for k in (0, 1))
        real = builder.fsub(builder.fmul(ar, br), builder.fmul(ai, bi))
        imag = builder.fadd(builder.fmul(ar, bi), builder.fmul(ai, br))
        result = builder.insert_element(result, real, I32(i))
        result = builder.insert_element(result, imag, I32(i + 1))
    return result


def combine(operation: str) -> Any:
    """``f(like, acc, raw)``: the accumulator with 16 more bytes combined into it."""

    def typing(_context: Any, like: Any, acc: Any, raw: Any) -> Any:
        kind = _acc_kind(like)

        def codegen(context: Any, builder: Any, _s: Any, args: Any) -> Any:
            name, count, element, signed = _shape(like)
            a = _vector(builder, args[1], count, element, kind)
            b = _elements(builder, like, args[2])
            if operation == "prod" and name.startswith("complex"):
                result = _complex_product(builder, a, b)
            else:
                function = _operation(builder, operation, element, signed)
                result = _map(builder, [a, b], element, function)
            return _words(context, builder, result, kind)

        return signature(kind, like, kind, _PAIR), codegen

    return intrinsic(typing)


@intrinsic
def store_acc16(_context: Any, address: Any, like: Any, acc: Any) -> Any:
    """Rounds and stores 16 aligned bytes."""

    def codegen(context: Any, builder: Any, _s: Any, args: Any) -> Any:
        pair = _narrow(context, builder, like, args[2])
        asm(builder, VOID, "st.global.v2.u64 [$0], {$1, $2};", "l,l,l", [args[0], *pair])
        return context.get_dummy_value()

    return signature(types.void, i64, like, _acc_kind(like)), codegen


@intrinsic
def store_acc1(_context: Any, address: Any, like: Any, acc: Any) -> Any:
    """Rounds and stores one element."""

    def codegen(context: Any, builder: Any, _s: Any, args: Any) -> Any:
        name, count, _, _ = _shape(like)
        low, high = _narrow(context, builder, like, args[2])
        if name == "complex128":
            asm(builder, VOID, "st.global.v2.u64 [$0], {$1, $2};", "l,l,l", [args[0], low, high])
        else:
            nbytes = 8 if name == "complex64" else 16 // count
            bits = builder.trunc(low, BITS[nbytes]) if nbytes < 8 else low
            store_bits(builder, nbytes, args[0], bits)
        return context.get_dummy_value()

    return signature(types.void, i64, like, _acc_kind(like)), codegen
