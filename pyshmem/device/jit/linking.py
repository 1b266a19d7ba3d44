# SPDX-License-Identifier: BSD-3-Clause
"""Each LLVM module of a kernel goes to the compiler once, and each kernel once on a host.

numba-cuda lists a library once for every way that leads to it, which for a collective is nine times on
average, and NVVM reads them all; of a kernel with ``debug=True`` it compiles and assembles each of them.

What NVVM and the linker make of a kernel that calls routines is kept in a file under a name made of all
that it depends on: one PE compiles while the others wait, and the next job does not at all.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterator
from hashlib import sha256
from typing import Any

from numba.cuda import codegen

from ..._core import kept_files
from ..._core.library import setting_number
from ..._foreign import numba_cuda
from ..._foreign import numba_cuda_texts as foreign
from ..._foreign.numba_cuda_texts import TextLibrary
from ..state import SYMBOL
from . import content_names, grid_barrier

#: Of the files of kernels: part of their names.
_FORMAT = 2


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
    if grid_barrier.replaces_library(library, called):
        yield grid_barrier.text_for(library)


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


def _key(
    library: Any, called: Collection[Any], cc: tuple[Any, ...], links: int
) -> list[Any] | None:
    """All that a kernel's machine code depends on; None: it is not kept.

    Routines that were compiled before have names made of their content. Kernels that call none are left
    to Numba. ``links``: the word P2P that the kernel was compiled for, or 0.
    """
    routines = [one.name for one in libraries_of(library) if isinstance(one, TextLibrary)]
    if not routines or not foreign.is_of_kernel(library) or not foreign.links_as_it_is(library):
        return None
    options = sorted((name, str(value)) for name, value in library._nvvm_options.items())
    limits = [library._max_registers, setting_number("KERNEL_REGISTERS")]  # of the called ones, too
    how = [library._lto, *limits, library.needs_cudadevrt, list(cc), options, links]
    by = [_FORMAT, kept_files.origin(), foreign.dialect(), foreign.linker_version()]
    own = content_names.digest(own_texts(library))
    return [own, routines, [one.name for one in called], how, by]


def link_once_on_a_host(
    library: Any, called: Collection[Any], cc: tuple[Any, ...], links: int, link: Callable[[], Any]
) -> Any:
    """What ``link`` makes of a kernel, or made of it before, here or in another process.

    That has the entry's name of the process that made it, which differs by a number.
    """
    key = None if cc in library._cubin_cache else _key(library, called, cc, links)
    if key is None:
        return link()
    name = sha256(json.dumps(key).encode()).hexdigest()[:32]
    made: list[Any] = []

    def make() -> kept_files.File:
        made.append(link())
        told = str(library._linkerinfo_cache.get(cc, ""))
        return {"name": name, "entry": library._entry_name, "told": told}, bytes(made[0].code)

    def use(file: kept_files.File) -> Any:
        about, code = file
        if made or about.get("name") != name or not {"entry", "told"} <= about.keys():
            return made[0] if made else None
        library._entry_name = about["entry"]
        library._linkerinfo_cache[cc] = about["told"]
        library._cubin_cache[cc] = foreign.machine_code(code, about["entry"])
        return library._cubin_cache[cc]

    return kept_files.kept(kept_files.folder() / f"kernel-{name}.cubin", make, use)


def with_state_word(text: str, index: int, value: int) -> str:
    """LLVM text of a module that takes a word of the state block for this constant.

    Of P2P, which is one for all PEs of a job: where it is not 0, all functions go that reach a PE out
    of reach, a fifth to a third of the time that a collective takes to link.
    """
    place = rf'@"?{SYMBOL}"?, i64 0, i64 {index}(?:, !dbg !\d+)?\n\s*'
    load = r"(%\S+ = )load i64, [^,]* \1,.*"
    return re.sub(rf"(%\S+) = getelementptr .*{place}{load}", rf"\2add i64 {value}, 0", text)
