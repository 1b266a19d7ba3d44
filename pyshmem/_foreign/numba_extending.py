# SPDX-License-Identifier: BSD-3-Clause
"""``numba.cuda.extending`` where kernels are compiled for the CPU: Numba's own of the same names.

What a program registers for kernels, for the target ``cuda`` or for all, then holds there, too. Seen in
Numba 0.68.1 and numba-cuda 0.30.4.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator
from typing import Any

from numba import extending as of_numba
from numba.core import imputils
from numba.core.typing import templates
from numba.cuda import extending
from numba.cuda.misc import special
from numba.misc.special import literal_unroll

from . import numba_cpu
from .hooks import Hook

_REGISTERING = ("overload", "overload_attribute", "overload_method", "overload_classmethod")
_ALIKE = ("register_jitable", "make_attribute_wrapper", "type_callable", "typeof_impl")
HOOKS = (
    Hook(extending, "overload", "func jit_options strict inline prefer_literal target"),
    *(Hook(extending, name, "typ attr") for name in _REGISTERING[1:]),
    *(Hook(extending, name) for name in _ALIKE),
    Hook(extending, "intrinsic"),
    Hook(extending, "register_model"),
    Hook(special, "literal_unroll", "container"),
    *(Hook(templates.builtin_registry, name) for name in ("functions", "attributes")),
    *(Hook(imputils.builtin_registry, name) for name in ("functions", "getattrs", "casts")),
)
_BY_NAME = {hook.name: hook for hook in HOOKS}


def _for_kernels(plain: Callable[..., Any]) -> Callable[..., Any]:
    """Numba's, for kernels unless another target is named."""

    @functools.wraps(plain)
    def register(*given: Any, target: str = "cuda", **named: Any) -> Any:
        if named.get("jit_options", {}) is None:
            del named["jit_options"]
        return plain(*given, target=target, **named)

    return register


def _intrinsic(*given: Any, **named: Any) -> Any:
    """Numba's; its code may be a GPU's."""
    numba_cpu.FOREIGN_CODE.append("intrinsic")
    return of_numba.intrinsic(*given, **named)


def _lists() -> tuple[Any, ...]:
    known, lowered = templates.builtin_registry, imputils.builtin_registry
    return known.functions, known.attributes, lowered.functions, lowered.getattrs, lowered.casts


def how_many() -> tuple[int, ...]:
    """What is registered with Numba, in numbers: others when something has been."""
    return tuple(map(len, _lists()))


def registered(known: tuple[int, ...]) -> Iterator[tuple[int, Any]]:
    """Functions that say what is compiled for a call, an attribute or a cast, with their list's number.

    Those that were registered since ``how_many`` said ``known``: nothing is ever taken off these lists.
    """
    for at, (entries, first) in enumerate(zip(_lists(), known, strict=True)):
        for entry in entries[first:]:
            for function in _of_template(entry) if at < _TEMPLATES else entry[:1]:
                if inspect.isfunction(function):
                    yield at, function


#: So many of the lists have templates, classes whose functions give types; the others have tuples.
_TEMPLATES = 2


def _of_template(template: Any) -> Iterator[Any]:
    own = vars(template) if isinstance(template, type) else {}
    for name in ("_overload_func", "_definition_func", "generic"):
        function = own.get(name)
        yield getattr(function, "__func__", function)


def install(register_model: Callable[[Any], Any]) -> None:
    """Have them mean that. ``register_model(kind)``: a decorator of the model of a type in kernels."""
    for name in _REGISTERING:
        _BY_NAME[name].replace(_for_kernels(getattr(of_numba, name)))
    for name in _ALIKE:
        _BY_NAME[name].replace(getattr(of_numba, name))
    _BY_NAME["intrinsic"].replace(_intrinsic)
    _BY_NAME["register_model"].replace(register_model)
    _BY_NAME["literal_unroll"].replace(literal_unroll)
