# SPDX-License-Identifier: BSD-3-Clause
"""How every public device routine is made: the one place that sees them all.

What holds for all of them, such as the simulator's integers, is done here once; so would be tracing and
checks of their own. ``pyshmem.device`` takes its routines from ``ROUTINES``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..host.kernels.examples import documented
from .groups import GRID, SCOPES
from .leaf.backend import public_function

Body = Callable[..., Any]
#: All routines by name, with the function that kernels are compiled from.
ROUTINES: dict[str, Body] = {}


def routine(body: Body, name: str = "", **words: str) -> Body:
    """``body`` as a public routine: what kernels call it by, and its documentation.

    Args:
        body: the routine; what it says on itself becomes the documentation.
        name: its name, when that is not the one of ``body``.
        words: filled into the documentation, with ``{name}``.
    """
    body.__name__ = body.__qualname__ = name or body.__name__
    body.__module__ = "pyshmem.device"
    body.__doc__ = documented(body, {**words, "name": name} if words else {})
    ROUTINES[body.__name__] = made = public_function(body)
    return made


def scoped(name: str = "", grid: bool = False, **words: str) -> Callable[[Body], Body]:
    """A decorator of ``make(scope)``, which returns a routine, or several, for the threads of a scope.

    They are made for a thread, a warp, a block and, if asked, a grid. Their names are those of the
    bodies, or ``name``, with ``_warp``, ``_work_group`` and ``_grid`` behind.
    """

    def decorate(make: Body) -> Body:
        for scope in (*SCOPES, GRID) if grid else SCOPES:
            made = make(scope)
            for body in made if isinstance(made, tuple) else (made,):
                base = name or body.__name__
                if words:
                    body.__doc__ = (body.__doc__ or "").format(name=base, **words)
                if body.__doc__:
                    body.__doc__ = f"{body.__doc__.rstrip()}\n\n    Scope: {scope.help}\n    "
                routine(body, base + scope.suffix)
        return make

    return decorate
