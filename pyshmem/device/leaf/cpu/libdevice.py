# SPDX-License-Identifier: BSD-3-Clause
"""``numba.cuda.libdevice`` in kernels that are compiled for the CPU: mostly the machine's ``libm``.

Types are those of Numba's table of that library, of which all is here. What rounds up, down or to zero
is ``native/src/fiber/rounding.c``, what C's ``math.h`` lacks comes first. Functions of ``math`` that
Numba has for GPUs alone are last.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Callable
from types import BuiltinFunctionType
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils, errors
from numba.core.typing import signature
from numba.cuda.libdevicefuncs import create_signature, functions

from .target import I16, I32, I64, MEANINGS, call, register_jitable, with_arity

_MODULE = "numba.cuda.libdevice"
_FLOAT, _DOUBLE = ir.FloatType(), ir.DoubleType()

# -- what C's math.h lacks, of float64: within some units of the last place, as a GPU's own ---------

_ROOT_OF_PI = math.sqrt(math.pi)


@register_jitable
def _rest_of_two(value: Any) -> Any:
    """What is over whole turns of 2, in -1 .. 1, exactly."""
    return value - 2.0 * math.floor(0.5 * value + 0.5)


@register_jitable
def sinpi(value: Any) -> Any:
    """sin(pi value): 0 for whole numbers."""
    rest = _rest_of_two(value)
    if abs(rest) > 0.5:
        rest = math.copysign(1.0, rest) - rest
    return math.sin(math.pi * rest)


@register_jitable
def cospi(value: Any) -> Any:
    """cos(pi value): 0 between whole numbers."""
    rest = abs(_rest_of_two(value))
    if rest > 0.75:
        return -math.cos(math.pi * (1.0 - rest))
    if rest > 0.25:
        return math.sin(math.pi * (0.5 - rest))
    return math.cos(math.pi * rest)


@register_jitable
def _inverse_of_tail(tail: Any) -> Any:
    """The x of which erfc is ``tail``, for 0 < tail <= 1: by Newton, of logarithms for the far tail."""
    depth = math.log(tail * (2.0 - tail))
    half = 2.0 / (math.pi * 0.147) + 0.5 * depth
    x = math.sqrt(max(math.sqrt(half * half - depth / 0.147) - half, 0.0))
    for _ in range(4):
        reached = math.erfc(x)
        if reached <= 0.0:  # too small for a float
            break
        error = math.log(reached) - math.log(tail)
        x += error * reached * (0.5 * _ROOT_OF_PI) * math.exp(x * x)
    return x


@register_jitable
def erfcinv(value: Any) -> Any:
    if value == 0.0:
        return math.inf
    if value == 2.0:
        return -math.inf
    if not 0.0 < value < 2.0:
        return math.nan
    if value > 0.5 and value < 1.5:
        return -_erfinv_near(value - 1.0)
    return _inverse_of_tail(value) if value < 1.0 else -_inverse_of_tail(2.0 - value)


@register_jitable
def _erfinv_near(value: Any) -> Any:
    """The x of which erf is ``value``, within -0.5 .. 0.5: of small numbers all digits count."""
    x = 0.5 * _ROOT_OF_PI * value * (1.0 + math.pi / 12.0 * value * value)
    for _ in range(4):
        error = (math.erf(x) - value) * (0.5 * _ROOT_OF_PI) * math.exp(x * x)
        x -= error / (1.0 + x * error)
    return x


@register_jitable
def erfinv(value: Any) -> Any:
    size = abs(value)
    if size <= 0.5:
        return _erfinv_near(value)
    if size > 1.0 or size != size:
        return math.nan
    x = math.inf if size == 1.0 else _inverse_of_tail(1.0 - size)
    return math.copysign(x, value)


@register_jitable
def erfcx(value: Any) -> Any:
    """exp(value ** 2) erfc(value)."""
    if value > 25.0:  # erfc's digits end: the first of its asymptotic terms
        part = 0.5 / (value * value)
        series = 1.0 - part * (1.0 - 3.0 * part * (1.0 - 5.0 * part * (1.0 - 7.0 * part)))
        return series / (value * _ROOT_OF_PI)
    if value < -27.0:
        return math.inf
    near = math.floor(value * 65536.0) / 65536.0  # whose square is exact
    rest = (value - near) * (value + near)
    return math.exp(near * near) * math.exp(rest) * math.erfc(value)


# -- the table -----------------------------------------------------------------------------------

#: Functions of C's ``math.h``; with an f behind they are float32's.
_OF_C = {
    name: name
    for name in (
        "acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "cbrt", "ceil", "copysign",
        "cos", "cosh", "erf", "erfc", "exp", "exp2", "exp10", "expm1", "fabs", "fdim", "floor",
        "fma", "fmax", "fmin", "fmod", "hypot", "j0", "j1", "y0", "y1", "lgamma", "log", "log10",
        "log1p", "log2", "logb", "nearbyint", "nextafter", "pow", "remainder", "rint", "round",
        "sin", "sinh", "sqrt", "tan", "tanh", "tgamma", "trunc", "ldexp", "scalbn", "ilogb", "jn",
        "yn", "llrint", "llround",
    )
}  # fmt: skip
_OF_C |= {f"{name}f": f"{name}f" for name in _OF_C}
_OF_C |= {
    f"fast_{name}f": f"{name}f"
    for name in ("cos", "exp", "exp10", "log", "log10", "log2", "pow", "sin", "tan")
}


def _as(kind: Any, form: Any, given: Any) -> Any:
    """``f(value)``: the bits of a ``given`` as another type."""

    def codegen(_context: Any, builder: Any, _sig: Any, args: Any) -> Any:
        return builder.bitcast(args[0], form)

    return with_arity(1, lambda _value: (signature(kind, given), codegen))


_bits_of = _as(types.int64, I64, types.float64)
_double_of = _as(types.float64, _DOUBLE, types.int64)


@register_jitable
def _picked_bytes(both: Any, selector: Any) -> Any:
    made = 0
    for at in range(4):
        made |= (both >> 8 * (selector >> 4 * at & 7) & 255) << 8 * at
    return made


def _itself(value: Any) -> Any:
    return value


def _reciprocal(value: Any) -> Any:
    return 1 / value


_SUM = (lambda a, b: a + b, lambda a, b: a * b, lambda a, b: a / b, lambda a, b: a - b)
#: Functions in a line of Python, of arguments that have the types of the table.
_IN_PYTHON: dict[str, Callable[..., Any]] = {
    "rsqrt": lambda a: 1 / math.sqrt(a),
    "rcbrt": lambda a: 1 / np.cbrt(a),
    "normcdf": lambda a: 0.5 * math.erfc(-a * math.sqrt(0.5)),
    "sinpi": sinpi, "cospi": cospi, "erfinv": erfinv, "erfcinv": erfcinv, "erfcx": erfcx,
    "normcdfinv": lambda a: -math.sqrt(2.0) * erfcinv(2 * a),
    "powi": lambda a, b: a ** float(b),
}  # fmt: skip
_IN_PYTHON |= {f"{name}f": function for name, function in tuple(_IN_PYTHON.items())}
_IN_PYTHON |= {
    f"{kind}{name}_rn": function
    for kind in "df"
    for name, function in zip(("add", "mul", "div", "sub"), _SUM, strict=True)
}
_IN_PYTHON |= {
    "fast_fdividef": _SUM[2], "frsqrt_rn": _IN_PYTHON["rsqrt"],
    "saturatef": lambda a: min(max(a, 0.0), 1.0),
    "dsqrt_rn": lambda a: math.sqrt(a), "fsqrt_rn": lambda a: math.sqrt(a),
    "drcp_rn": _reciprocal, "frcp_rn": _reciprocal,
    "abs": lambda a: abs(a), "llabs": lambda a: abs(a),
    "isfinited": lambda a: math.isfinite(a), "finitef": lambda a: math.isfinite(a),
    "isinfd": lambda a: math.isinf(a), "isinff": lambda a: math.isinf(a),
    "isnand": lambda a: math.isnan(a), "isnanf": lambda a: math.isnan(a),
    "signbitd": lambda a: math.copysign(1.0, a) < 0, "signbitf": lambda a: math.copysign(1.0, a) < 0,
    "mulhi": lambda a, b: np.int64(a) * np.int64(b) >> 32,
    "umulhi": lambda a, b: np.uint64(np.uint32(a)) * np.uint64(np.uint32(b)) >> np.uint64(32),
    "hadd": lambda a, b: np.int64(a) + np.int64(b) >> 1,
    "rhadd": lambda a, b: np.int64(a) + np.int64(b) + 1 >> 1,
    "uhadd": lambda a, b: np.int64(np.uint32(a)) + np.int64(np.uint32(b)) >> 1,
    "urhadd": lambda a, b: np.int64(np.uint32(a)) + np.int64(np.uint32(b)) + 1 >> 1,
    "sad": lambda a, b, c: abs(np.int64(a) - np.int64(b)) + c,
    "usad": lambda a, b, c: abs(np.int64(np.uint32(a)) - np.int64(np.uint32(b))) + c,
    "mul24": lambda a, b: ((a << 40) >> 40) * ((b << 40) >> 40),
    "umul24": lambda a, b: (a & 0xFFFFFF) * (b & 0xFFFFFF),
    "double2hiint": lambda a: _bits_of(a) >> 32, "double2loint": lambda a: _bits_of(a),
    "hiloint2double": lambda a, b: _double_of((np.int64(a) << 32) | (np.int64(b) & 0xFFFFFFFF)),
    "byte_perm": lambda a, b, s: _picked_bytes((np.int64(b) << 32) | (np.int64(a) & 0xFFFFFFFF), s),
    "sincos": lambda a: (math.sin(a), math.cos(a)), "sincospi": lambda a: (sinpi(a), cospi(a)),
}  # fmt: skip
_IN_PYTHON |= {
    "sincosf": _IN_PYTHON["sincos"], "fast_sincosf": _IN_PYTHON["sincos"],
    "sincospif": _IN_PYTHON["sincospi"],
}  # fmt: skip
for _name, _function in (
    ("max", lambda a, b: max(a, b)), ("min", lambda a, b: min(a, b)),
    ("umax", lambda a, b: max(np.uint32(a), np.uint32(b))),
    ("umin", lambda a, b: min(np.uint32(a), np.uint32(b))),
    ("ullmax", lambda a, b: max(np.uint64(a), np.uint64(b))),
    ("ullmin", lambda a, b: min(np.uint64(a), np.uint64(b))),
):  # fmt: skip
    _IN_PYTHON[_name] = _function
_IN_PYTHON |= {"llmax": _IN_PYTHON["max"], "llmin": _IN_PYTHON["min"]}
#: Conversions that round as C does: to the nearest float.
_IN_PYTHON |= {
    name.removeprefix("__nv_"): _itself
    for name in functions
    if name.endswith(("2double_rn", "2float_rn"))
}

#: The same bits as another type.
_BITS = ("double_as_longlong", "longlong_as_double", "float_as_int", "int_as_float")
#: Of integers, as ``cuda`` has them.
_AS_CUDA = {
    name: name.removesuffix("ll")
    for name in ("brev", "brevll", "clz", "clzll", "ffs", "ffsll", "popc", "popcll")
}


# -- rounding ------------------------------------------------------------------------------------

_MODES = {"rn": 0, "rz": 1, "rd": 2, "ru": 3}
_OPERATIONS = {"add": 0, "sub": 1, "mul": 2, "div": 3, "sqrt": 4, "fma": 5}
_ROUNDED = re.compile(r"(?:([df])(add|sub|mul|div|sqrt|rcp)|(fma)(f?))_(rn|rz|rd|ru)")
_CONVERTED = re.compile(
    r"(double|float|int|uint|ll|ull)2(double|float|int|uint|ll|ull)_(rn|rz|rd|ru)"
)
_WHOLE = {"rn": "rint", "rz": "trunc", "rd": "floor", "ru": "ceil"}


def _rounded(found: re.Match[str]) -> Callable[..., Any]:
    """Arithmetic of floats, of up to three, in a way of rounding."""
    form = _FLOAT if found[1] == "f" or found[4] else _DOUBLE
    op, mode = found[2] or found[3], I32(_MODES[found[5]])

    def emit(_context: Any, builder: Any, args: Any) -> Any:
        given = [form(1.0), *args] if op == "rcp" else list(args)
        given += [form(0.0)] * (3 - len(given))
        number = I32(_OPERATIONS["div" if op == "rcp" else op])
        name = "pysh_cpu_rounded" + ("_f" if form == _FLOAT else "")
        return call(builder, name, form, number, mode, *given)

    return emit


def _to_float(source: str, target: str, mode: str) -> Callable[..., Any]:
    form, end = (_FLOAT, "_f") if target == "float" else (_DOUBLE, "")
    is_unsigned = source.startswith("u")

    def emit(_context: Any, builder: Any, args: Any) -> Any:
        number = I32(_MODES[mode])
        if source == "double":
            return call(builder, "pysh_cpu_narrowed", form, number, args[0])
        wide = (builder.zext if is_unsigned else builder.sext)(args[0], I64)
        return call(builder, f"pysh_cpu_of_integer{end}", form, number, wide, I32(int(is_unsigned)))

    return emit


def _to_integer(source: str, target: str, mode: str) -> Callable[..., Any]:
    """The nearest number that there is for one that is too large; of a NaN 0, or the highest bit."""
    form = _FLOAT if source == "float" else _DOUBLE
    width = 64 if target.endswith("ll") else 32
    op = "fptoui" if target.startswith("u") else "fptosi"
    highest = 1 << (width - 1) if width == 64 or source == "double" else 0

    def emit(_context: Any, builder: Any, args: Any) -> Any:
        end, kind = ("f", "f32") if source == "float" else ("", "f64")
        whole = call(builder, f"{_WHOLE[mode]}{end}", form, args[0])
        integer = ir.IntType(width)
        convert = cgutils.get_or_insert_function(
            builder.module, ir.FunctionType(integer, [form]), f"llvm.{op}.sat.i{width}.{kind}"
        )
        is_nan = builder.fcmp_unordered("uno", args[0], args[0])
        return builder.select(is_nan, integer(highest), builder.call(convert, [whole]))

    return emit


def _of_rounding(name: str) -> Callable[..., Any] | None:
    if found := _ROUNDED.fullmatch(name):
        return _rounded(found)
    found = _CONVERTED.fullmatch(name)
    if found is None or name in _IN_PYTHON:
        return None
    return (_to_float if found[2] in ("float", "double") else _to_integer)(*found.groups())


def _with_place(name: str, kind: Any) -> Callable[..., Any]:
    """A function of C that stores a second result, of which both are returned."""
    form = {"d": _DOUBLE, "f": _FLOAT}["f" if name.endswith("f") and name != "modf" else "d"]

    def emit(context: Any, builder: Any, args: Any) -> Any:
        second = cgutils.alloca_once(builder, context.get_value_type(kind.return_type[1]))
        first = call(builder, name, form, *args, second)
        return context.make_tuple(builder, kind.return_type, [first, builder.load(second)])

    return emit


def _high_product(extend: str) -> Callable[..., Any]:
    def emit(_context: Any, builder: Any, args: Any) -> Any:
        wide = ir.IntType(128)
        a, b = (getattr(builder, extend)(value, wide) for value in args)
        return builder.trunc(builder.lshr(builder.mul(a, b), wide(64)), I64)

    return emit


def _to_half(_context: Any, builder: Any, args: Any) -> Any:
    return builder.bitcast(builder.fptrunc(args[0], ir.HalfType()), I16)


def _from_half(_context: Any, builder: Any, args: Any) -> Any:
    return builder.fpext(builder.bitcast(args[0], ir.HalfType()), _FLOAT)


_EMITTED: dict[str, Callable[..., Any]] = {
    "mul64hi": _high_product("sext"), "umul64hi": _high_product("zext"),
    "float2half_rn": _to_half, "half2float": _from_half,
}  # fmt: skip
_WITH_PLACE = {f"{name}{end}" for name in ("frexp", "modf", "remquo") for end in ("", "f")}


def _emitter(name: str, kind: Any) -> Callable[..., Any] | None:
    """What makes the code of a call; None: it is not here."""
    if name in _WITH_PLACE:
        return _with_place(name, kind)
    if emit := _EMITTED.get(name) or (None if name in _IN_PYTHON else _of_rounding(name)):
        return emit
    if symbol := _OF_C.get(name):
        return lambda context, builder, args: call(
            builder, symbol, context.get_value_type(kind.return_type), *args
        )
    if name in _BITS:
        return lambda context, builder, args: builder.bitcast(
            args[0], context.get_value_type(kind.return_type)
        )
    if name in _AS_CUDA:
        return lambda context, builder, args: _of_cuda(
            context, builder, _AS_CUDA[name], kind, args[0]
        )
    if function := _IN_PYTHON.get(name):
        return lambda context, builder, args: context.compile_internal(
            builder, function, kind, args
        )
    return None


def _of_cuda(context: Any, builder: Any, name: str, kind: Any, value: Any) -> ir.Value:
    width = kind.args[0].bitwidth
    form = ir.IntType(width)
    if name == "brev":
        return builder.bitreverse(value)
    if name == "popc":
        found = builder.ctpop(value)
    elif name == "clz":
        found = builder.ctlz(value, ir.IntType(1)(0))
    else:
        found = builder.add(builder.cttz(value, ir.IntType(1)(0)), form(1))
        is_zero = builder.icmp_unsigned("==", value, form(0))
        found = builder.select(is_zero, form(0), found)
    wanted = context.get_value_type(kind.return_type)
    return builder.trunc(found, wanted) if width > wanted.width else found


@functools.cache
def function_of(name: str) -> Any:
    """``libdevice.<name>`` for the compiler. TypingError: it is not compiled for the CPU."""
    kind = create_signature(*functions[f"__nv_{name}"])
    emit = _emitter(name, kind)
    if emit is None:
        raise errors.TypingError(
            f"cuda.libdevice.{name} is not compiled for the CPU: run with --device sim, or use math"
        )
    code = emit

    def codegen(context: Any, builder: Any, _sig: Any, args: Any) -> Any:
        return code(context, builder, args)

    return with_arity(len(kind.args), lambda *_given: (kind, codegen))


# -- math ----------------------------------------------------------------------------------------


def _float_of(*given: Any) -> Any:
    """float32 for arguments that all are; float64 for what else is a number."""
    return types.float32 if set(given) == {types.float32} else types.float64


def _by_c(name: str) -> Any:
    """A function of two floats, by C's of that name."""

    def typing(*given: Any) -> Any:
        kind = _float_of(*given)

        def codegen(context: Any, builder: Any, _sig: Any, args: Any) -> Any:
            symbol = f"{name}f" if kind == types.float32 else name
            return call(builder, symbol, context.get_value_type(kind), *args)

        return signature(kind, kind, kind), codegen

    return with_arity(2, typing)


