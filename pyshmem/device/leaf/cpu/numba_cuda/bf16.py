# SPDX-License-Identifier: BSD-3-Clause
"""bfloat16 in kernels that are compiled for the CPU: its operators, ``cuda.bf16`` and ``math``.

An operator's result is rounded at each step, as on a GPU: float32 has more than twice the bits, so that
rounding what it computes is rounding once. Other functions are float32's, rounded once.
"""

from __future__ import annotations

import math
import operator
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import errors
from numba.core.typing import signature
from numba.cuda.simulator import bf16 as of_numba
from numba.extending import intrinsic

from ....._foreign import numba_simulator
from ..half_math import emitted, of_math, operator_of
from ..halves import bfloat16, round_bfloat16, rounded_to_odd
from ..language import function_of_cuda
from ..target import I16, I32, I64, LANGUAGE, MEANINGS, register_jitable

_WIDE, _DOUBLE = ir.FloatType(), ir.DoubleType()
LANGUAGE["bf16"] = of_numba


def _wide(builder: Any, value: Any) -> Any:
    return builder.bitcast(builder.shl(builder.zext(value, I32), I32(16)), _WIDE)


# -- operators -----------------------------------------------------------------------------------


def _arithmetic(instruction: str) -> Callable[..., Any]:
    def emit(_context: Any, builder: Any, a: Any, b: Any) -> Any:
        number = getattr(builder, instruction)(_wide(builder, a), _wide(builder, b))
        return round_bfloat16(builder, number)

    return emit


def _compare(sign: str, *, unordered: bool = False) -> Callable[..., Any]:
    def emit(_context: Any, builder: Any, a: Any, b: Any) -> Any:
        compare = builder.fcmp_unordered if unordered else builder.fcmp_ordered
        return compare(sign, _wide(builder, a), _wide(builder, b))

    return emit


def _without_sign(_context: Any, builder: Any, value: Any) -> Any:
    return builder.and_(value, I16(0x7FFF))


def _negated(_context: Any, builder: Any, value: Any) -> Any:
    return builder.xor(value, I16(-0x8000))


_ARITHMETIC = {"add": "fadd", "sub": "fsub", "mul": "fmul", "truediv": "fdiv"}
_SIGNS = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
for _name, _instruction in _ARITHMETIC.items():
    for _key in (getattr(operator, _name), getattr(operator, f"i{_name}")):
        operator_of(_key, bfloat16, 2, _arithmetic(_instruction), bfloat16)
for _name, _sign in _SIGNS.items():
    _emit = _compare(_sign, unordered=_name == "ne")
    operator_of(getattr(operator, _name), types.boolean, 2, _emit, bfloat16)
operator_of(operator.neg, bfloat16, 1, _negated, bfloat16)
operator_of(operator.pos, bfloat16, 1, lambda _context, _builder, value: value, bfloat16)
for _key in (abs, math.fabs):
    operator_of(_key, bfloat16, 1, _without_sign, bfloat16)

# -- functions -----------------------------------------------------------------------------------


def _offer(name: str, function: Any) -> None:
    """``cuda.bf16.<name>``, which programs import, too."""
    function_of_cuda(f"bf16.{name}", function)


def _function(name: str, arity: int, emit: Callable[..., Any], result: Any = bfloat16) -> None:
    _offer(name, emitted(arity, emit, result, bfloat16))


def _fused(_context: Any, builder: Any, a: Any, b: Any, c: Any) -> Any:
    """The product is exact in float64; the last bit of the sum says whether it was, by its error."""
    a, b, c = (builder.fpext(_wide(builder, one), _DOUBLE) for one in (a, b, c))
    product = builder.fmul(a, b)
    total = builder.fadd(product, c)
    part = builder.fsub(total, product)
    error = builder.fadd(builder.fsub(product, builder.fsub(total, part)), builder.fsub(c, part))
    bits = builder.bitcast(total, I64)
    inwards = builder.xor(
        builder.fcmp_ordered("<", error, _DOUBLE(0)), builder.fcmp_ordered("<", total, _DOUBLE(0))
    )
    step = builder.select(inwards, I64(-1), I64(1))
    is_even = builder.icmp_unsigned("==", builder.and_(bits, I64(1)), I64(0))
    moved = builder.and_(is_even, builder.fcmp_ordered("!=", error, _DOUBLE(0)))
    odd = builder.bitcast(builder.select(moved, builder.add(bits, step), bits), _DOUBLE)
    return round_bfloat16(builder, rounded_to_odd(builder, odd))


def _clamped(emit: Callable[..., Any], most: float | None) -> Callable[..., Any]:
    """Not below 0, nor above ``most``; of a NaN 0."""

    def clamped(context: Any, builder: Any, *values: Any) -> Any:
        found = emit(context, builder, *values)
        number = _wide(builder, found)
        found = builder.select(builder.fcmp_ordered(">", number, _WIDE(0)), found, I16(0))
        if most is None:
            return found
        above = builder.fcmp_ordered(">", number, _WIDE(most))
        return builder.select(above, I16(0x3F80), found)

    return clamped


