# SPDX-License-Identifier: BSD-3-Clause
"""The arithmetic of reductions on 16 bytes at a time, in registers.

``raw`` is 16 bytes as two int64. An accumulator is that too, or four int64 for 16-bit floats, which
are summed in float32 and rounded once. With fewer elements than 16 bytes hold the rest is zeros.
"""

from llvmlite import ir
from numba.cuda import cgutils, types

from . import llvm
from .llvm import I16, I32, I64, PAIR, i64, leaf, register_jitable
from .memory import load16, load_bits, round_bfloat16, store16_near, store_bits

__all__ = [
    "combine", "no_sum", "raw1", "raw16", "raw_of", "rounded", "store_acc1", "store_acc16", "widen",
]  # fmt: skip

_FLOAT, _DOUBLE, _HALF = ir.FloatType(), ir.DoubleType(), ir.HalfType()
_SMALL_FLOATS = ("float16", "bfloat16")
_REALS = {
    "float16": (8, _FLOAT), "bfloat16": (8, _FLOAT), "float32": (4, _FLOAT),
    "float64": (2, _DOUBLE), "complex64": (4, _FLOAT), "complex128": (2, _DOUBLE),
}  # fmt: skip


def _shape(like) -> tuple:
    """Dtype name, elements in 16 bytes, their type in an accumulator, and whether they are signed."""
    name = llvm.dtype_name(like)
    if name in _REALS:
        return name, *_REALS[name], True
    nbytes = 1 if name in ("bool", "boolean") else like.dtype.bitwidth // 8
    return name, 16 // nbytes, llvm.BITS[nbytes], bool(getattr(like.dtype, "signed", False))


