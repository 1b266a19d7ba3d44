# SPDX-License-Identifier: BSD-3-Clause
"""What of Triton's compiler is replaced and read. Seen in Triton 3.6 to 3.9."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from triton import compiler, knobs
from triton._utils import type_canonicalisation_dict
from triton.language import core

from .hooks import Hook

#: Called for each kernel that is compiled, or found compiled, before its first launch.
AFTER_COMPILATION = Hook(knobs.runtime, "jit_post_compile_hook")
#: Compiles a kernel, or finds it in Triton's folder of files. Kernels take it at their first launch.
COMPILE = Hook(compiler, "compile", "src target options")
AGGREGATE = Hook(core, "_aggregate", "cls")
#: The short names of dtypes.
DTYPES: dict[Any, str] = type_canonicalisation_dict

HOOKS = (AFTER_COMPILATION, COMPILE, AGGREGATE)

_guarded = False


def aggregate(cls: Any) -> Any:
    """A class of the kernels' language made of a class of Python."""
    return AGGREGATE.value()(cls)


def after_compilation(call: Callable[..., Any]) -> Callable[..., Any] | None:
    """Have Triton call it, by names; what it called before, or None. Once: a second time is nothing."""
    before: Callable[..., Any] | None = knobs.runtime.jit_post_compile_hook
    if before is call:
        return None
    AFTER_COMPILATION.replace(call)
    return before


def compile_one_at_a_time(guard: Callable[[str], AbstractContextManager[None]]) -> None:
    """Kernels are compiled within ``guard``, which gets a hash of the source. A second time is nothing.

    Processes that start together would else compile a kernel each: Triton looks for its file before it
    compiles, and not again.
    """
    global _guarded
    if _guarded:
        return
    _guarded = True

    def guarding(compile_kernel: Callable[..., Any]) -> Callable[..., Any]:
        def compile_guarded(src: Any, *args: Any, **options: Any) -> Any:
            if isinstance(src, str):  # the name of a file, which somebody compiles by hand
                return compile_kernel(src, *args, **options)
            with guard(src.hash()):
                return compile_kernel(src, *args, **options)

        return compile_guarded

    COMPILE.wrap(guarding)