def _larger(sign: str, *, keeps_nan: bool) -> Callable[..., Any]:
    def emit(_context: Any, builder: Any, a: Any, b: Any) -> Any:
        one, other = _wide(builder, a), _wide(builder, b)
        odd = one if keeps_nan else other
        first = builder.fcmp_ordered(sign, one, other)
        first = builder.or_(first, builder.fcmp_unordered("uno", odd, odd))
        found = builder.select(first, a, b)
        if not keeps_nan:
            return found
        either = builder.fcmp_unordered("uno", one, other)
        return builder.select(either, I16(0x7FFF), found)

    return emit


def _is_nan(_context: Any, builder: Any, value: Any) -> Any:
    return builder.icmp_unsigned(">", _without_sign(None, builder, value), I16(0x7F80))


def _infinite(_context: Any, builder: Any, value: Any) -> Any:
    """1, -1, or 0 where it is finite."""
    is_one = builder.icmp_unsigned("==", _without_sign(None, builder, value), I16(0x7F80))
    sign = builder.select(builder.icmp_signed("<", value, I16(0)), I32(-1), I32(1))
    return builder.select(is_one, sign, I32(0))


for _name, _instruction in {**_ARITHMETIC, "div": "fdiv"}.items():
    if _name != "truediv":
        _emit = _arithmetic(_instruction)
        _function(f"h{_name}", 2, _emit)
        if _name != "div":
            _function(f"h{_name}_rn", 2, _emit)
            _function(f"h{_name}_sat", 2, _clamped(_emit, 1.0))
_function("hfma", 3, _fused)
_function("hfma_sat", 3, _clamped(_fused, 1.0))
_function("hfma_relu", 3, _clamped(_fused, None))
_function("hneg", 1, _negated)
_function("habs", 1, _without_sign)
for _name, _sign in _SIGNS.items():
    _function(f"h{_name}", 2, _compare(_sign), types.boolean)
    _function(f"h{_name}u", 2, _compare(_sign, unordered=True), types.boolean)
for _name, _sign in (("max", ">"), ("min", "<")):
    _function(f"h{_name}", 2, _larger(_sign, keeps_nan=False))
    _function(f"h{_name}_nan", 2, _larger(_sign, keeps_nan=True))
_function("hisnan", 1, _is_nan, types.boolean)
_function("hisinf", 1, _infinite, types.int32)

# -- conversions ---------------------------------------------------------------------------------


def _narrowed(builder: Any, exact: Any, mode: str) -> Any:
    """A float64 rounded once: to the nearest, to zero, down or up."""
    odd = rounded_to_odd(builder, exact)
    if mode == "rn":
        return round_bfloat16(builder, odd)
    bits = builder.bitcast(odd, I32)
    cut = builder.trunc(builder.lshr(bits, I32(16)), I16)
    is_nan = builder.fcmp_unordered("uno", odd, odd)
    if mode != "rz":
        negative = builder.icmp_signed("<", bits, I32(0))
        away = negative if mode == "rd" else builder.not_(negative)
        inexact = builder.icmp_unsigned("!=", builder.and_(bits, I32(0xFFFF)), I32(0))
        step = builder.zext(builder.and_(away, inexact), I16)
        cut = builder.add(cut, step)
    return builder.select(is_nan, I16(0x7FFF), cut)


def _exact(context: Any, builder: Any, kind: Any, value: Any) -> Any:
    """A number as float64; of a longer integer the last bit says that it was cut."""
    if isinstance(kind, types.Integer) and kind.bitwidth == 64:
        top = builder.ashr(value, I64(52)) if kind.signed else builder.lshr(value, I64(53))
        fits = builder.icmp_unsigned("==", top, I64(0))
        if kind.signed:
            fits = builder.or_(fits, builder.icmp_signed("==", top, I64(-1)))
        low = builder.icmp_unsigned("!=", builder.and_(value, I64(0x7FF)), I64(0))
        mark = builder.shl(builder.zext(low, I64), I64(11))
        cut = builder.or_(builder.and_(value, I64(~0x7FF)), mark)
        value = builder.select(fits, value, cut)
    return context.cast(builder, value, kind, types.float64)


def _from(kind: Any, mode: str) -> Any:
    def emit(context: Any, builder: Any, value: Any) -> Any:
        return _narrowed(builder, _exact(context, builder, kind, value), mode)

    return emitted(1, emit, bfloat16, kind)


_WHOLE = {"rn": "rint", "rz": "trunc", "rd": "floor", "ru": "ceil"}


