# SPDX-License-Identifier: BSD-3-Clause
"""What of Triton's interpreter is replaced and read. Seen in Triton 3.6 to 3.9.

Importing this imports Triton, whose interpreter must have been turned on.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Mapping
from typing import Any

from triton.language import standard
from triton.runtime import interpreter

from .hooks import Around, Hook

_BUILDER = interpreter.InterpreterBuilder

#: The way through a grid, and calls of jitted functions from kernels.
GRID = Hook(interpreter.GridExecutor, "__call__", "self")
CALL = Hook(interpreter.InterpretedFunction, "__call__", "self")
#: Methods of the builder on which kernels spin.
ATOMICS = tuple(Hook(_BUILDER, name, "self") for name in ("create_atomic_cas", "create_atomic_rmw"))


class ByPosition(Hook):
    """A method that some versions call with keywords: what is put around it has no names for them."""

    def wrap(self, around: Around) -> None:
        """As ``Hook``'s; keywords go to their places in front of ``around``."""
        super().wrap(around)
        made = self.value()
        names = list(inspect.signature(made).parameters)

        @functools.wraps(made)
        def by_position(*given: Any, **named: Any) -> Any:
            return (
                made(*given, *(named[name] for name in names[len(given) :]))
                if named
                else made(*given)
            )

        self.replace(by_position)


LOAD = ByPosition(_BUILDER, "create_masked_load", "self ptrs mask other")
STORE = ByPosition(_BUILDER, "create_masked_store", "self ptrs value mask")
#: What makes pointers: of one, which is the first argument; of one for all places; of two.
OF_POINTERS = tuple(
    Hook(_BUILDER, f"create_{name}", f"self {first}")
    for name, first in (
        *(("addptr", "ptr"), ("expand_dims", "arg"), ("broadcast", "arg"), ("reshape", "arg")),
        *(("trans", "arg"), ("unsplat", "arg"), ("bitcast", "src"), ("int_to_ptr", "src")),
        ("ptr_to_int", "src"),
    )
)
SPLAT = Hook(_BUILDER, "create_splat", "self ret_ty arg")
SELECT = Hook(_BUILDER, "create_select", "self cond lhs rhs")
#: What makes the pointers of descriptors, and of block pointers, which not every version has.
MATERIALIZED = tuple(
    Hook(getattr(interpreter, name), "materialize_pointers", "self")
    for name in ("TensorDescHandle", "BlockPointerHandle")
    if hasattr(interpreter, name)
)
#: A constant of bfloat16; not every version has it.
BFLOAT16 = Hook(_BUILDER, "get_bf16", "self value")
#: The values of an operand of a scaled product.
SCALED_OPERANDS = tuple(
    Hook(interpreter, name, "value_handle")
    for name in ("_mxfp_value_handle_to_float32",)
    if hasattr(interpreter, name)
)
#: What all reductions, and all scans, go through.
FOLDS = (
    Hook(interpreter.ReduceOps, "apply_impl", "self input"),
    Hook(interpreter.ScanOps, "apply_impl", "self input"),
)

#: A value as kernels see it; the names of ``triton.language`` in a function's globals; a dtype as
#: NumPy's; a function rewritten.
_READ = ("_implicit_cvt", "_patch_lang", "_get_np_dtype", "FunctionRewriter")
implicit_cvt, patch_lang, get_np_dtype, FunctionRewriter = (
    getattr(interpreter, name) for name in _READ
)
#: The enumerations of the compiler, and the interpreter's loads and atomics, in C++.
ir, memory = interpreter._ir, interpreter._interpreter
#: Functions whose reductions and scans are done by NumPy; others are by the function's own operations,
#: which are the builder's.
COMBINES = [
    getattr(standard, name)
    for name in (
        *("_argmin_combine_tie_break_left", "_argmin_combine_tie_break_fast"),
        *("_argmax_combine_tie_break_left", "_argmax_combine_tie_break_fast"),
        *("_elementwise_max", "_elementwise_min", "_sum_combine", "_prod_combine"),
    )
]

#: What notes the attributes of the language that are replaced.
SCOPE = Hook(interpreter, "_LangPatchScope", "")

HOOKS = (
    *(SCOPE, GRID, CALL, *ATOMICS, LOAD, STORE, *SCALED_OPERANDS, *FOLDS),
    *(*OF_POINTERS, SPLAT, SELECT, *MATERIALIZED),
    *(Hook(interpreter, name, "") for name in _READ),
    *(Hook(memory, name) for name in ("load", "atomic_cas")),
    *(Hook(ir, name) for name in ("ROUNDING_MODE", "PADDING_OPTION", "ATOMIC_OP")),
)


#: What ``patch_lang`` has begun to replace; launches take turns.
_scopes: list[Any] = []


class Scope(interpreter._LangPatchScope):  # type: ignore[misc, unused-ignore]
    """What Triton notes of the attributes that it replaces, known before it replaces the first."""

    def __init__(self) -> None:
        super().__init__()
        _scopes.append(self)


def _restore() -> None:
    """What is put back is forgotten afterwards: done twice it does no harm."""
    while _scopes:
        changes = _scopes[-1]._changes
        while changes:
            owner, name, original = changes[-1]
            if original is not interpreter._MISSING:
                setattr(owner, name, original)
            elif name in vars(owner):
                delattr(owner, name)
            del changes[-1]
        del _scopes[-1]


def restore_lang() -> None:
    """The language as it was before ``patch_lang``, whether that came to its end or not.

    An exception of a signal's handler ends neither this half way.
    """
    try:
        _restore()
    except BaseException:
        _restore()
        raise


def repair(methods: Mapping[str, Around]) -> None:
    """Wrap methods of the builder, by their names; not every version of Triton has all."""
    for name, around in methods.items():
        if hasattr(_BUILDER, name):
            Hook(_BUILDER, name, "self").wrap(around)
