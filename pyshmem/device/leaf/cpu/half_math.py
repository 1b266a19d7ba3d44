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

from .halves import registry, rounded_to_odd, typing_registry
from .language import function_of_cuda
from .target import register_jitable, with_arity

HALF = types.float16
_FORM, _WIDE = ir.HalfType(), ir.FloatType()

# -- operators -----------------------------------------------------------------------------------


def _alike(context: Any, args: Any, kind: Any) -> bool:
    """Two halves, or a half and what is one without loss; Numba's own rules are asked for others."""
    if len(args) != 2 or kind not in args:
        return False
    other = args[1] if args[0] == kind else args[0]
    fits = Conversion.exact, Conversion.promote, Conversion.safe
    return context.can_convert(other, kind) in fits


def operator_of(
    key: Any, result: Any, arity: int, emit: Callable[..., Any], kind: Any = HALF
) -> None:
    """``key`` of halves, with an implementation of its own beside those that Numba has for floats.

    Of the target, so that it is asked before what is for all targets and makes float32 of them.
    """

    def own() -> None: ...

    def generic(template: Any, args: Any, _kws: Any) -> Any:
        fits = _alike(template.context, args, kind) if arity == 2 else tuple(args) == (kind,)
        return signature(result, *([kind] * arity)) if fits else None

    members = {
        "key": key, "metadata": {"target": "cpu"}, "generic": generic,
        "get_impl_key": lambda _template, _sig: own,
    }  # fmt: skip
    typing_registry.register_global(key)(type("HalfTemplate", (AbstractTemplate,), members))
    registry.lower(own, *([kind] * arity))(
        lambda context, builder, _sig, args: emit(context, builder, *args)
    )


def _arithmetic(instruction: str) -> Callable[..., Any]:
    return lambda _context, builder, a, b: getattr(builder, instruction)(a, b)


for _name, _instruction in (
    ("add", "fadd"), ("sub", "fsub"), ("mul", "fmul"), ("truediv", "fdiv")
):  # fmt: skip
    for _key in (getattr(operator, _name), getattr(operator, f"i{_name}")):
        operator_of(_key, HALF, 2, _arithmetic(_instruction))


def _compare(sign: str) -> Callable[..., Any]:
    if sign == "!=":
        return lambda _context, builder, a, b: builder.fcmp_unordered(sign, a, b)
    return lambda _context, builder, a, b: builder.fcmp_ordered(sign, a, b)


_SIGNS = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
for _name, _sign in _SIGNS.items():
    operator_of(getattr(operator, _name), types.boolean, 2, _compare(_sign))


def _magnitude(_context: Any, builder: Any, value: Any) -> Any:
    form = ir.IntType(16)
    return builder.bitcast(builder.and_(builder.bitcast(value, form), form(0x7FFF)), _FORM)


operator_of(operator.neg, HALF, 1, lambda _context, builder, value: builder.fneg(value))
operator_of(operator.pos, HALF, 1, lambda _context, _builder, value: value)
operator_of(abs, HALF, 1, _magnitude)

# -- functions -----------------------------------------------------------------------------------


def emitted(arity: int, emit: Callable[..., Any], result: Any = HALF, given: Any = HALF) -> Any:
    """A function of ``arity`` numbers of the type ``given``, by ``emit(context, builder, *values)``."""
    kind = signature(result, *([given] * arity))

    def codegen(context: Any, builder: Any, _sig: Any, args: Any) -> Any:
        return emit(context, builder, *args)

    return with_arity(arity, lambda *_given: (kind, codegen))


def _fma(_context: Any, builder: Any, a: Any, b: Any, c: Any) -> Any:
    """By float64, in which the product is exact, and float32 rounded to odd: one rounding counts."""
    exact = builder.fma(*(builder.fpext(one, ir.DoubleType()) for one in (a, b, c)))
    return builder.fptrunc(rounded_to_odd(builder, exact), _FORM)


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


def of_math(name: str, half: Any, kind: Any = HALF) -> None:
    """``math.name`` of a number of that kind is ``half``, where Python has one of that name."""
    if not hasattr(math, name):
        return

    def body(value: Any) -> Any:
        return half(value)

    def emit(context: Any, builder: Any, value: Any) -> Any:
        return context.compile_internal(builder, body, signature(kind, kind), [value])

    operator_of(getattr(math, name), kind, 1, emit, kind)


for _name, _function in _OF_FLOAT.items():
    _half = _rounded(_function)
    function_of_cuda(f"fp16.h{_name}", _half)
    of_math(_name, _half)
for _name, _instruction in (("add", "fadd"), ("sub", "fsub"), ("mul", "fmul"), ("div", "fdiv")):
    function_of_cuda(f"fp16.h{_name}", emitted(2, _arithmetic(_instruction)))
for _name, _sign in _SIGNS.items():
    function_of_cuda(f"fp16.h{_name}", emitted(2, _compare(_sign), types.boolean))
function_of_cuda("fp16.hneg", emitted(1, lambda _context, builder, value: builder.fneg(value)))
function_of_cuda("fp16.habs", emitted(1, _magnitude))
function_of_cuda("fp16.hfma", emitted(3, _fma))
function_of_cuda("fp16.hmax", emitted(2, _larger(">")))
function_of_cuda("fp16.hmin", emitted(2, _larger("<")))
operator_of(math.fabs, HALF, 1, _magnitude)
