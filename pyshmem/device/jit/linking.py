# SPDX-License-Identifier: BSD-3-Clause
"""Each LLVM module of a kernel goes to the compiler once.

numba-cuda lists a library once for every way that leads to it, which for a collective is nine times on
average, and NVVM reads them all; of a kernel with ``debug=True`` it compiles and assembles each of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from numba.cuda import codegen

from ..._foreign import numba_cuda


def libraries_of(library: Any) -> list[Any]:
    """The library and all that it links to, each once, and each behind all that link to it.

    NVVM drops a function that no module before it has asked for, so callers have to come first.
    """
    done: list[Any] = []
    seen: set[int] = set()

    def visit(one: Any) -> None:
        if id(one) in seen:
            return
        seen.add(id(one))
        for other in sorted(getattr(one, "_linking_libraries", ()), key=lambda each: each.name):
            visit(other)
        done.append(one)

    visit(library)
    return done[::-1]


def _modules(library: Any) -> Iterator[Any]:
    for one in libraries_of(library):
        if isinstance(one, codegen.CUDACodeLibrary):
            yield one._module
        else:  # a library of another kind knows its own
            yield from one.modules


def link_each_module_once() -> None:
    """From now on, for all kernels of the process."""
    numba_cuda.LLVM_MODULES.replace(property(lambda library: list(_modules(library))))
