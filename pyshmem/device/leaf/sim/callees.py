# SPDX-License-Identifier: BSD-3-Clause
"""Names in kernels, by what they are at the launch: what compilers for GPUs do not know.

The tables were made with Numba-CUDA's compiler; ``tests/unit/test_kernel_source.py`` tries parts again.
"""

from __future__ import annotations

import ast
import builtins
import enum
import functools
import types
from typing import Any

import numpy as np
from numba.core.typing.templates import builtin_registry

from ...._core.arrays.checks import SymmetricArray

_VALUES = "kernels have numbers, tuples and arrays"
#: Built in, and of no kernel.
_ABSENT = (
    "all any ascii bin bytearray callable chr compile delattr dir eval exec filter format frozenset "
    "getattr globals hash hex id input issubclass locals map memoryview oct open repr reversed "
    "setattr vars"
)
#: What kernels have of ``math``, by the number of arguments.
_MATH = {
    1: "acos acosh asin asinh atan atanh ceil cos cosh degrees erf erfc exp exp2 expm1 fabs floor "
    "frexp gamma isfinite isinf isnan lgamma log log10 log1p log2 modf radians sin sinh sqrt tan "
    "tanh trunc",
    2: "atan2 copysign fmod hypot ldexp nextafter pow remainder",
}
#: Functions of NumPy on numbers that kernels do not have; those that make arrays are told by ``source``.
_UFUNCS = (
    "abs absolute add cbrt ceil clip copysign divmod exp exp2 expm1 fabs float_power floor "
    "floor_divide fmod frexp gcd heaviside isfinite isinf lcm ldexp log1p logaddexp logaddexp2 mod "
    "modf multiply negative nextafter positive power reciprocal remainder rint round sign signbit "
    "spacing sqrt square subtract true_divide trunc nditer median percentile quantile average min max "
    "amin amax sort copyto"
)
#: What kernels have of arrays alone: no number, and no tuple.
REDUCTIONS = (
    np.sum,
    np.prod,
    np.mean,
    np.std,
    np.var,
    np.nansum,
    np.count_nonzero,
    np.argmax,
    np.argmin,
    np.size,
    np.shape,
)
#: Modules whose functions a compiler looks up by itself.
_KNOWN = (
    "builtins",
    "cuda",
    "llvmlite",
    "math",
    "cmath",
    "ml_dtypes",
    "numba",
    "numba_cuda",
    "numpy",
)
_OURS = __name__.partition(".")[0]
#: Methods that no type of kernels has.
_METHODS = frozenset(
    [
        "as_integer_ratio",
        "astype",
        "bit_length",
        "count",
        "hex",
        "is_integer",
        "to_bytes",
        "_asdict",
        "_replace",
    ]
)
_DEVICE = "give it @cuda.jit(device=True), or write it within the kernel"


@functools.cache
def _told_by_id() -> dict[int, str]:
    table = {id(getattr(builtins, name)): f"{name}(...)" for name in _ABSENT.split()}
    found = (name for name in _UFUNCS.split() if hasattr(np, name))
    return table | {
        id(getattr(np, name)): f"numpy.{name}, which no compiler for GPUs has: look in math"
        for name in found
    }


def _of_module(owner: Any) -> str:
    return str(getattr(owner, "__module__", None) or "").partition(".")[0]


def _is_registered(function: Any) -> bool:
    """Is it one for which somebody has told Numba what to compile?"""
    return any(known is function for known, _ in builtin_registry.globals)


def of_value(value: Any, name: str) -> str:
    """What is said of a global, or a variable of the function around; empty: nothing."""
    if told := _told_by_id().get(id(value)):
        return told
    if isinstance(value, SymmetricArray):
        return f"{name}, a symmetric array that is no argument: give it as one"
    if isinstance(value, (list, dict, set, frozenset)):
        return f"a global {type(value).__name__}: make it a tuple, or an array of NumPy"
    module = _of_module(value)
    if module in _KNOWN or module == _OURS:
        return ""
    if isinstance(value, (types.FunctionType, types.BuiltinFunctionType, types.MethodType)):
        return "" if _is_registered(value) else f"{name}, a function of Python: {_DEVICE}"
    if type(value) is type and not issubclass(value, (np.generic, tuple, BaseException, enum.Enum)):
        return f"{name}, a class: {_VALUES}"
    return ""


def of_math(called: Any, node: ast.Call) -> str:
    """What is said of a call of ``math``."""
    if getattr(called, "__module__", "") != "math" or not callable(called):
        return ""
    name, given = called.__name__, len(node.args)
    if any(isinstance(one, ast.Starred) for one in node.args):
        return ""
    if name in _MATH.get(given, "").split():
        return ""
    return f"math.{name} of {given} argument(s), which no compiler for GPUs has"


def of_builtin(called: Any, node: ast.Call) -> str:
    """What is said of how a built-in function is called."""
    if getattr(called, "__module__", "") != "builtins" or isinstance(called, types.MethodType):
        return ""
    names = [one.arg for one in node.keywords]
    if names and not (called is sum and names == ["start"]):
        return f"{called.__name__}({names[0]}=...): in kernels it has no such argument"
    if called is pow and len(node.args) > 2:
        return "pow of three numbers"
    if called is isinstance and any(
        isinstance(one, ast.Attribute) and one.attr == "ndarray" for one in ast.walk(node)
    ):
        return "a question for numpy.ndarray: a kernel knows what it is given"
    if called is int and node.args and isinstance(node.args[0], ast.Constant):
        return "int of a text" if isinstance(node.args[0].value, str) else ""
    return ""


def of_method(node: ast.Call) -> str:
    """What is said of a method of a number, a tuple or a text."""
    called = node.func
    if not isinstance(called, ast.Attribute):
        return ""
    if called.attr in _METHODS:
        return f"{called.attr}(): {_VALUES}, without such methods"
    if isinstance(called.value, ast.Constant) and isinstance(called.value.value, str):
        return f"{called.attr}() of a text: kernels print texts as they are"
    return ""


def is_callable(value: Any) -> bool:
    """Is it a function, of a module or of kernels?"""
    return callable(value) and not isinstance(value, type)
