# SPDX-License-Identifier: BSD-3-Clause
"""``numba.cuda.libdevice`` in kernels that are compiled for the CPU: mostly the machine's ``libm``.

Types are those of Numba's table of that library. Functions whose rounding a CPU would have to be told
(``_rd``, ``_ru``) and those with several results are not here: they raise in the compiler. Functions of
``math`` that Numba has for GPUs alone are last.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from types import BuiltinFunctionType
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import errors
from numba.core.typing import signature
from numba.cuda.libdevicefuncs import functions

from .target import MEANINGS, call, with_arity

_MODULE = "numba.cuda.libdevice"

#: Functions of C's ``math.h``; with an f behind they are float32's.
_OF_C = {
    name: name
    for name in (
        "acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "cbrt", "ceil", "copysign",
        "cos", "cosh", "erf", "erfc", "exp", "exp2", "exp10", "expm1", "fabs", "fdim", "floor",
        "fma", "fmax", "fmin", "fmod", "hypot", "j0", "j1", "y0", "y1", "lgamma", "log", "log10",
        "log1p", "log2", "logb", "nearbyint", "nextafter", "pow", "remainder", "rint", "round",
        "sin", "sinh", "sqrt", "tan", "tanh", "tgamma", "trunc", "ldexp", "scalbn", "ilogb", "jn",
        "yn",
    )
}  # fmt: skip
_OF_C |= {f"{name}f": f"{name}f" for name in _OF_C}
_OF_C |= {
    f"fast_{name}f": f"{name}f"
    for name in ("cos", "exp", "exp10", "log", "log10", "log2", "pow", "sin", "tan")
}


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
    "sinpi": lambda a: math.sin(math.pi * (a - 2 * math.floor(a / 2))),
    "cospi": lambda a: math.cos(math.pi * (a - 2 * math.floor(a / 2))),
    "powi": lambda a, b: a ** float(b),
}
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
#: Conversions that round as C does: integers to the nearest float, floats towards zero.
_IN_PYTHON |= {
    name.removeprefix("__nv_"): _itself
    for name in functions
    if name.endswith(("2double_rn", "2float_rn", "2int_rz", "2uint_rz", "2ll_rz", "2ull_rz"))
}

#: The same bits as another type.
_BITS = ("double_as_longlong", "longlong_as_double", "float_as_int", "int_as_float")
#: Of integers, as ``cuda`` has them.
_AS_CUDA = {
    name: name.removesuffix("ll")
    for name in ("brev", "brevll", "clz", "clzll", "ffs", "ffsll", "popc", "popcll")
}


def _emitter(name: str, kind: Any) -> Callable[..., Any] | None:
    """What makes the code of a call; None: it is not here."""
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
    result, arguments = functions[f"__nv_{name}"]
    kind = signature(result, *(one.ty for one in arguments))
    emit = None if any(one.is_ptr for one in arguments) else _emitter(name, kind)
    if emit is None:
        raise errors.TypingError(
            f"cuda.libdevice.{name} is not compiled for the CPU: run with --device sim, or use math"
        )
    code = emit

    def codegen(context: Any, builder: Any, _sig: Any, args: Any) -> Any:
        return code(context, builder, args)

    return with_arity(len(arguments), lambda *_given: (kind, codegen))


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