def _to(kind: Any, mode: str) -> Any:
    """To an integer: what is beyond its range is its end, and a NaN is 0."""

    def emit(_context: Any, builder: Any, value: Any) -> Any:
        whole = builder.module.declare_intrinsic(f"llvm.{_WHOLE[mode]}", [_WIDE])
        form = ir.IntType(kind.bitwidth)
        name = f"llvm.fpto{'s' if kind.signed else 'u'}i.sat.i{kind.bitwidth}.f32"
        convert = builder.module.globals.get(name)
        if convert is None:
            convert = ir.Function(builder.module, ir.FunctionType(form, [_WIDE]), name)
        return builder.call(convert, [builder.call(whole, [_wide(builder, value)])])

    return emitted(1, emit, kind, bfloat16)


#: Integers by their names in functions: NumPy's, and C's.
_INTEGERS = {
    "int16": "short", "uint16": "ushort", "int32": "int", "uint32": "uint", "int64": "ll",
    "uint64": "ull",
}  # fmt: skip
for _name, _of_c in _INTEGERS.items():
    _kind = getattr(types, _name)
    for _mode in _WHOLE:
        for _other in (f"{_name}_to_bfloat16_{_mode}", f"{_of_c}2bfloat16_{_mode}"):
            _offer(_other, _from(_kind, _mode))
        for _other in (f"bfloat16_to_{_name}_{_mode}", f"bfloat162{_of_c}_{_mode}"):
            _offer(_other, _to(_kind, _mode))
for _name, _of_c in (("int8", "char"), ("uint8", "uchar")):
    for _other in (f"bfloat16_to_{_name}_rz", f"bfloat162{_of_c}_rz"):
        _offer(_other, _to(getattr(types, _name), "rz"))
for _mode in ("", *(f"_{_mode}" for _mode in _WHOLE)):
    for _name in (f"float32_to_bfloat16{_mode}", f"float2bfloat16{_mode}"):
        _offer(_name, _from(types.float32, _mode.lstrip("_") or "rn"))
for _name in ("float64_to_bfloat16", "double2bfloat16"):
    _offer(_name, _from(types.float64, "rn"))
for _name in ("bfloat16_to_float32", "bfloat162float"):
    _offer(
        _name,
        emitted(1, lambda _context, builder, value: _wide(builder, value), types.float32, bfloat16),
    )
for _name, _of_c in (("int16", "short"), ("uint16", "ushort")):
    _kind = getattr(types, _name)
    for _other in (f"bfloat16_as_{_name}", f"bfloat16_as_{_of_c}"):
        _function(_other, 1, lambda _context, _builder, value: value, _kind)
    for _other in (f"{_name}_as_bfloat16", f"{_of_c}_as_bfloat16"):
        _offer(_other, emitted(1, lambda _context, _builder, value: value, bfloat16, _kind))

# -- functions of one number -----------------------------------------------------------------------

_OF_FLOAT: dict[str, Callable[[Any], Any]] = {
    "trunc": np.trunc, "ceil": np.ceil, "floor": np.floor, "rint": np.rint, "sqrt": math.sqrt,
    "rsqrt": lambda a: 1 / math.sqrt(a), "rcp": lambda a: 1 / a, "log": math.log,
    "log2": math.log2, "log10": math.log10, "cos": math.cos, "sin": math.sin, "exp": math.exp,
    "exp2": np.exp2, "exp10": lambda a: 10.0 ** np.float64(a), "tanh": math.tanh,
}  # fmt: skip
_rounded = _from(types.float32, "rn")


def _of_float(function: Callable[[Any], Any]) -> Any:
    inner = register_jitable(function)

    @register_jitable
    def half(value: Any) -> Any:
        return _rounded(np.float32(inner(np.float32(value))))

    return half


for _name, _inner in _OF_FLOAT.items():
    _half = _of_float(_inner)
    _offer(f"h{_name}", _half)
    of_math(_name, _half, bfloat16)
_offer("htanh_approx", LANGUAGE["bf16"].htanh)


class Constructor:
    """``cuda.bf16.bfloat16``: in kernels a number as bfloat16."""

    def __call__(self, *_given: Any) -> Any:
        raise RuntimeError(
            "cuda.bf16.bfloat16 is called in kernels; ml_dtypes has one for the host"
        )


@intrinsic
def _converted(_context: Any, value: Any) -> Any:
    kind = types.unliteral(value)
    if kind != bfloat16 and not isinstance(kind, (types.Integer, types.Float, types.Boolean)):
        raise errors.TypingError(f"bfloat16 is made of a number, not of {kind}")

    def codegen(context: Any, builder: Any, _sig: Any, args: Any) -> Any:
        if kind == bfloat16:
            return args[0]
        return _narrowed(builder, _exact(context, builder, kind, args[0]), "rn")

    return signature(bfloat16, kind), codegen


_CONSTRUCTOR = Constructor()
MEANINGS.append(lambda value: _converted if value is _CONSTRUCTOR else None)


def install() -> None:
    """Have programs find the type and that there is one."""
    vars(sys.modules[of_numba.__name__])["bfloat16"] = _CONSTRUCTOR
    numba_simulator.add_to_package({"is_bfloat16_supported": lambda: True})
