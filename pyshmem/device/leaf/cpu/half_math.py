# SPDX-License-Identifier: BSD-3-Clause
"""Arithmetic of float16, rounded at each step as on a GPU: operators, ``cuda.fp16`` and ``math``.

Operators and ``hfma`` are LLVM's; the other functions are float32's, rounded once.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core.typeconv import Conversion
from numba.core.typing import signature
from numba.core.typing.templates import AbstractTemplate

from .halves import registry, typing_registry
from .language import function_of_cuda
from .target import register_jitable, with_arity

HALF = types.float16
_FORM, _WIDE = ir.HalfType(), ir.FloatType()

# -- operators -----------------------------------------------------------------------------------


def _alike(context: Any, args: Any) -> bool:
    """Two halves, or a half and what is one without loss; Numba's own rules are asked for others."""
    if len(args) != 2 or HALF not in args:
        return False
    other = args[1] if args[0] == HALF else args[0]
    fits = Conversion.exact, Conversion.promote, Conversion.safe
    return context.can_convert(other, HALF) in fits


def _operator(key: Any, result: Any, arity: int, emit: Callable[..., Any]) -> None:
    """``key`` of halves, with an implementation of its own beside those that Numba has for floats.

    Of the target, so that it is asked before what is for all targets and makes float32 of them.
    """

    def own() -> None: ...

    def generic(template: Any, args: Any, _kws: Any) -> Any:
        fits = _alike(template.context, args) if arity == 2 else tuple(args) == (HALF,)
        return signature(result, *([HALF] * arity)) if fits else None

    members = {
        "key": key, "metadata": {"target": "cpu"}, "generic": generic,
        "get_impl_key": lambda _template, _sig: own,
    }  # fmt: skip
    typing_registry.register_global(key)(type("HalfTemplate", (AbstractTemplate,), members))
    registry.lower(own, *([HALF] * arity))(
        lambda context, builder, _sig, args: emit(context, builder, *args)
    )


def _arithmetic(instruction: str) -> Callable[..., Any]:
    return lambda _context, builder, a, b: getattr(builder, instruction)(a, b)


for _name, _instruction in (
    ("add", "fadd"), ("sub", "fsub"), ("mul", "fmul"), ("truediv", "fdiv")
):  # fmt: skip
    for _key in (getattr(operator, _name), getattr(operator, f"i{_name}")):
        _operator(_key, HALF, 2, _arithmetic(_instruction))


def _compare(sign: str) -> Callable[..., Any]:
    if sign == "!=":
        return lambda _context, builder, a, b: builder.fcmp_unordered(sign, a, b)
    return lambda _context, builder, a, b: builder.fcmp_ordered(sign, a, b)


_SIGNS = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
for _name, _sign in _SIGNS.items():
    _operator(getattr(operator, _name), types.boolean, 2, _compare(_sign))


def _magnitude(_context: Any, builder: Any, value: Any) -> Any:
    form = ir.IntType(16)
    return builder.bitcast(builder.and_(builder.bitcast(value, form), form(0x7FFF)), _FORM)


_operator(operator.neg, HALF, 1, lambda _context, builder, value: builder.fneg(value))
_operator(operator.pos, HALF, 1, lambda _context, _builder, value: value)
_operator(abs, HALF, 1, _magnitude)

# -- functions -----------------------------------------------------------------------------------


def _emitted(arity: int, emit: Callable[..., Any], result: Any = HALF) -> Any:
    kind = signature(result, *([HALF] * arity))

    def codegen(context: Any, builder: Any, _sig: Any, args: Any) -> Any:
        return emit(context, builder, *args)

    return with_arity(arity, lambda *_given: (kind, codegen))


def _fma(_context: Any, builder: Any, a: Any, b: Any, c: Any) -> Any:
    """By float64, in which the product is exact, and float32 rounded to odd: one rounding counts."""
    double, word = ir.DoubleType(), ir.IntType(32)
    exact = builder.fma(*(builder.fpext(one, double) for one in (a, b, c)))
    near = builder.fptrunc(exact, _WIDE)
    bits, back = builder.bitcast(near, word), builder.fpext(near, double)
    below_zero = builder.fcmp_ordered("<", exact, double(0))
    further = builder.xor(builder.fcmp_ordered(">", back, exact), below_zero)
    step = builder.select(further, word(-1), word(1))
    is_even = builder.icmp_unsigned("==", builder.and_(bits, word(1)), word(0))
    moved = builder.and_(is_even, builder.fcmp_ordered("!=", back, exact))
    odd = builder.select(moved, builder.add(bits, step), bits)
    return builder.fptrunc(builder.bitcast(odd, _WIDE), _FORM)


def _larger(sign: str) -> Callable[..., Any]:
    """The larger or the smaller; beside a NaN the other one."""

    def emit(_context: Any, builder: Any, a: Any, b: Any) -> Any:
        first = builder.or_(builder.fcmp_ordered(sign, a, b), builder.fcmp_unordered("uno", b, b))
        return builder.select(first, a, b)

    return emit


_to_half = with_arity(
    1,
    lambda *_given: (
        signature(HALF, types.float32),
        lambda _context, builder, _sig, args: builder.fptrunc(args[0], _FORM),
    ),
)


def _rounded(function: Callable[[Any], Any]) -> Any:
    inner = register_jitable(function)

    @register_jitable
    def half(value: Any) -> Any:
        return _to_half(np.float32(inner(np.float32(value))))

    return half


#: Names of ``cuda.fp16`` without their h; of those with a sibling in ``math`` that is one too.
_OF_FLOAT: dict[str, Callable[[Any], Any]] = {
    "sin": math.sin, "cos": math.cos, "tanh": math.tanh, "log": math.log, "log2": math.log2,
    "log10": math.log10, "exp": math.exp, "sqrt": math.sqrt, "ceil": np.ceil, "floor": np.floor,
    "trunc": np.trunc, "rint": np.rint, "exp2": np.exp2, "exp10": lambda a: 10.0 ** np.float64(a),
    "rsqrt": lambda a: 1 / math.sqrt(a), "rcp": lambda a: 1 / a,
}  # fmt: skip


def _called(half: Any) -> Callable[..., Any]:
    def body(value: Any) -> Any:
        return half(value)

    return lambda context, builder, value: context.compile_internal(
        builder, body, signature(HALF, HALF), [value]
    )


for _name, _function in _OF_FLOAT.items():
    _half = _rounded(_function)
    function_of_cuda(f"fp16.h{_name}", _half)
    if hasattr(math, _name):
        _operator(getattr(math, _name), HALF, 1, _called(_half))
for _name, _instruction in (("add", "fadd"), ("sub", "fsub"), ("mul", "fmul"), ("div", "fdiv")):
    function_of_cuda(f"fp16.h{_name}", _emitted(2, _arithmetic(_instruction)))
for _name, _sign in _SIGNS.items():
    function_of_cuda(f"fp16.h{_name}", _emitted(2, _compare(_sign), types.boolean))
function_of_cuda("fp16.hneg", _emitted(1, lambda _context, builder, value: builder.fneg(value)))
function_of_cuda("fp16.habs", _emitted(1, _magnitude))
function_of_cuda("fp16.hfma", _emitted(3, _fma))
function_of_cuda("fp16.hmax", _emitted(2, _larger(">")))
function_of_cuda("fp16.hmin", _emitted(2, _larger("<")))
_operator(math.fabs, HALF, 1, _magnitude)
