# SPDX-License-Identifier: BSD-3-Clause
"""How every public device routine is made: the one place that sees them all.

What holds for all of them, such as the simulator's integers, is done here once; so would be tracing and
checks of their own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .groups import GRID, SCOPES, Scope
from .leaf.chosen import device_function, public_function

#: All routines by name, with the function that kernels are compiled from.
ROUTINES: dict[str, Callable[..., Any]] = {}


def routine(body: Callable[..., Any], name: str = "", **words: str) -> Callable[..., Any]:
    """``body`` as a public routine: what kernels call it by, and its documentation.

    Args:
        body: the routine; what it says on itself becomes the documentation.
        name: its name, when that is not the one of ``body``.
        words: filled into the documentation, with ``{name}``.
    """
    body.__name__ = body.__qualname__ = name or body.__name__
    body.__module__ = "pyshmem.device"
    if words:
        body.__doc__ = (body.__doc__ or "").format(name=name, **words)
    ROUTINES[body.__name__] = made = public_function(device_function(body))
    return made


def scoped(
    make: Callable[[Scope], Callable[..., Any]], name: str = "", grid: bool = False, **words: str
) -> tuple[Callable[..., Any], ...]:
    """``make(scope)`` for a thread, a warp, a block and, if asked, a grid, as public routines.

    Their names are that of the body, or ``name``, with ``_warp``, ``_work_group`` and ``_grid`` behind.
    """
    made = []
    for scope in (*SCOPES, GRID) if grid else SCOPES:
        body = make(scope)
        base = name or body.__name__
        if words:
            body.__doc__ = (body.__doc__ or "").format(name=base, **words)
        if body.__doc__:
            body.__doc__ = f"{body.__doc__.rstrip()}\n\n    Scope: {scope.help}\n    "
        made.append(routine(body, base + scope.suffix))
    return tuple(made)