def _parts(given: Any) -> Any:
    """``math.modf``: the fraction and the whole part, both with the sign of the number."""
    kind = _float_of(given)
    pair = types.UniTuple(kind, 2)

    def codegen(context: Any, builder: Any, _sig: Any, args: Any) -> Any:
        value, form = args[0], context.get_value_type(kind)
        end = "f" if kind == types.float32 else ""
        whole = call(builder, f"trunc{end}", form, value)
        is_whole = builder.fcmp_ordered("==", whole, value)  # infinity, too
        rest = builder.select(is_whole, form(0.0), builder.fsub(value, whole))
        rest = call(builder, f"copysign{end}", form, rest, value)
        return context.make_tuple(builder, pair, [rest, whole])

    return signature(pair, kind), codegen


#: Numba has these for GPUs, and not for CPUs.
_OF_MATH: dict[Any, Any] = {
    math.fmod: _by_c("fmod"), math.remainder: _by_c("remainder"), math.modf: with_arity(1, _parts),
}  # fmt: skip


def _meaning(value: Any) -> Any:
    if isinstance(value, BuiltinFunctionType) and value in _OF_MATH:
        return _OF_MATH[value]
    of_numba = getattr(value, "__module__", "") == _MODULE and callable(value)
    return function_of(value.__name__) if of_numba else None


MEANINGS.append(_meaning)
