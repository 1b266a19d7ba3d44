# SPDX-License-Identifier: BSD-3-Clause
"""What of Triton's compiler is replaced and read. Seen in Triton 3.6 to 3.9."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from triton import knobs
from triton._utils import type_canonicalisation_dict
from triton.language import core

from .hooks import Hook

#: Called for each kernel that is compiled, or found compiled, before its first launch.
AFTER_COMPILATION = Hook(knobs.runtime, "jit_post_compile_hook")
AGGREGATE = Hook(core, "_aggregate", "cls")
#: The short names of dtypes.
DTYPES: dict[Any, str] = type_canonicalisation_dict

HOOKS = (AFTER_COMPILATION, AGGREGATE)


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
