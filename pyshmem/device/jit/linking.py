# SPDX-License-Identifier: BSD-3-Clause
"""Each LLVM module of a kernel goes to the compiler once.

numba-cuda lists a library once for every way that leads to it, which for a collective is nine times on
average, and NVVM reads them all; of a kernel with ``debug=True`` it compiles and assembles each of them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import Any

from numba.cuda import codegen

from ..._foreign import numba_cuda
from ..._foreign.numba_cuda_texts import TextLibrary


def libraries_of(library: Any, without: Collection[Any] = ()) -> list[Any]:
    """The library and all that it links to, each once, and each behind all that link to it.

    NVVM drops a function that no module before it has asked for, so callers have to come first.
    ``without``: libraries that Numba's own ones call by another way than their text.
    """
    done: list[Any] = []
    seen: set[int] = set()

    def visit(one: Any) -> None:
        if id(one) in seen:
            return
        seen.add(id(one))
        text = isinstance(one, TextLibrary)
        for other in sorted(getattr(one, "_linking_libraries", ()), key=lambda each: each.name):
            if text or other not in without:
                visit(other)
        done.append(one)

    visit(library)
    return done[::-1]


def _modules(library: Any, called: Collection[Any]) -> Iterator[Any]:
    alone = "g" in library._nvvm_options  # NVVM compiles each by itself
    for one in libraries_of(library, called):
        if isinstance(one, codegen.CUDACodeLibrary):
            yield one._module
        elif isinstance(one, TextLibrary):
            yield from one.lone_modules if alone else one.modules
        else:  # a library of another kind knows its own
            yield from one.modules


def own_texts(library: Any) -> list[str]:
    """LLVM text of a kernel without that of routines that were compiled before."""
    return [
        str(module)
        for one in libraries_of(library)
        if not isinstance(one, TextLibrary)
        for module in ([one._module] if isinstance(one, codegen.CUDACodeLibrary) else one.modules)
    ]


def link_each_module_once(called_by: Callable[[Any], Collection[Any]]) -> None:
    """From now on, for all kernels of the process; ``called_by``: what one calls as machine code."""

    def modules(library: Any) -> list[Any]:
        return list(_modules(library, called_by(library) if library._entry_name else ()))

    numba_cuda.LLVM_MODULES.replace(property(modules))