def _nbytes(like) -> int:
    """Bytes of one element."""
    name, count, _, _ = _shape(like)
    return {"complex64": 8, "complex128": 16}.get(name, 16 // count)


def _acc_kind(like):
    return types.UniTuple(i64, 4) if _shape(like)[0] in _SMALL_FLOATS else PAIR


def _vector(builder, words, count: int, element):
    """A tuple of int64 as a vector of elements."""
    n = len(words.type.elements)
    vector = ir.Constant(ir.VectorType(I64, n), ir.Undefined)
    for i in range(n):
        vector = builder.insert_element(vector, builder.extract_value(words, i), I32(i))
    return builder.bitcast(vector, ir.VectorType(element, count))


def _words(builder, vector, n: int) -> list:
    """The other way: ``n`` int64."""
    wide = builder.bitcast(vector, ir.VectorType(I64, n))
    return [builder.extract_element(wide, I32(i)) for i in range(n)]


def _map(builder, vectors: list, element, function):
    """A new vector, element by element: a GPU has no others."""
    count = vectors[0].type.count
    result = ir.Constant(ir.VectorType(element, count), ir.Undefined)
    for i in range(count):
        values = [builder.extract_element(vector, I32(i)) for vector in vectors]
        result = builder.insert_element(result, function(*values), I32(i))
    return result


def _elements(builder, like, raw):
    """A pair as a vector of what accumulators hold."""
    name, count, element, _ = _shape(like)
    if name not in _SMALL_FLOATS:
        return _vector(builder, raw, count, element)

    bits = _vector(builder, raw, 8, I16)
    if name == "float16":
        return _map(
            builder, [bits], _FLOAT, lambda b: builder.fpext(builder.bitcast(b, _HALF), _FLOAT)
        )
    high = _map(builder, [bits], I32, lambda b: builder.shl(builder.zext(b, I32), I32(16)))
    return builder.bitcast(high, ir.VectorType(_FLOAT, 8))


def _narrow(builder, like, acc) -> list:
    """An accumulator rounded to the dtype, as two int64."""
    name, count, element, _ = _shape(like)
    if name not in _SMALL_FLOATS:
        return list(cgutils.unpack_tuple(builder, acc, 2))

    def rounded(value):
        if name == "bfloat16":
            return round_bfloat16(builder, value)
        return builder.bitcast(builder.fptrunc(value, _HALF), I16)

    return _words(builder, _map(builder, [_vector(builder, acc, count, element)], I16, rounded), 2)


@register_jitable
def raw16(address, like):
    """16 aligned bytes, past the L1 cache."""
    return load16(address)


@leaf(lambda address, like: (PAIR, i64, like))
def raw1(context, builder, address, like):
    """One element, past the L1 cache."""
    bits = load_bits(builder, _nbytes(like), address)
    return context.make_tuple(builder, PAIR, llvm.split(builder, bits))


@leaf(lambda like, raw: (_acc_kind(like), like, PAIR))
def widen(context, builder, like, raw):
    """``raw`` as an accumulator."""
    kind = _acc_kind(like)
    words = _words(builder, _elements(builder, like, raw), len(kind))
    return context.make_tuple(builder, kind, words)


@leaf(lambda like: (_acc_kind(like), like))
def no_sum(context, builder, like):
    """An accumulator of zeros."""
    kind = _acc_kind(like)
    return context.make_tuple(builder, kind, [I64(0)] * len(kind))


def _operation(builder, name: str, element, signed: bool):
    """A function of two LLVM scalars."""
    real = isinstance(element, (ir.FloatType, ir.DoubleType))
    if name in ("max", "min"):
        sign = ">" if name == "max" else "<"

        def choose(a, b):
            if real:
                is_nan = builder.fcmp_unordered("uno", b, b)  # which is the result then
                better = builder.or_(builder.fcmp_ordered(sign, b, a), is_nan)
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


def _complex_product(builder, a, b):
    """(a + bi)(c + di); the compiler may contract a product and a sum into one rounding."""
    result = a
    for i in range(0, a.type.count, 2):
        ar, ai = (builder.extract_element(a, I32(i + k)) for k in (0, 1))
        br, bi = (builder.extract_element(b, I32(i + k)) for k in (0, 1))
        real = builder.fsub(builder.fmul(ar, br), builder.fmul(ai, bi))
        imag = builder.fadd(builder.fmul(ar, bi), builder.fmul(ai, br))
        result = builder.insert_element(result, real, I32(i))
        result = builder.insert_element(result, imag, I32(i + 1))
    return result


def combine(operation: str):
    """``f(like, acc, raw)``: the accumulator with 16 more bytes combined into it."""

    @leaf(lambda like, acc, raw: (_acc_kind(like), like, _acc_kind(like), PAIR))
    def apply(context, builder, like, acc, raw):
        name, count, element, signed = _shape(like)
        a, b = _vector(builder, acc, count, element), _elements(builder, like, raw)
        if operation == "prod" and name.startswith("complex"):
            result = _complex_product(builder, a, b)
        else:
            function = _operation(builder, operation, element, signed)
            result = _map(builder, [a, b], element, function)
        kind = _acc_kind(like)
        return context.make_tuple(builder, kind, _words(builder, result, len(kind)))

    return apply


@register_jitable
def raw_of(like, low, high):
    """16 bytes as ``raw``."""
    return low, high


@leaf(lambda like, acc: (PAIR, like, _acc_kind(like)))
def rounded(context, builder, like, acc):
    """An accumulator in the dtype, as two int64."""
    return context.make_tuple(builder, PAIR, _narrow(builder, like, acc))


@register_jitable
def store_acc16(address, like, acc):
    """Rounds and stores 16 aligned bytes."""
    low, high = rounded(like, acc)
    store16_near(address, low, high)


@leaf(lambda address, like, acc: (types.void, i64, like, _acc_kind(like)))
def store_acc1(_context, builder, address, like, acc) -> None:
    """Rounds and stores one element."""
    bits = llvm.join(builder, _nbytes(like), *_narrow(builder, like, acc))
    store_bits(builder, _nbytes(like), address, bits)
